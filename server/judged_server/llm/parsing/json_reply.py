"""A structured reply, read strictly.

Case, a space and a full stop make no other word of a yes or no; a comma before a bracket, a fence,
a few polite words around the object or the rubric's id around it change nothing. Nothing else is
converted, clamped or guessed, since a reply that breaks its schema says that the model was not held
to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from judged.values.choices import ClaimVerdict, Status

from judged_server.llm.chat import ClaimCheck, Claims, Dimensions, ParsedReply, Reason, failed
from judged_server.llm.rubrics.rubric import MAX_CLAIMS, Rubric

MAX_CLAIM_CHARACTERS = 2000
"""A longer claim is no single statement."""

MAX_WHOLE_GRADE = 10**6
"""Whole numbers beyond this are no word of any scale: one of thousands of digits is not written."""

_TRIMMED = re.compile(r"\A\s{1,8}|[.!]?\s{0,8}\Z")


class _BreaksRule(ValueError):
    """The reply is JSON of a kind that does not count; the text says which rule it breaks."""


def read(text: str, rubric: Rubric) -> ParsedReply:
    """Return the parsed reply of a JSON text; ERROR with the reason SCHEMA when it breaks a rule.

    Time is linear in the length of `text`, and no text raises.
    """
    try:
        reply = _DECODER.decode(text)
        if isinstance(reply, dict) and reply.keys() == {rubric.id} - rubric.properties.keys():
            reply = reply[rubric.id]
        return _parsed(_values(reply, rubric), rubric)
    except _BreaksRule as broken:
        problem = str(broken)
    except RecursionError:
        problem = "it is nested too deeply"
    except ValueError:  # not JSON, or an integer of thousands of digits
        problem = "it is not one JSON object"
    return failed(Reason.SCHEMA, f"the model's reply breaks its schema: {problem}")


def _parsed(said: Mapping[str, Any], rubric: Rubric) -> ParsedReply:
    """Return what the values of a reply come to, by the rubric's form."""
    reasoning = said.get("reasoning", "")
    content: Dimensions | Claims | ClaimCheck | None = None
    yes, score = False, said.get("score", 0.0)
    if rubric.form == "verdict":
        yes = said["verdict"] == "yes"
        score = score if rubric.scored else float(yes)
    elif rubric.form == "dimensions":
        scores = tuple((name, said[name]) for name, _ in rubric.dimensions)
        content = Dimensions(scores, said["overall"])
    elif rubric.form == "extraction":
        content = Claims(said["claims"])
    elif rubric.form == "verification":
        content = ClaimCheck(ClaimVerdict[said["verdict"]], said["evidence"])
    else:
        if rubric.form == "grade":
            score = rubric.grades.index(said["grade"]) / rubric.max_grade
        yes = rubric.passes(score)
    return ParsedReply(Status.OK, yes=yes, score=score, reasoning=reasoning, content=content)


def _values(reply: object, rubric: Rubric) -> dict[str, Any]:
    """Return what a reply holds under each key of the rubric's schema, and no others."""
    rules = rubric.properties
    if not isinstance(reply, dict):
        raise _BreaksRule("it is not an object")
    for key in sorted(rules):
        if key not in reply:
            raise _BreaksRule(f"{key} is missing")
    if len(reply) > len(rules):
        raise _BreaksRule("it has more keys than " + ", ".join(sorted(rules)))
    return {key: _value(key, reply[key], rule, rubric) for key, rule in rules.items()}


def _value(key: str, value: object, rule: Mapping[str, Any], rubric: Rubric) -> object:
    """Return what stands under a key as its rule has it."""
    if rule["type"] == "array":
        return _claims(value)
    if rule["type"] == "number":
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _BreaksRule(f"{key} is not a number")
        if not 0 <= value <= 1:  # NaN fails too
            raise _BreaksRule(f"{key} is outside of 0 to 1")
        return abs(float(value))  # no -0.0
    if "enum" in rule:
        return _word(key, value, rule["enum"], exact=rubric.form == "verification")
    if not isinstance(value, str):
        raise _BreaksRule(f"{key} is not a string")
    if not _is_unicode(value):
        raise _BreaksRule(f"{key} holds a lone surrogate")
    return shortened(value)


def _word(key: str, said: object, words: Sequence[str], *, exact: bool) -> str:
    """Return the one that is said of some words."""
    if isinstance(said, int) and not isinstance(said, bool) and abs(said) <= MAX_WHOLE_GRADE:
        said = str(said)  # without a schema: 2, not "2"
    if isinstance(said, str) and not exact:
        word = _TRIMMED.sub("", said).lower()
        said = next((each for each in words if each.lower() == word), "")
    if said not in words:
        raise _BreaksRule(f"{key} is none of " + ", ".join(words))
    return str(said)


def _claims(claims: object) -> tuple[str, ...]:
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
    return tuple(claims)


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


