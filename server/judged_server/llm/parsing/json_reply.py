"""A structured reply, read strictly.

Owns the rules: one JSON object with the keys of the rubric's schema, each once and with a value of
its type. Nothing is converted, clamped or guessed, since a reply that breaks its schema says that
the model was not held to it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from judged_server.domain import Status
from judged_server.llm.faults import Reason
from judged_server.llm.parsing.shortening import shortened
from judged_server.llm.voting import Opinion

_VERDICTS = {"yes": True, "no": False}


class _BreaksRule(ValueError):
    """The reply is JSON of a kind that does not count; the text says which rule it breaks."""


def read(text: str, *, scored: bool) -> Opinion:
    """Return the opinion of a JSON text; ERROR with the reason SCHEMA when it breaks a rule.

    Time is linear in the length of `text`, and no text raises.
    """
    try:
        reply = _DECODER.decode(text)
        return _opinion(reply, scored)
    except _BreaksRule as broken:
        problem = str(broken)
    except RecursionError:
        problem = "it is nested too deeply"
    except ValueError:  # not JSON, or an integer of thousands of digits
        problem = "it is not one JSON object"
    return Opinion(
        Status.ERROR,
        reason=Reason.SCHEMA,
        message=f"the model's reply breaks its schema: {problem}",
    )


def _opinion(reply: object, scored: bool) -> Opinion:
    if not isinstance(reply, dict):
        raise _BreaksRule("it is not an object")
    keys = {"reasoning", "verdict", "score"} if scored else {"reasoning", "verdict"}
    for key in sorted(keys):
        if key not in reply:
            raise _BreaksRule(f"{key} is missing")
    if len(reply) > len(keys):
        raise _BreaksRule("it has more keys than " + ", ".join(sorted(keys)))
    verdict, reasoning = reply["verdict"], reply["reasoning"]
    if not isinstance(verdict, str) or verdict not in _VERDICTS:
        raise _BreaksRule('verdict is not "yes" or "no"')
    if not isinstance(reasoning, str):
        raise _BreaksRule("reasoning is not a string")
    if not _is_unicode(reasoning):
        raise _BreaksRule("reasoning holds a lone surrogate")
    yes = _VERDICTS[verdict]
    score = _score(reply["score"]) if scored else float(yes)
    return Opinion(Status.OK, yes=yes, score=score, reasoning=shortened(reasoning))


def _score(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _BreaksRule("score is not a number")
    if not 0 <= value <= 1:  # NaN fails too
        raise _BreaksRule("score is outside of 0 to 1")
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
