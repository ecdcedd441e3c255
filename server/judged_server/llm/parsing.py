"""What a language model's reply means: from a ChatReply to a ParsedReply.

JSON first, then plain words. Nothing here raises, whatever the reply holds, and no message quotes
it.

A structured reply is read strictly. Case, a space and a full stop make no other word of a yes or
no, and a fence around the object changes nothing. Nothing else is converted, clamped or guessed,
since a reply that breaks its schema says that the model was not held to it.

In plain words the last line decides, as in `VERDICT: YES`, or the reply is one bare word. Sentences
are not interpreted. Whatever else a reply says is unclear: a judge that abstains is seen, one that
guesses is not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from judged.values.choices import ClaimVerdict, Status

from judged_server.llm.chat import (
    REFUSED,
    ChatReply,
    FinishReason,
    ParsedReply,
    Reason,
    abstained,
    failed,
)
from judged_server.llm.rubrics.rubric import MAX_CLAIMS, Rubric

MAX_CLAIM_CHARACTERS = 2000
"""A longer claim is no single statement."""


class _BreaksRule(ValueError):
    """The reply is JSON of a kind that does not count; the text says which rule it breaks."""


def read_json(text: str, rubric: Rubric) -> ParsedReply:
    """Return the parsed reply of a JSON text; ERROR with the reason SCHEMA when it breaks a rule.

    Time is linear in the length of `text`, and no text raises.
    """
    try:
        return _parsed(_values(_DECODER.decode(text), rubric), rubric)
    except _BreaksRule as broken:
        problem = str(broken)
    except RecursionError:
        problem = "it is nested too deeply"
    except ValueError:  # not JSON, or an integer of thousands of digits
        problem = "it is not one JSON object"
    return failed(Reason.SCHEMA, f"the model's reply breaks its schema: {problem}")


def _parsed(said: Mapping[str, Any], rubric: Rubric) -> ParsedReply:
    """Return what the values of a reply come to, by the rubric's form."""
    yes, score = False, said.get("score", 0.0)
    if rubric.form == "dimensions":
        named = {name: said[name] for name in said if name != "reasoning"}
        return ParsedReply(Status.OK, reasoning=said["reasoning"], dimensions=named)
    if rubric.form == "extraction":
        return ParsedReply(Status.OK, claims=said["claims"])
    if rubric.form == "verification":
        checked = ClaimVerdict[said["verdict"]]
        return ParsedReply(Status.OK, reasoning=said["evidence"], checked=checked)
    if rubric.form == "verdict":
        yes = said["verdict"] == "yes"
        score = score if rubric.scored else float(yes)
    else:
        if rubric.form == "grade":
            score = rubric.grades.index(said["grade"]) / rubric.max_grade
        yes = rubric.passes(score)
    return ParsedReply(Status.OK, yes=yes, score=score, reasoning=said["reasoning"])


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
    if type(said) is int:
        said = str(said)  # without a schema: 2, not "2"
    if isinstance(said, str) and not exact:
        word = said.strip(" .").lower()
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
        is_text = isinstance(claim, str) and claim.strip() and _is_unicode(claim)
        if not is_text or len(claim) > MAX_CLAIM_CHARACTERS:
            raise _BreaksRule(f"a claim is no text of 1 to {MAX_CLAIM_CHARACTERS} characters")
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


# Blocks of reasoning at the start; one that is never closed hides all that follows.
_REASONING = re.compile(
    r"(?:\s*+(?:<think(?:ing)?>|\[think\]).*?(?:</think(?:ing)?>|\[/think\]|\Z))*+",
    re.IGNORECASE | re.DOTALL,
)
_FENCED = re.compile(r"```[\w+-]{0,20}[ \t]*\r?\n(.*)```", re.DOTALL)
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
    """Return the answer in `text` without what is around it; empty when there is none.

    That is reasoning before it, and one fence around the whole of it. A text that begins as JSON or
    as a fence has no reasoning: tags in it are part of it.
    """
    text = text.strip(_SPACE)
    if not text.startswith(("{", "```")):
        _, ends, rest = text.partition("\n</think>\n")  # some templates write the opening tag
        is_end = ends and text.count("</think>") == 1
        text = rest if is_end else _REASONING.sub("", text, count=1)
        text = text.strip(_SPACE)
    fenced = _FENCED.fullmatch(text)
    return fenced[1].strip(_SPACE) if fenced and "```" not in fenced[1] else text


MAX_CHARACTERS = 1 << 15
"""A longer reply is no answer to a question that asks for one line."""

