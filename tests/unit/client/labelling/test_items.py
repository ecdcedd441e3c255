"""Judged lines as items: how sure the judge is, and what is refused."""

from __future__ import annotations

import pytest
from judged.evaluation import FileError
from judged.labelling import Judged

from tests.unit.client.labelling.judged_lines import line, write


def test_a_probability_counts_before_a_score(tmp_path):
    judged = Judged.read(write(tmp_path / "r.jsonl", [line(1, probability=0.5), line(9)]))
    assert judged.items[0].belief == 0.5


def test_lines_without_a_verdict_are_counted_and_left_out(tmp_path):
    failed = line(2, status="ABSTAINED", relevant=None, score=None)
    judged = Judged.read(write(tmp_path / "r.jsonl", [line(1), failed]))
    assert (len(judged.items), judged.missing) == (1, 1)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([{"rubric": "faithfulness", "status": "OK"}], "r.jsonl:1: is a score of an answer, and"),
        ([line(1, score=2)], "'score' that is not a number from 0 to 1"),
        ([line(1), line(1)], "r.jsonl:2: has the id 'i1' of line 1"),
        ([line(1, status="ERROR")], "has no line with a verdict"),
    ],
)
def test_other_files_are_refused(tmp_path, lines, message):
    with pytest.raises(FileError, match=message):
        Judged.read(write(tmp_path / "r.jsonl", lines))
