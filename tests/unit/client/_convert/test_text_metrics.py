from __future__ import annotations

from dataclasses import replace

import pytest
from judged import InvalidArgument, TextItem, TextMetricTable
from judged._convert.text_metrics import TextPart, merge_text_metrics, of_whole, split_items
from judged.values import TextMetricResult


def result(mean, values=(), nrefs="1", name="bleu"):
    line = f"{name}|nrefs:{nrefs}|v1"
    return TextMetricResult(name, mean, len(values), None, line, list(values), [], [])


def table(*metrics):
    return TextMetricTable(list(metrics))


def test_items_are_cut_by_bytes_and_by_references():
    items = [TextItem("x" * 10, ["é"]), TextItem("", ["a", "b"]), TextItem("y", ["c"])]
    (whole,) = split_items(items)
    assert [item.hypothesis for item in whole.items] == ["x" * 10, "", "y"]
    assert split_items([]) == [TextPart(0, [])]
    assert [part.start for part in split_items(items, part_references=2)] == [0, 1, 2]
    parts = split_items(items, part_bytes=8)
    assert [part.start for part in parts] == [0, 1, 2]
    assert [item.hypothesis for part in parts for item in part.items] == ["x" * 10, "", "y"]


@pytest.mark.parametrize(
    ("item", "field"),
    [
        (TextItem("a", "bc"), "items[1].references"),
        (TextItem("a\ud800", ["b"]), "items[1].hypothesis"),
        (TextItem("a", ["b", None]), "items[1].references[1]"),
    ],
)
def test_what_cannot_be_sent_is_named(item, field):
    with pytest.raises(InvalidArgument) as caught:
        split_items([TextItem("a", ["b"]), item])
    assert caught.value.field == field


def test_parts_are_merged_and_say_that_references_vary():
    parts = [table(result(0.0, [0.0, 0.5], "1")), table(result(1.0, [1.0], "2"))]
    whole = merge_text_metrics(table(result(0.5, [])), parts, per_item=True)["bleu"]
    assert (whole.mean, whole.values) == (0.5, [0.0, 0.5, 1.0])
    assert whole.signature == "bleu|nrefs:var|v1"
    assert not merge_text_metrics(table(result(0.5)), parts, per_item=False)["bleu"].values


def test_items_without_a_value_are_counted_over_all_parts():
    first, second = (replace(result(1.0, [1.0]), without_value=n, unread=n + 1) for n in (1, 2))
    whole = merge_text_metrics(table(result(1.0)), [table(first), table(second)], per_item=False)
    assert (whole["bleu"].without_value, whole["bleu"].unread) == (3, 5)


def test_an_error_of_a_part_speaks_of_the_whole():
    error = InvalidArgument.of_field("items[2].references", "must hold at least one reference")
    named = of_whole(error, TextPart(40, []))
    assert named.field == "items[42].references"
    assert str(named).startswith("items[42].references")


def test_a_metric_that_is_not_there_is_named():
    with pytest.raises(KeyError, match="rougeL; this table has bleu"):
        table(result(0.5))["rougeL"]
