"""A plain reply that gives a grade: its last line says `Grade: 2`, or all of it is the word.

A word counts only where no other grade is named: when in doubt there is none.
"""

from __future__ import annotations

import re
from functools import lru_cache

from judged_server.domain import Status
from judged_server.llm.faults import Reason
from judged_server.llm.parsing.json_reply import has_tags
from judged_server.llm.parsing.parsed_reply import REFUSED, ParsedReply, shortened
from judged_server.llm.parsing.plain_reply import MAX_CHARACTERS, refuses
from judged_server.llm.rubrics.rubric import Rubric

_BULLET = "[ \\t*_`\"'>#-]{0,8}"
_MARKS = "[ \\t*_`\"']{0,8}"  # no minus: it would be a number's
_LABEL = rf"(?:(?:the |my |final |overall ){{0,2}}grade{_MARKS}[:=：]{_MARKS})"  # noqa: RUF001
_NAMED = re.compile(r"grade[^\w\n.,+-]{0,12}(?:(?:is|of|was)[^\w\n.,+-]{1,4})?([+-]?[a-z0-9.,/]+)")

_UNCLEAR = ParsedReply(
    Status.ABSTAINED,
    reason=Reason.UNPARSABLE,
    message="the model's reply does not end with a clear grade of the rubric, as in Grade: 2",
)
_CUT = ParsedReply(
    Status.ERROR,
    reason=Reason.REPLY_TRUNCATED,
    message="the model's reply was cut off before its grade; raise max_tokens",
)


def read(text: str, rubric: Rubric, *, cut: bool) -> ParsedReply:
    """Return the parsed reply; `cut` says that the text's end, and so the grade, is missing."""
    if len(text) > MAX_CHARACTERS or has_tags(text):
        return _UNCLEAR
    lower = text.lower()
    if refuses(lower):
        return REFUSED
    if cut:
        return _CUT
    word = _word(lower, rubric.grades)
    if word is None:
        return _UNCLEAR
    score = [grade.lower() for grade in rubric.grades].index(word) / rubric.max_grade
    reasoning = "" if is_bare(text, rubric) else shortened(text)
    return ParsedReply(Status.OK, yes=rubric.passes(score), score=score, reasoning=reasoning)


def is_bare(text: str, rubric: Rubric) -> bool:
    """Say whether `text` is one line that gives a grade and nothing else."""
    return _line(rubric.grades).fullmatch(text.lower()) is not None


@lru_cache(maxsize=256)
def _line(grades: tuple[str, ...]) -> re.Pattern[str]:
    words = "|".join(re.escape(grade.lower()) for grade in grades)
    return re.compile(rf"{_BULLET}{_LABEL}?(?P<word>{words})(?![\w,/]|\.\w)\.?{_MARKS}")


def _word(lower: str, grades: tuple[str, ...]) -> str | None:
    """Return the word of the last line, unless another grade is named before it."""
    pattern = _line(grades)
    whole = pattern.fullmatch(lower)
    if whole:
        return whole["word"]
    last_line = lower.rpartition("\n")[2].rstrip("\r")
    last = pattern.fullmatch(last_line)
    if not last or "grade" not in last_line:
        return None
    named = {word.rstrip(".,") for word in _NAMED.findall(lower)}
    return last["word"] if named == {last["word"]} else None
