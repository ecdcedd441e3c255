"""Labels go to a file after each answer, and come back."""

from __future__ import annotations

import json
import multiprocessing
from datetime import UTC, datetime

import pytest
from judged.evaluation import FileError
from judged.labelling import Item, Label, LabelFile

WHEN = datetime(2026, 1, 31, 6, 0, tzinfo=UTC)
ITEMS = [Item(f"i{n}", f"q{n}", f"query {n}", ["a", "b"], "found", True, 0.4) for n in range(4)]


def label(number, relevant=True):
    return Label(f"i{number}", relevant, WHEN, 0.25)


def test_a_file_that_can_not_be_read_again_keeps_what_it_holds(tmp_path):
    path = tmp_path / "labels.jsonl"
    file = LabelFile.read(path, ITEMS)
    file.add(label(0))
    path.write_text(path.read_text() + '{"id": ')
    held = path.read_bytes()
    with pytest.raises(FileError, match=r":2: is not JSON"):
        file.add(label(1))
    assert (path.read_bytes(), file.labels) == (held, {"i0": label(0)})


def test_chances_of_today_take_the_place_of_those_of_the_file(tmp_path):
    path = tmp_path / "labels.jsonl"
    LabelFile.read(path, ITEMS).add(label(0))
    again = LabelFile.read(path, ITEMS, {each.item_id: 0.5 for each in ITEMS})
    assert again.labels["i0"].inclusion_probability == 0.5
    again.add(label(1))
    assert LabelFile.read(path, ITEMS).labels["i0"].inclusion_probability == 0.5


def test_a_label_that_somebody_else_has_just_given_stays(tmp_path):
    path = tmp_path / "labels.jsonl"
    mine, theirs = LabelFile.read(path, ITEMS), LabelFile.read(path, ITEMS)
    assert theirs.add(label(0, False)) is None
    assert mine.add(label(0)) == label(0, False)
    assert mine.add(label(1)) is None
    assert theirs.add(label(2)) is None
    assert mine.undo() == label(1)
    assert mine.undo() is None  # what others said is not taken out
    found = LabelFile.read(path, ITEMS).labels
    assert found == {"i0": label(0, False), "i2": label(2)}


def label_many(path, first, n) -> None:
    items = [Item(f"i{i}", "q", "query", ["a"], "found", True, 0.4) for i in range(n)]
    file = LabelFile.read(path, items)
    for i in range(first, n, 2):
        file.add(label(i))
        if i % 5 == 4:
            file.add(label(i, False))


def test_two_people_at_once_lose_nothing(tmp_path):
    path, n = tmp_path / "labels.jsonl", 60
    spawn = multiprocessing.get_context("spawn")
    both = [spawn.Process(target=label_many, args=(path, first, n)) for first in (0, 1)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert [each.exitcode for each in both] == [0, 0]
    items = [Item(f"i{i}", "q", "query", ["a"], "found", True, 0.4) for i in range(n)]
    found = LabelFile.read(path, items).labels
    assert [found[f"i{i}"].relevant for i in range(n)] == [i % 5 != 4 for i in range(n)]
    assert [each.name for each in tmp_path.iterdir()] == ["labels.jsonl"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "i9"}, "labels 'i9', which the judged lines don't hold"),
        ({"relevant": "y"}, "'relevant' that is neither true nor false"),
        ({"inclusion_probability": 1.5}, "not a number above 0 and at most 1"),
    ],
)
def test_other_lines_are_refused(tmp_path, change, message):
    file = LabelFile.read(tmp_path / "labels.jsonl", ITEMS)
    file.add(label(0))
    file.path.write_text(json.dumps(json.loads(file.path.read_text()) | change) + "\n")
    with pytest.raises(FileError, match=message):
        LabelFile.read(file.path, ITEMS)
