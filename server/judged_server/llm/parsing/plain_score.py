"""A plain reply that gives a score: its last line says `Score: 0.8`, or all of it is `0.8`.

A model without schemas that was asked for 0 to 1 may still grade from 1 to 10 or in percent, so a
number counts only where nothing suggests another scale, and where no other score is named. When in
doubt there is no score.
"""

from __future__ import annotations

import re

from judged_server.domain import Status
from judged_server.llm.faults import Reason
from judged_server.llm.parsing.json_reply import has_tags
from judged_server.llm.parsing.parsed_reply import REFUSED, ParsedReply, shortened
from judged_server.llm.parsing.plain_reply import MAX_CHARACTERS, refuses
from judged_server.llm.rubrics.rubric import Rubric

_BULLET = "[ \\t*_`\"'>#-]{0,8}"
_MARKS = "[ \\t*_`\"']{0,8}"  # no minus: it would be the number's
_NUMBER = r"(?:[01](?!\.)|[01]?\.[0-9]{1,17})"  # "0." may have lost its digits
_LINE = re.compile(
    rf"{_BULLET}(?:(?:the |my |final |overall ){{0,2}}score{_MARKS}[:=：]{_MARKS})"  # noqa: RUF001
    rf"(?P<number>{_NUMBER})\.?{_MARKS}"
)
# A bare 1 might be the lowest of ten grades; with a point it is a share.
_BARE = re.compile(rf"{_MARKS}(?P<number>[01]?\.[0-9]{{1,17}}){_MARKS}")
# Any number that is said to be a score, in whatever scale.
_SCORE = re.compile(r"score[^\w\n.,+-]{0,12}(?:(?:is|of|was)[^\w\n.,+-]{1,4})?([+-]?[0-9.,]*[0-9])")

_UNCLEAR = ParsedReply(
    Status.ABSTAINED,
    reason=Reason.UNPARSABLE,
    message="the model's reply does not end with a clear score, as in Score: 0.8",
)
_CUT = ParsedReply(
    Status.ERROR,
    reason=Reason.REPLY_TRUNCATED,
    message="the model's reply was cut off before its score; raise max_tokens",
)


def read(text: str, rubric: Rubric, *, cut: bool) -> ParsedReply:
    """Return the parsed reply; `cut` says that the text's end, and so the score, is missing."""
    if len(text) > MAX_CHARACTERS or has_tags(text):
        return _UNCLEAR
    lower = text.lower()
    if refuses(lower):
        return REFUSED
    if cut:
        return _CUT
    number = _number(lower)
    if number is None:
        return _UNCLEAR
    score = float(number)
    if score > 1:
        return _UNCLEAR
    reasoning = "" if is_bare(text) else shortened(text)
    return ParsedReply(Status.OK, yes=rubric.passes(score), score=score, reasoning=reasoning)


def is_bare(text: str) -> bool:
    """Say whether `text` is one line that gives a score and nothing else."""
    lower = text.lower()
    return (_LINE.fullmatch(lower) or _BARE.fullmatch(lower)) is not None


def _number(lower: str) -> str | None:
    """Return the number of the last line, unless another score is named before it."""
    bare = _BARE.fullmatch(lower)
    if bare:
        return bare["number"]
    last = _LINE.fullmatch(lower.rpartition("\n")[2].rstrip("\r"))
    if not last or len(set(_SCORE.findall(lower))) != 1:
        return None
    return last["number"]
