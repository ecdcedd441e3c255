"""Results as people and programs read them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from judged import MetricTable, QueryGroup, TextMetricTable, TrecRankings, Verdicts
from judged._views import View
from judged.evaluation import Dataset, Query, Results, Retrieved, TrecQrels
from judged.values import (
    Interval,
    JudgeIdentity,
    MetricCounts,
    MetricResult,
    TextMetricResult,
    VerdictCounts,
)

JUDGE = JudgeIdentity("fake", "", 0.5, "fake|v1", "", "")
GROUPS = [
    QueryGroup("one", ["a", "b"], ["x", "y"], "q1", ["d1", "d2"]),
    QueryGroup("two", ["a"], ["z"], "q2"),
]


def views(kind: Any = View) -> Iterator[Any]:
    for each in kind.__subclasses__():
        yield each
        yield from views(each)


def made(kind: Any) -> Any:
    """Return a value with one of everything that it may hold."""
    origin, args = get_origin(kind), [each for each in get_args(kind) if each is not NoneType]
    if origin is tuple:
        return tuple(made(each) for each in args if each is not Ellipsis)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {made(args[0]): made(args[1])}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return [made(args[0])]
    if args:
        return made(args[0])
    if kind in (int, float, bool):
        return kind(1)
    if kind is bytes:
        return b"\0\0\x80\x3f"
    if kind is str or not hasattr(kind, "__dataclass_fields__"):
        return list(kind)[-1] if isinstance(kind, type) and issubclass(kind, Enum) else "x"
    types = get_type_hints(kind)
    return kind(**{part.name: made(types[part.name]) for part in fields(kind) if part.init})


# A dataclass with slots takes the place of the class that was written, which is a subclass too.
WRITTEN = {
    f"{each.__module__}.{each.__name__}": each
    for each in views()
    if hasattr(each, "__dataclass_fields__")
}


@pytest.mark.parametrize("kind", WRITTEN.values(), ids=lambda kind: kind.__name__)
def test_every_result_is_a_dictionary_and_rows(kind):
    result = made(kind)
    document, rows = result.to_dict(), result.to_rows()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert len({tuple(row) for row in rows}) <= 1
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(rows)
    assert len(frame) == len(rows)
    nested = frame.map(lambda value: isinstance(value, list | dict)).any(axis=None)
    assert not nested
    assert repr(result).startswith(kind.__name__)


def verdicts_of(n, groups=(), offsets=None):
    columns = [i % 2 == 0 for i in range(n)], [0.25] * n, [1] * n, [1] * n, [0] * n
    return Verdicts(*columns, [0, n] if offsets is None else offsets, {}, JUDGE, groups=groups)


def metric(name, n):
    values = [i / n for i in range(n)]
    return MetricResult(name, 0.5, n, 0.4, 0.6, "v1", values, Interval(0.1, 0.9, 0.95, 0.2, "t"))


def table(n=2):
    counts = MetricCounts(n, n, verdicts=VerdictCounts(ok=3, relevant=2))
    return MetricTable([metric("mrr", n), metric("ap", n)], [f"q{i}" for i in range(n)], counts)


def test_rows_of_verdicts_name_query_rank_and_document():
    rows = verdicts_of(5, GROUPS, [0, 4, 5]).to_rows()
    assert [(r["query_id"], r["rank"], r["document_id"], r["expected"]) for r in rows] == [
        ("q1", 1, "d1", 0),
        ("q1", 1, "d1", 1),
        ("q1", 2, "d2", 0),
        ("q1", 2, "d2", 1),
        ("q2", 1, None, 0),
    ]
    assert rows[1] | {"group": 0} == rows[1]
    assert (rows[0]["status"], rows[0]["relevant"], rows[0]["score"]) == ("OK", True, 0.25)


def test_metrics_are_found_by_name_and_walked_over():
    found = table()
    assert ("mrr" in found, "ndcg" in found) == (True, False)
    assert [part.name for part in found] == ["mrr", "ap"]
    with pytest.raises(KeyError, match="ndcg; this table has mrr, ap"):
        found["ndcg"]
    texts = TextMetricTable([TextMetricResult("bleu", 0.5, 2, None, "s", [], [], [])])
    assert ("bleu" in texts, "mrr" in texts, len(list(texts))) == (True, False, 1)


def test_queries_have_a_value_by_metric():
    assert dict(table().query_values()) == {
        "q0": {"mrr": 0.0, "ap": 0.0},
        "q1": {"mrr": 0.5, "ap": 0.5},
    }


@pytest.mark.parametrize(
    "value",
    [
        verdicts_of(30_000),
        table(30_000),
        QueryGroup("q" * 9_999, ["e" * 9_999] * 99, ["x"] * 9_999),
        TrecRankings({"q": dict.fromkeys(map(str, range(9_999)), 1)}, {}),
        TrecQrels({str(i): {} for i in range(9_999)}),
        Dataset([Query(str(i), "x") for i in range(9_999)]),
        Results.of({str(i): [Retrieved("d")] * 9 for i in range(9_999)}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_repr_is_short_however_much_it_stands_for(value):
    assert repr(value).startswith(type(value).__name__)
    assert len(repr(value)) < 1100
