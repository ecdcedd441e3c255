"""Files of answers, and the way back to their lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from judged import AnswerItem
from judged.cli.inputs.answers import read_answers
from judged.evaluation import FileError


def read(folder: Path, text: str):
    path = folder / "a.jsonl"
    path.write_text(text)
    return read_answers(str(path))


def test_an_answer_without_an_id_goes_by_its_line(tmp_path: Path):
    file = read(
        tmp_path,
        '\n{"query": "q", "answer": ""}\n'
        '{"id": 7, "query": "", "answer": "a", "references": ["r"], "contexts": ["c"]}\n',
    )
    assert file.items == [
        AnswerItem("2", "q", "", [], []),
        AnswerItem("7", "", "a", ["r"], ["c"]),
    ]
    place = file.place()
    assert place(("items", 1, "contexts", 0)) == f"{tmp_path / 'a.jsonl'}:3: 'contexts[0]'"
    assert place(("rubrics", 0, "rubric")) is None


def test_a_line_number_may_be_the_id_of_another(tmp_path: Path):
    with pytest.raises(FileError, match=r":2: item '2' was on line 1 already"):
        read(tmp_path, '{"id": 2, "query": "", "answer": ""}\n{"query": "", "answer": ""}')
