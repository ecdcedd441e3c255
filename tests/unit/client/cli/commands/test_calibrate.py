from __future__ import annotations

import pytest
from judged.cli.commands.calibrate import _items
from judged.cli.inputs import read_labels
from judged.evaluation import FileError

TEXTS = '"query": "q", "expected_text": "e", "retrieved_text": "r"'


def write(tmp_path, *lines):
    path = tmp_path / "labels.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.mark.parametrize("scored", [False, True])
def test_lines_hold_a_label_or_none_and_a_cluster(tmp_path, scored):
    labels = ['"relevant": true, "query_id": 7', '"relevant": null', '"id": 1']
    path = write(tmp_path, *(f'{{{TEXTS}, "score": 0.5, {each}}}' for each in labels))
    lines = read_labels(path, scored=scored)
    assert [line.label for line in lines] == [True, None, None]
    assert [each.retrieved_text for each in lines[0].contexts] == ([] if scored else ["r"])
    assert _items(lines).clusters == ["7", "q", "q"]
    again = write(tmp_path, *[f'{{{TEXTS}, "score": 0.5, "id": 1}}'] * 2)
    with pytest.raises(FileError, match=r":2: has the id '1' of line 1"):
        read_labels(again, scored=scored)


@pytest.mark.parametrize(
    ("line", "scored", "problem"),
    [
        (f'{{{TEXTS}, "relevant": 2}}', False, "neither true nor false"),
        ('{"query": "q", "relevant": true}', False, "has no 'expected_text'"),
        ('{"relevant": true}', True, "has no 'score'"),
        ('{"relevant": true, "score": 1.5}', True, "not a number from 0 to 1"),
        ('{"relevant": true, "score": "1"}', True, "not a number"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, scored, problem):
    with pytest.raises(FileError, match=problem) as caught:
        read_labels(write(tmp_path, line), scored=scored)
    assert caught.value.line == 1


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ("1", True),
        ("0", False),
        ('"1"', True),
        ('"0"', False),
        ("1.0", True),
        ('"TRUE"', True),
        ('"False"', False),
        ('" true "', True),
        ("null", None),
    ],
)
def test_labels_are_read_as_sheets_write_them(tmp_path, value, label):
    path = write(tmp_path, f'{{"score": 0.5, "relevant": {value}}}', '{"score": 1, "relevant": 1}')
    assert [line.label for line in read_labels(path, scored=True)] == [label, True]


@pytest.mark.parametrize("value", ["2", "0.5", '"yes"', '""', "[]", '"relevant"', "-1"])
def test_what_is_no_label_is_told_how_to_be_one(tmp_path, value):
    with pytest.raises(FileError, match="1 and 0 are read as true and false"):
        read_labels(write(tmp_path, f'{{"score": 0.5, "relevant": {value}}}'), scored=True)
