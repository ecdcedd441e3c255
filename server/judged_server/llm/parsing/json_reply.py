"""A structured reply, read strictly.

Case, a space and a full stop make no other word of a yes or no. Nothing else is converted, clamped
or guessed, since a reply that breaks its schema says that the model was not held to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from judged_server.domain import ClaimVerdict, Status
from judged_server.llm.faults import Reason
from judged_server.llm.parsing.parsed_reply import (
    ClaimCheck,
    Claims,
    Dimensions,
    ParsedReply,
    shortened,
)
from judged_server.llm.rubrics.rubric import MAX_CLAIMS, Form, Rubric

MAX_CLAIM_CHARACTERS = 2000
"""A longer claim is no single statement."""

_VERDICTS = {"yes": True, "no": False}
_TRIMMED = re.compile(r"\A\s{1,8}|[.!]?\s{0,8}\Z")


class _BreaksRule(ValueError):
    """The reply is JSON of a kind that does not count; the text says which rule it breaks."""


def read(text: str, rubric: Rubric) -> ParsedReply:
    """Return the parsed reply of a JSON text; ERROR with the reason SCHEMA when it breaks a rule.

    Time is linear in the length of `text`, and no text raises.
    """
    try:
        reply = _DECODER.decode(text)
        return _READERS[rubric.form](_object_with(rubric.properties, reply), rubric)
    except _BreaksRule as broken:
        problem = str(broken)
    except RecursionError:
        problem = "it is nested too deeply"
    except ValueError:  # not JSON, or an integer of thousands of digits
        problem = "it is not one JSON object"
    return ParsedReply(
        Status.ERROR,
        reason=Reason.SCHEMA,
        message=f"the model's reply breaks its schema: {problem}",
    )


def _object_with(keys: Mapping[str, object], reply: object) -> dict[str, Any]:
    """Return a reply that is an object with these keys and no others."""
    if not isinstance(reply, dict):
        raise _BreaksRule("it is not an object")
    if reply.keys() == keys.keys():
        return reply
    for key in sorted(keys):
        if key not in reply:
            raise _BreaksRule(f"{key} is missing")
    raise _BreaksRule("it has more keys than " + ", ".join(sorted(keys)))


def _verdict(reply: Mapping[str, Any], rubric: Rubric) -> ParsedReply:
    verdict = reply["verdict"]
    word = _TRIMMED.sub("", verdict).lower() if isinstance(verdict, str) else ""
    if word not in _VERDICTS:
        raise _BreaksRule('verdict is not "yes" or "no"')
    reasoning = _text(reply, "reasoning")
    yes = _VERDICTS[word]
    score = _share(reply, "score") if rubric.scored else float(yes)
    return ParsedReply(Status.OK, yes=yes, score=score, reasoning=shortened(reasoning))


def _score(reply: Mapping[str, Any], rubric: Rubric) -> ParsedReply:
    reasoning, score = _text(reply, "reasoning"), _share(reply, "score")
    return ParsedReply(
        Status.OK, yes=rubric.passes(score), score=score, reasoning=shortened(reasoning)
    )


def _dimensions(reply: Mapping[str, Any], rubric: Rubric) -> ParsedReply:
    reasoning = _text(reply, "reasoning")
    scores = tuple((name, _share(reply, name)) for name, _ in rubric.dimensions)
    content = Dimensions(scores, _share(reply, "overall"))
    return ParsedReply(Status.OK, reasoning=shortened(reasoning), content=content)


def _claims(reply: Mapping[str, Any], _: Rubric) -> ParsedReply:
    claims = reply["claims"]
    if not isinstance(claims, list):
        raise _BreaksRule("claims is not a list")
    if len(claims) > MAX_CLAIMS:
        raise _BreaksRule(f"claims has more than {MAX_CLAIMS} entries")
    for claim in claims:
        if not isinstance(claim, str):
            raise _BreaksRule("a claim is not a string")
        if not claim.strip():
            raise _BreaksRule("a claim is empty")
        if len(claim) > MAX_CLAIM_CHARACTERS:
            raise _BreaksRule(f"a claim has more than {MAX_CLAIM_CHARACTERS} characters")
        if not _is_unicode(claim):
            raise _BreaksRule("a claim holds a lone surrogate")
    return ParsedReply(Status.OK, content=Claims(tuple(claims)))


def _check(reply: Mapping[str, Any], _: Rubric) -> ParsedReply:
    verdict, evidence = reply["verdict"], _text(reply, "evidence")
    if not isinstance(verdict, str) or verdict not in ClaimVerdict.__members__:
        raise _BreaksRule("verdict is none of " + ", ".join(ClaimVerdict.__members__))
    check = ClaimCheck(ClaimVerdict[verdict], shortened(evidence))
    return ParsedReply(Status.OK, content=check)


_READERS: dict[Form, Callable[[dict[str, Any], Rubric], ParsedReply]] = {
    "verdict": _verdict,
    "score": _score,
    "dimensions": _dimensions,
    "extraction": _claims,
    "verification": _check,
}


def _text(reply: Mapping[str, Any], key: str) -> str:
    value = reply[key]
    if not isinstance(value, str):
        raise _BreaksRule(f"{key} is not a string")
    if not _is_unicode(value):
        raise _BreaksRule(f"{key} holds a lone surrogate")
    return value


def _share(reply: Mapping[str, Any], key: str) -> float:
    value = reply[key]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _BreaksRule(f"{key} is not a number")
    if not 0 <= value <= 1:  # NaN fails too
        raise _BreaksRule(f"{key} is outside of 0 to 1")
    return abs(float(value))  # no -0.0


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these pairs; the json module alone would let the last one win."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _BreaksRule("a key occurs twice")
    return found


def _constant(_: str) -> float:
    raise _BreaksRule("NaN and Infinity are not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)
