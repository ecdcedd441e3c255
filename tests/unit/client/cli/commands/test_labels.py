from __future__ import annotations

import pytest
from judged import RatingLevel
from judged.cli.commands.labels import choose_categories, read_ratings
from judged.cli.output import Problem
from judged.evaluation import FileError


def write(tmp_path, *lines):
    path = tmp_path / "labels.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_raters_and_categories_come_from_all_lines(tmp_path):
    path = write(
        tmp_path,
        '{"item_id": "1", "ratings": {"a": "yes", "b": null}}',
        '{"item_id": 2, "ratings": {"c": true, "a": 3}}',
    )
    items = read_ratings(path)
    assert items == [{"a": "yes"}, {"c": "true", "a": "3"}]
    assert choose_categories("f", items, RatingLevel.NOMINAL, None) == ["3", "true", "yes"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"ratings": {"a": "x"}}', "has no 'item_id'"),
        ('{"item_id": "2"}', "has no 'ratings'"),
        ('{"item_id": "2", "ratings": ["x"]}', "ratings must be an object"),
        ('{"item_id": "2", "ratings": {"a": 0.5}}', "ratings has 'a' that is not text"),
        ('{"item_id": "2", "ratings": {"a": " "}}', "has a blank rating of 'a'"),
        ('{"item_id": "1", "ratings": {"a": "x"}}', "of line 1 again"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, problem):
    path = write(tmp_path, '{"item_id": "1", "ratings": {"a": "x"}}', line)
    with pytest.raises(FileError, match=problem) as caught:
        read_ratings(path)
    assert caught.value.line == 2


def rated(tmp_path, *values):
    lines = [f'{{"item_id": {i}, "ratings": {{"a": {v}}}}}' for i, v in enumerate(values)]
    return read_ratings(write(tmp_path, *lines))


def test_numbers_are_in_their_order_and_filled_in_where_it_matters(tmp_path):
    numbers = rated(tmp_path, 10, 2, -1)
    expected = [str(n) for n in range(-1, 11)]
    for level in (RatingLevel.ORDINAL, RatingLevel.INTERVAL):
        assert choose_categories("f", numbers, level, None) == expected
    assert choose_categories("f", numbers, RatingLevel.NOMINAL, None) == ["-1", "2", "10"]
    assert len(choose_categories("f", rated(tmp_path, 0, 100), RatingLevel.INTERVAL, None)) == 101
    with pytest.raises(Problem, match="from 0 to 101, and a scale has at most 101 steps"):
        choose_categories("f", rated(tmp_path, 0, 101), RatingLevel.INTERVAL, None)


def test_words_need_an_order_where_it_matters(tmp_path):
    words = rated(tmp_path, '"poor"', '"good"')
    assert choose_categories("f", words, RatingLevel.NOMINAL, None) == ["good", "poor"]
    with pytest.raises(Problem, match="--categories good,poor"):
        choose_categories("f", words, RatingLevel.ORDINAL, None)
    given = choose_categories("f", words, RatingLevel.ORDINAL, "poor, fair, good")
    assert given == ["poor", "fair", "good"]