_REFUSAL = re.compile(
    r"\b(?:i|we)(?:'m| am|'re| are)? (?:"
    r"(?:can'?t|cannot|can not|couldn't|could not|won't|will not) (?:\w{1,20} ){0,2}"
    r"(?:help|assist|comply|answer|respond|judge|evaluate|assess|provide|fulfil|fulfill|complete"
    r"|continue|engage|discuss|do|participate|support|process|share|give)"
    r"|(?:unable|not able|not allowed|not permitted|not comfortable)"
    r"|(?:must |have to )?(?:respectfully )?(?:decline|refuse))\b"
)
_REFUSED_WITHIN = 400

# Wherever else a number might be of another scale, 1 to 10 or percent say, it does not count.
_BULLET = "[ \\t*_>#-]{0,8}"
_MARKS = "[ \\t*_]{0,8}"  # no minus: it would be a number's
_LABEL = f"(?:the |my |final |overall ){{0,2}}(?:%s){_MARKS}[:=：]{_MARKS}"  # noqa: RUF001
_NUMBER = r"(?:[01](?!\.)|[01]?\.[0-9]{1,17})"  # "0." may have lost its digits
# A bare 1 might be the lowest of ten grades; with a point it is a share.
_BARE_NUMBER = r"[01]?\.[0-9]{1,17}"
_ELSEWHERE = r"%s[^\w\n.,+-]{0,12}(?:(?:is|of|was)[^\w\n.,+-]{1,4})?"
# Any verdict behind a label, any number that is said to be a score, any word that is to be a grade.
_NAMED = {
    "verdict": rf"(?:[:=：]|\b(?:verdict|answer) is\b){_MARKS}(yes|no)(?!\w)",  # noqa: RUF001
    "score": _ELSEWHERE % "score" + "([+-]?[0-9.,]*[0-9])",
    "grade": _ELSEWHERE % "grade" + "([+-]?[a-z0-9.,/]+)",
}
# A last line that may be somebody else's words: a quotation, a row of a table, a piece of code.
_QUOTED = re.compile("[ \\t>|]")
# A line above it that does not end there, or introduces an example.
_ENDS = re.compile("[.!?。…][*_)\"']*[ \\t]*$")
_INTRODUCES = re.compile(r"(?:[:：]|\b(?:e\.g\.|for example|for instance|such as|like),?)[*_ ]*$")  # noqa: RUF001

_WANTED = {
    "verdict": "a bare YES or NO, nor does it end with a line VERDICT: YES or VERDICT: NO",
    "score": "a bare score, nor does it end with a line such as Score: 0.8",
    "grade": "a bare grade of the rubric, nor does it end with a line such as Grade: 2",
}


def read_plain(text: str, rubric: Rubric, *, cut: bool) -> ParsedReply:
    """Return the parsed reply to a rubric that asks for a verdict, a score or a grade.

    A reply that is nothing but the answer has no reasoning. One that was `cut` off has no answer:
    what is missing might have taken it back.
    """
    if refuses(text):
        return REFUSED
    if cut:
        return failed(
            Reason.REPLY_TRUNCATED,
            f"the model's reply was cut off before its {rubric.form}; raise max_tokens",
        )
    # A tag: the model copies a text, or what it thinks is not taken off.
    is_short = len(text) <= MAX_CHARACTERS and "<" not in text and "[/" not in text
    said = _said(text.lower(), rubric.form, rubric.grades) if is_short else None
    score = None if said is None else _share(said, rubric)
    if score is None:
        return abstained(Reason.UNPARSABLE, f"the model's reply is not {_WANTED[rubric.form]}")
    yes = rubric.passes(score) if rubric.form != "verdict" else score == 1
    reasoning = shortened(text) if "\n" in text else ""
    return ParsedReply(Status.OK, yes=yes, score=score, reasoning=reasoning)


def refuses(text: str) -> bool:
    """Say whether a text begins with a refusal to answer."""
    head = text[:_REFUSED_WITHIN].lower().replace("’", "'")  # noqa: RUF001
    return _REFUSAL.search(head) is not None


def _share(said: str, rubric: Rubric) -> float | None:
    """Return the score that a word stands for; None for a number above 1."""
    if rubric.form == "verdict":
        return float(said == "yes")
    if rubric.form == "grade":
        return [grade.lower() for grade in rubric.grades].index(said) / rubric.max_grade
    return float(said) if float(said) <= 1 else None


