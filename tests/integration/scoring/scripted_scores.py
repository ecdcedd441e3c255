"""What a scripted provider says to every rubric of answers, by the words that it is shown."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.fakes.providers.scripted_provider import Answer, Asked, Failure, Said

_BLOCK = re.compile(r'<data-\w+ name="(\w+)">\n(.*)\n</data-')
DIMENSIONS = {
    "relevance": 0.9,
    "completeness": 0.8,
    "accuracy": 0.9,
    "source_attribution": 0.85,
    "coherence": 0.8,
    "confidence": 0.1,
}


def texts_of(asked: Asked) -> dict[str, Any]:
    """The texts in a prompt, by name."""
    return {name: json.loads(text) for name, text in _BLOCK.findall(asked.user)}


def form_of(asked: Asked) -> dict[str, Any]:
    """The fields that a reply must have."""
    form: dict[str, Any] = asked.body["response_format"]["json_schema"]["schema"]["properties"]
    return form


def reply(asked: Asked) -> dict[str, Any]:
    """What a model says that finds all good and supported but what says otherwise.

    "split" is bad in one sample of three.
    """
    texts, form = texts_of(asked), form_of(asked)
    if "claims" in form:
        text = texts.get("answer") or texts["reference"]
        return {"claims": [part for part in str(text).split(". ") if part != "none"]}
    if "evidence" in form:
        verdict = "SUPPORTED"
        words = {"contradicted": "CONTRADICTED", "false": "CONTRADICTED"}
        for word, found in {**words, "not_enough_info": "NOT_ENOUGH_INFO"}.items():
            if word in str(texts["claim"]):
                verdict = found
        return {"evidence": f"on {texts['claim']}", "verdict": verdict}
    if "relevance" in form:
        return {"reasoning": "weighed", **DIMENSIONS, "overall": 0.5}
    said = str(texts)
    bad = "bad" in said or "false" in said or ("split" in said and asked.body["seed"] == 1)
    if "verdict" in form:
        return {"reasoning": "compared", "verdict": "no" if bad else "yes"}
    why = "so it is" + " " * (20_000 if "at length" in said else 0)
    return {"reasoning": why, "score": 0.2 if bad else 0.9}


async def script(asked: Asked) -> Said:
    """Reply, or fail as a word in the texts says; claims are always listed."""
    if "response_format" not in asked.body:  # a system under evaluation, not a judge
        return f"about {asked.user}"
    texts = texts_of(asked)
    judged = "" if "claims" in form_of(asked) else str(texts.get("claim") or texts)
    if "slow" in judged:
        return Answer(json.dumps(reply(asked)), delay_s=600)
    if "failing" in judged:
        return Failure(400)
    if "refuse" in judged:
        return Answer("", refusal="I can't help with that.")
    if "broken" in judged:
        return '{"score": 1.7}'
    return reply(asked)
