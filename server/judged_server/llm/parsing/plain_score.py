"""A plain reply that gives a score or a grade: its last line says `Score: 0.8` or `Grade: 2`.

Or all of it is the score, or the grade's word. A model without schemas that was asked for 0 to 1
may still grade from 1 to 10 or in percent, so a number counts only where nothing suggests another
scale. Neither counts where another one is named: when in doubt there is no score.
"""

from __future__ import annotations

import re
from functools import lru_cache

from judged_server.domain import Status
from judged_server.llm.faults import Reason
from judged_server.llm.parsing.json_reply import has_tags, shortened
from judged_server.llm.parsing.parsed_reply import REFUSED, ParsedReply
from judged_server.llm.parsing.plain_reply import MAX_CHARACTERS, refuses
from judged_server.llm.rubrics.rubric import Rubric

_BULLET = "[ \\t*_`\"'>#-]{0,8}"
_MARKS = "[ \\t*_`\"']{0,8}"  # no minus: it would be a number's
_LABEL = rf"(?:(?:the |my |final |overall ){{0,2}}%s{_MARKS}[:=：]{_MARKS})"  # noqa: RUF001
_NUMBER = r"(?:[01](?!\.)|[01]?\.[0-9]{1,17})"  # "0." may have lost its digits
_SCORE_LINE = re.compile(rf"{_BULLET}{_LABEL % 'score'}(?P<said>{_NUMBER})\.?{_MARKS}")
# A bare 1 might be the lowest of ten grades; with a point it is a share.
_BARE_SCORE = re.compile(rf"{_MARKS}(?P<said>[01]?\.[0-9]{{1,17}}){_MARKS}")
_NAMED = r"%s[^\w\n.,+-]{0,12}(?:(?:is|of|was)[^\w\n.,+-]{1,4})?"
# Any number that is said to be a score, in whatever scale; any word that is said to be a grade.
_SCORES = re.compile(_NAMED % "score" + "([+-]?[0-9.,]*[0-9])")
_GRADES = re.compile(_NAMED % "grade" + "([+-]?[a-z0-9.,/]+)")


def _unclear(what: str) -> ParsedReply:
    message = f"the model's reply does not end with a clear {what}"
    return ParsedReply(Status.ABSTAINED, reason=Reason.UNPARSABLE, message=message)


def _cut(what: str) -> ParsedReply:
    message = f"the model's reply was cut off before its {what}; raise max_tokens"
    return ParsedReply(Status.ERROR, reason=Reason.REPLY_TRUNCATED, message=message)


_UNCLEAR = {
    "score": _unclear("score, as in Score: 0.8"),
    "grade": _unclear("grade of the rubric, as in Grade: 2"),
}
_CUT = {"score": _cut("score"), "grade": _cut("grade")}


def read(text: str, rubric: Rubric, *, cut: bool) -> ParsedReply:
    """Return the parsed reply to a rubric that asks for a score or a grade.

    `cut` says that the text's end, and so what was asked for, is missing.
    """
    if len(text) > MAX_CHARACTERS or has_tags(text):
        return _UNCLEAR[rubric.form]
    lower = text.lower()
    if refuses(lower):
        return REFUSED
    if cut:
        return _CUT[rubric.form]
    score = _score(lower) if rubric.form == "score" else _grade(lower, rubric)
    if score is None:
        return _UNCLEAR[rubric.form]
    reasoning = "" if is_bare(text, rubric) else shortened(text)
    return ParsedReply(Status.OK, yes=rubric.passes(score), score=score, reasoning=reasoning)


def is_bare(text: str, rubric: Rubric) -> bool:
    """Say whether `text` is one line that gives what was asked for and nothing else."""
    lower = text.lower()
    if rubric.form == "grade":
        return _grade_line(rubric.grades).fullmatch(lower) is not None
    return (_SCORE_LINE.fullmatch(lower) or _BARE_SCORE.fullmatch(lower)) is not None


def _score(lower: str) -> float | None:
    """Return the number of the last line, unless another score is named before it."""
    said = _BARE_SCORE.fullmatch(lower)
    if said is None:
        said = _SCORE_LINE.fullmatch(_last_line(lower))
        if said is None or len(set(_SCORES.findall(lower))) != 1:
            return None
    score = float(said["said"])
    return score if score <= 1 else None


def _grade(lower: str, rubric: Rubric) -> float | None:
    """Return the share of the grade of the last line, unless another one is named before it."""
    line = _grade_line(rubric.grades)
    said = line.fullmatch(lower)
    if said is None:
        last_line = _last_line(lower)
        said = line.fullmatch(last_line)
        if said is None or "grade" not in last_line:
            return None
        if {word.rstrip(".,") for word in _GRADES.findall(lower)} != {said["said"]}:
            return None
    return [grade.lower() for grade in rubric.grades].index(said["said"]) / rubric.max_grade


@lru_cache(maxsize=256)
def _grade_line(grades: tuple[str, ...]) -> re.Pattern[str]:
    words = "|".join(re.escape(grade.lower()) for grade in grades)
    return re.compile(rf"{_BULLET}{_LABEL % 'grade'}?(?P<said>{words})(?![\w,/]|\.\w)\.?{_MARKS}")


def _last_line(lower: str) -> str:
    return lower.rpartition("\n")[2].rstrip("\r")
