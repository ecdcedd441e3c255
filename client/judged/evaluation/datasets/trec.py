"""Judgements and runs in the formats of TREC.

Ranking and joining the two is the server's part: readers keep the order of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from judged._inputs import read_number
from judged._views import View
from judged.evaluation.datasets.files import FileError, decode, read_lines

LARGEST_SCORE = 3.4028234663852886e38
"""trec_eval keeps scores in single precision; nothing larger fits."""
LARGEST_GRADE = 2**31 - 1


@dataclass(frozen=True, slots=True, repr=False)
class TrecQrels(View):
    """Judgements: topic to document id to grade. Above 0 is relevant."""

    grades: Mapping[str, Mapping[str, int]]

    @classmethod
    def from_file(cls, path: Path | str) -> TrecQrels:
        """Return the judgements of a file of `topic iteration document grade`. Raises FileError."""
        name = str(path)
        grades: dict[str, dict[str, int]] = {}
        for number, (topic, _, document, raw) in _columns(name, 4, "topic 0 document grade"):
            grade = _grade(raw)
            if grade is None:
                raise FileError(name, number, f"the grade {raw!r} is not a whole number")
            of_topic = grades.setdefault(topic, {})
            if document in of_topic:
                raise FileError(name, number, f"judges {document!r} again for topic {topic!r}")
            of_topic[document] = grade
        if not grades:
            raise FileError(name, None, "holds no judgement")
        return cls(grades)


@dataclass(frozen=True, slots=True, repr=False)
class TrecRun(View):
    """A run: topic to document id to score.

    Of a document that repeats in a topic the first line is kept; `duplicates` counts the others.
    """

    scores: Mapping[str, Mapping[str, float]]
    duplicates: int = 0

    @classmethod
    def from_file(cls, path: Path | str) -> TrecRun:
        """Return the run of a file of `topic Q0 document rank score tag`. Raises FileError.

        As in trec_eval the score alone ranks: the rank column is not read.
        """
        name = str(path)
        scores: dict[str, dict[str, float]] = {}
        duplicates = 0
        lines = _columns(name, 6, "topic Q0 document rank score tag")
        for number, (topic, _, document, _, raw, _) in lines:
            score = read_number(raw)
            if score is None or abs(score) > LARGEST_SCORE:
                problem = f"the score {raw!r} is not a finite number in single precision"
                raise FileError(name, number, problem)
            of_topic = scores.setdefault(topic, {})
            duplicates += document in of_topic
            of_topic.setdefault(document, score)
        if not scores:
            raise FileError(name, None, "holds no retrieved document")
        return cls(scores, duplicates)


def _columns(name: str, n: int, layout: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, columns) of a file. White space is that of ASCII, as for trec_eval."""
    for number, raw in read_lines(name):
        columns = raw.split()
        if len(columns) != n:
            problem = (
                f"has {len(columns)} column{'s' * (len(columns) != 1)} instead of {n}: {layout}"
            )
            raise FileError(name, number, problem)
        yield number, [decode(column, name, number) for column in columns]


def _grade(text: str) -> int | None:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 10):
        return None
    grade = int(text)
    return grade if abs(grade) <= LARGEST_GRADE else None