def _said(text: str, form: str, grades: tuple[str, ...]) -> str | None:
    """Return what a whole text says, or its last line behind a label if nothing else is named."""
    bare, labelled, named = _patterns(form, grades)
    if (whole := bare.fullmatch(text)) is not None:
        return whole["said"]
    found = labelled.fullmatch(_own_last(text.splitlines()))
    if found is None or {word.rstrip(".,") for word in named.findall(text)} != {found["said"]}:
        return None
    begins = bare.match(text)
    return found["said"] if begins is None or begins["said"] == found["said"] else None


def _own_last(lines: list[str]) -> str:
    """Return the last line; "" where it may be quoted: from a text, or as what not to say."""
    *before, line = lines or [""]
    written = [each for each in before if each.strip()]
    if not written:
        return line
    runs_on = before[-1].strip() and not _ENDS.search(before[-1])
    return "" if runs_on or _QUOTED.match(line) or _INTRODUCES.search(written[-1]) else line


@lru_cache(maxsize=256)
def _patterns(
    form: str, grades: tuple[str, ...]
) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Return how a form is said as a whole text, in a last line, and anywhere else."""
    label = _LABEL % ("verdict|answer" if form == "verdict" else form)
    ends = rf"(?![\w,/]|\.\w)[.!]?{_MARKS}"
    words = "|".join(re.escape(grade.lower()) for grade in grades) or "yes|no"
    before, bare, word = _BULLET, words, words
    if form == "score":
        before, bare, word = _MARKS, _BARE_NUMBER, _NUMBER
    return (
        re.compile(f"{before}(?P<said>{bare}){ends}"),
        re.compile(f"{_BULLET}{label}(?P<said>{word}){ends}"),
        re.compile(_NAMED[form]),
    )


PARSER_VERSION = 7
"""Counts up with every change that lets a reply mean something else: it can change a score."""

_STOPPED = abstained(Reason.REFUSED, "the provider's safety filter stopped the answer")
_EMPTY = abstained(Reason.UNPARSABLE, "the model's reply holds no answer")
_NO_JSON = failed(Reason.SCHEMA, "the model's reply holds no JSON object")
_PROSE = abstained(
    Reason.UNPARSABLE,
    "the model answered in prose where JSON was asked for; if it takes no schema, "
    'the server\'s operator should set structured = "none" for it',
)
_NO_OBJECT = abstained(
    Reason.UNPARSABLE,
    "the model answered in prose where the rubric asks for JSON; choose another "
    "model for this rubric",
)
_CUT = failed(Reason.REPLY_TRUNCATED, "the model's reply was cut off; raise max_tokens")
_NO_END = failed(
    Reason.REPLY_TRUNCATED,
    "the provider ended the model's reply with a word that says neither that it is whole "
    "nor that it was cut off, so it may have been; raise max_tokens",
)


def read(reply: ChatReply, rubric: Rubric, *, structured: bool) -> ParsedReply:
    """Return what `reply` says by `rubric`; `structured` says whether it had a schema to keep.

    A reply that is one JSON object, or looks like JSON, is read strictly as JSON, whether or not
    that was asked for. Any other reply is read as plain words, if the rubric's form can be said in
    them; where JSON was asked for, only a bare YES or NO, or a bare score, counts. A reply that was
    cut off counts when it is a whole JSON object; one that ended nobody knows how, also when it is
    nothing but an answer.
    """
    finish = reply.finish_reason
    if finish is FinishReason.SAFETY:
        return _STOPPED
    if reply.refusal or finish is FinishReason.REFUSAL:
        return REFUSED
    cut = finish is FinishReason.LENGTH
    text = unwrapped(reply.text)
    asked_json = structured or rubric.takes_json
    if not text:
        nothing = _NO_JSON if asked_json else _EMPTY
        return _CUT if cut else nothing
    if text.startswith(("{", "[")):
        parsed = read_json(text, rubric)
        return _CUT if cut and parsed.status is Status.ERROR else parsed
    if rubric.takes_json:
        parsed = REFUSED if refuses(text) else _NO_OBJECT
    else:
        parsed = read_plain(text, rubric, cut=cut)
        is_answer = parsed.status is Status.OK and not parsed.reasoning
        if structured and not is_answer and parsed.reason is not Reason.REFUSED:
            parsed = _PROSE
        elif finish is FinishReason.OTHER and parsed.status is Status.OK and not is_answer:
            parsed = _NO_END
    return _CUT if cut and parsed.reason is not Reason.REFUSED else parsed
