"""The commands that ask a language model, and files that none has asked about yet."""

from __future__ import annotations

import json
import re
import shlex
from itertools import count

from tests.fakes.providers.scripted_provider import Asked, Said
from tests.integration.traced_world import World

_BLOCK = re.compile(r'<data-\w+ name="(\w+)">\n(.*)\n</data-')
COMMANDS = {
    "judge": shlex.split("judge contexts.jsonl --judge llm"),
    "evaluate": shlex.split("evaluate dataset.json --results results.jsonl -m mrr --judge llm"),
    "score": shlex.split("score answers.jsonl --rubric helpfulness"),
    "calibrate": shlex.split("calibrate labels.jsonl --judge llm"),
}
words = (f"word{number}" for number in count())


def script(asked: Asked) -> Said:
    """Find all relevant and helpful; "split" is a no in one sample of three, "bad" in all."""
    texts = str({name: json.loads(text) for name, text in _BLOCK.findall(asked.user)})
    form = asked.body["response_format"]["json_schema"]["schema"]["properties"]
    no = "bad" in texts or ("split" in texts and asked.body["seed"] == 1)
    if "relevance" in form:
        return {"reasoning": "weighed", **dict.fromkeys(list(form)[1:], 0.5), "accuracy": 1.0}
    if "verdict" in form:
        return {"reasoning": "so it is", "verdict": "no" if no else "yes"}
    return {"reasoning": "so it is", "score": 0.2 if no else 0.9}


def filled(world: World, kind: str = "good") -> World:
    """Write two contexts and two answers, about a word of their own, into its folder."""
    word = next(words)
    texts = [f"{kind} {word} one", f"{kind} {word} two"]
    contexts = [{"query": word, "expected_text": "e", "retrieved_text": text} for text in texts]
    labels = [{**c, "relevant": i == 0, "score": 0.5} for i, c in enumerate(contexts)]
    answers = [{"query": word, "answer": text, "contexts": ["c"]} for text in texts]
    query = {"query_id": "q", "query_text": word, "expected_answers": ["e"]}
    results = [{"doc_id": str(place), "text": text} for place, text in enumerate(texts)]
    for name, lines in (
        ("contexts.jsonl", contexts),
        ("labels.jsonl", labels),
        ("answers.jsonl", answers),
        ("results.jsonl", [{"query_id": "q", "results": results}]),
        ("dataset.json", [{"queries": [query]}]),
    ):
        (world.folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return world


def asked_by(world: World, *arguments: str, status: int = 0) -> list[Asked]:
    """What the model was asked while a command ran, which ends as it should."""
    before = len(world.provider.asked)
    done = world(*arguments)
    assert done.returncode == status, done.stderr
    return world.provider.asked[before:]
