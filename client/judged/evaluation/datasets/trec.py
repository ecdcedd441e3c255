"""Judgements and runs in the formats of TREC.

Readers keep the order of the file; the server ranks the runs and joins them with judgements.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from judged._files import FileError, FileWarning, decode, read_lines
from judged._inputs import LARGEST_GRADE, read_number
from judged._views import View
from judged.values.agreement import score_warnings, told_of_topics

LARGEST_SCORE = 3.4028234663852886e38
"""The largest score in single precision, in which trec_eval keeps scores."""
_AGAINST = (
    "the scores rank otherwise than the rank column (scores that rise with rank, as distances do); "
    "the scores rank, as in trec_eval: negate them if a small one is good"
)


_QRELS = "topic 0 document grade"
_RUN = "topic Q0 document rank score tag"

Grades = Mapping[str, Mapping[str, int]]
"""Topic to document id to grade."""


@dataclass(frozen=True, slots=True, repr=False)
class TrecQrels(View):
    """Judgements: topic to document id to grade. Above 0 is relevant."""

    grades: Grades

    @classmethod
    def from_file(cls, path: Path | str) -> TrecQrels:
        """Return the judgements of a file of `topic iteration document grade`. Raises FileError."""
        return cls(read_qrels(path))


def read_qrels(path: Path | str) -> Grades:
    """Return the grades of a file of `topic iteration document grade`. Raises FileError."""

    def judgements() -> Iterator[_Judgement]:
        for number, (topic, of, document, raw) in _columns(path, 4, _QRELS, "holds no judgement"):
            grade = read_grade(raw)
            if grade is None:
                raise FileError(str(path), number, f"the grade {raw!r} is not a whole number")
            yield number, topic, document, grade, of

    return _grades(path, judgements())


def read_beir_qrels(path: Path | str, refuse: Callable[[FileError], None]) -> Grades:
    """Return the grades of a BEIR split; contradictions go to `refuse`. Raises FileError."""

    def judgements() -> Iterator[_Judgement]:
        for number, raw in read_lines(path):
            cells = decode(raw, str(path), number).rstrip("\r\n").split("\t")
            if number == 1 and cells[:1] == ["query-id"]:
                continue
            grade = read_grade(cells[2]) if len(cells) == 3 else None
            if grade is None:
                problem = "is not query-id, corpus-id and a whole score with tabs between them"
                raise FileError(str(path), number, problem)
            yield number, cells[0], cells[1], grade, "0"

    return _grades(path, judgements(), refuse)


_Judgement = tuple[int, str, str, int, str]
"""Line number, topic, document, grade, and TREC's second column."""


def _grades(
    path: Path | str,
    judgements: Iterable[_Judgement],
    refuse: Callable[[FileError], None] | None = None,
) -> Grades:
    """Return grades by topic and document. Raises FileError if two lines contradict each other.

    Warns (FileWarning) of judgements that are repeated with the same grade.
    """
    grades: dict[str, dict[str, int]] = {}
    repeats: list[int] = []
    for number, topic, document, grade, of in judgements:
        of_topic = grades.setdefault(topic, {})
        if document not in of_topic:
            of_topic[document] = grade
        elif of_topic[document] == grade and of in ("0", "Q0"):
            repeats.append(number)
        else:
            problem = f"judges {document!r} for topic {topic!r} as {grade}, and an earlier line as"
            hint = "keep one of them"
            if of not in ("0", "Q0"):
                hint = "if the second column has subtopics, these are qrels for alpha-nDCG alone"
            error = FileError(str(path), number, f"{problem} {of_topic[document]}; {hint}")
            if refuse is None:
                raise error
            refuse(error)
    if repeats:
        what = f"repeats a judgement with the same grade, {len(repeats)} in all"
        warnings.warn(FileWarning(f"{path}:{repeats[0]}: {what}; one counts"), stacklevel=3)
    return grades


@dataclass(frozen=True, slots=True, repr=False)
class TrecRun(View):
    """A run: topic to document id to score.

    If a document is repeated in a topic, its first line is kept; `duplicates` counts the others.
    `warnings` say where the scores give a ranking that the author may not expect.
    """

    scores: Mapping[str, Mapping[str, float]]
    duplicates: int = 0
    warnings: Sequence[str] = ()

    @classmethod
    def from_file(cls, path: Path | str) -> TrecRun:
        """Return the run of a file of `topic Q0 document rank score tag`. Raises FileError.

        As in trec_eval, only the score ranks. `warnings` say where the rank column differs.
        """
        name = str(path)
        scores: dict[str, dict[str, float]] = {}
        ranks: dict[str, list[float | None]] = {}
        duplicates = 0
        lines = _columns(path, 6, _RUN, "holds no retrieved document")
        for number, (topic, _, document, rank, raw, _) in lines:
            score = read_number(raw)
            if score is None or abs(score) > LARGEST_SCORE:
                problem = f"the score {raw!r} is not a finite number in single precision"
                raise FileError(name, number, problem)
            of_topic = scores.setdefault(topic, {})
            if document in of_topic:
                duplicates += 1
            else:
                of_topic[document] = score
                ranks.setdefault(topic, []).append(read_number(rank))
        against = [topic for topic, of in scores.items() if _rise([*of.values()], ranks[topic])]
        told = [told_of_topics(against, len(scores), _AGAINST)] if against else []
        return cls(scores, duplicates, (*told, *score_warnings(scores, len(scores))))


def _rise(scores: Sequence[float], ranks: Sequence[float | None]) -> bool:
    """Return whether a score is above that of a better rank; False if ranks are missing or tie."""
    known = [rank for rank in ranks if rank is not None]
    if len(known) < len(ranks) or len(set(known)) < 2:
        return False
    by_rank = sorted(zip(known, scores, strict=True), key=lambda pair: pair[0])
    return any(a[0] < b[0] and single(a[1]) < single(b[1]) for a, b in pairwise(by_rank))


def single(score: float) -> float:
    """Return a score in single precision, as trec_eval and the server compare it."""
    rounded: float = struct.unpack("f", struct.pack("f", score))[0]
    return rounded


def _columns(path: Path | str, n: int, layout: str, empty: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, columns) of a file, split at ASCII white space, as trec_eval does."""
    name = str(path)
    for number, raw in read_lines(path, empty):
        columns = raw.split()
        if len(columns) != n:
            other = _other_layout(decode(raw, name, number), len(columns), n)
            problem = f"has {len(columns)} columns instead of {n}: {layout}{other}"
            raise FileError(name, number, problem)
        yield number, [decode(column, name, number) for column in columns]


def _other_layout(text: str, found: int, wanted: int) -> str:
    """Return a hint at the layout of a line that does not have the columns of TREC."""
    kinds = {
        "JSON": text.lstrip()[:1] in ("{", "["),
        "a file of BEIR's; `judged convert FOLDER OUT.qrels` reads its folder": found == 3
        and text.count("\t") == 2,
        "prels, judgements with probabilities, which are not read": (found, wanted) == (5, 4),
        "a run": (found, wanted) == (6, 4),
        "qrels": (found, wanted) == (4, 6),
    }
    return next((f"; this looks like {kind}" for kind, fits in kinds.items() if fits), "")


def read_grade(text: str) -> int | None:
    """Return a text as a whole number, as trec_eval reads it; None if it is not one."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 10):
        return None
    grade = int(text)
    return grade if abs(grade) <= LARGEST_GRADE else None