_TAG = re.compile(
    r"<(?P<ends>/?)(?:think(?:ing)?|thought|reasoning|reflection)>|\[(?P<closes>/?)think\]",
    re.IGNORECASE | re.ASCII,
)
_MAX_TAGS = 64
_FENCE = re.compile(r"```[A-Za-z0-9_+-]{0,20}[ \t]*\r?\n")
_FENCE_END = re.compile(r"\n[ \t]*```\Z")
_FENCE_BEFORE = re.compile(r"```(?:json)?[ \t]*\r?\n\s*\Z", re.IGNORECASE)
_FENCE_AFTER = re.compile(r"\s*\n[ \t]*```(?!\w)")
_TRAILING_COMMA = re.compile(r",(?=\s*[}\]])")
# As above, but strings, or what opens one, are kept as they are.
_STRING_OR_COMMA = re.compile(
    rf'("(?:[^"\\]++|\\.)*+(?:"|\\?\Z))|{_TRAILING_COMMA.pattern}', re.DOTALL
)
# All that may stand around an object. Any other word might give another answer, take the object
# back, or say that it is quoted from a text.
_POLITE = re.compile(
    r"(?:[\s.,:;!*_()\ufeff\U0001f642-]|['\u2019]s\b|\b(?:"
    r"a|after|all|an|analysis|and|answer|any|anything|are|as|asked|assessment|"
    r"based|below|both|careful|carefully|certainly|compared|comparing|comparison|"
    r"complete|conclusion|course|decision|done|else|evaluated|evaluating|evaluation|"
    r"feel|final|following|follows|for|format|free|full|further|given|happy|have|"
    r"help|helpful|helps|here|hope|i|if|in|is|it|its|json|judgement|judgment|"
    r"just|know|let|like|me|more|my|need|now|object|of|ok|okay|on|per|"
    r"provided|questions|ready|requested|required|response|result|so|"
    r"structured|sure|texts|thank|thanks|that|the|then|therefore|these|this|to|"
    r"two|valid|ve|verdict|would|you|your"
    r")\b)*+",
    re.IGNORECASE,
)
_MAX_REMARK = 400
_SPACE = "\ufeff \t\r\n\v\f\x85\xa0\u2028\u2029"


MAX_REASONING = 2000
"""Characters of reasoning that are kept; an ellipsis stands for the rest."""


def shortened(text: str) -> str:
    """Return `text` cut to MAX_REASONING characters, with U+FFFD for each lone surrogate."""
    if len(text) > MAX_REASONING:
        text = text[: MAX_REASONING - 1] + "…"
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def unwrapped(text: str) -> str:
    """Return the answer in `text` without what is around it; empty when there is none."""
    return _outside_fence(_after_reasoning(text.strip(_SPACE)))


def only_object(text: str) -> str:
    """Return the one JSON object in `text`, without a fence and polite words around it; else "".

    A comma before a closing bracket is left out.
    """
    start = text.find("{")
    if start < 0:
        return ""
    before, inside = text[:start], text[start:]
    if _TRAILING_COMMA.search(inside):
        inside = _STRING_OR_COMMA.sub(r"\1", inside)
    try:
        end = json.JSONDecoder().raw_decode(inside)[1]
    except (ValueError, RecursionError):
        return ""
    after = inside[end:]
    fence, fence_end = _FENCE_BEFORE.search(before), _FENCE_AFTER.match(after)
    if fence and fence_end:
        before, after = before[: fence.start()], after[fence_end.end() :]
    around = f"{before}\n{after}"
    return inside[:end] if len(around) <= _MAX_REMARK and _POLITE.fullmatch(around) else ""


def has_tags(text: str) -> bool:
    """Say whether a tag of reasoning is left in `text`."""
    return _TAG.search(text) is not None


def _after_reasoning(text: str) -> str:
    """Return what follows the reasoning; nothing follows a block that was never closed.

    A text that begins as JSON or as a fence is returned as it is: tags in it are part of it. So is
    one with more tags than any reasoning has.
    """
    if text.startswith(("{", "```")):
        return text
    tags = list(islice(_TAG.finditer(text), _MAX_TAGS + 1))
    if len(tags) > _MAX_TAGS:
        return text
    start, inside, blocks = 0, False, 0
    for tag in tags:
        closes = bool(tag["ends"] or tag["closes"])
        if inside and closes:
            start, inside, blocks = tag.end(), False, blocks + 1
        elif not inside and not closes and not text[start : tag.start()].strip(" \t\n\r\v\f"):
            inside = True
        elif not inside:
            break
    if inside:
        return ""
    if not blocks and len(tags) == 1 and (tags[0]["ends"] or tags[0]["closes"]):
        # An end without a beginning counts where it has its line to itself.
        before, after = text[: tags[0].start()].rstrip(" \t"), text[tags[0].end() :]
        if before.endswith("\n") and after.lstrip(" \t\r")[:1] in {"", "\n"}:
            return after.strip(_SPACE)
    return text[start:].strip(_SPACE)


def _outside_fence(text: str) -> str:
    """Return what the one fence around the whole of `text` holds, or `text` as it is."""
    opening = _FENCE.match(text)
    closing = _FENCE_END.search(text) if opening else None
    if not opening or not closing or closing.start() < opening.end() - 1:
        return text
    inside = text[opening.end() : closing.start()]
    if any(line.lstrip().startswith("```") for line in inside.splitlines()):
        return text
    return inside.strip(_SPACE)
