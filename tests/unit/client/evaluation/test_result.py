import csv
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged.evaluation import EvaluationResult, FileError, QueryResult, RetrievedResult
from judged.evaluation.datasets.tables import plain_cell
from judged.values import (
    CascadeUsage,
    ErrorGuarantee,
    Interval,
    ItemShares,
    JudgeIdentity,
    MetricCounts,
    MetricResult,
    MetricSlice,
    MetricTable,
    NegativeMatch,
    NegativeReport,
    StageUsage,
    Usage,
    VerdictCounts,
)

SHARES = ItemShares("score", (0.0, 1.0), (1.0,), (0.0,))
CASCADE = CascadeUsage(
    (StageUsage("exact", 2, 1, None),), None, ErrorGuarantee(0.1, 0.9, 9, 0, 9, 9.0, "s", (SHARES,))
)
INTERVAL = Interval(0.1, 0.9, 0.95, 0.2, "percentile|v1", ("few queries",))
TABLE = MetricTable(
    [
        MetricResult("mrr@2", 0.75, 2, None, None, "mrr|v1", [1.0, 0.5], INTERVAL),
        MetricResult("recall@2", None, 0, 0.0, 1.0, "recall|v1", [0.0, math.nan]),
    ],
    ["q1", "q2"],
    MetricCounts(queries=3, evaluated=2, retrieved=3, verdicts=VerdictCounts(ok=2, error=1)),
    [MetricSlice("kind", "a", [MetricResult("mrr@2", 1.0, 1, None, None, "mrr|v1", [])])],
)
FOUND = [
    RetrievedResult(1, "d1", "a, text", True, 0.9, "OK", None, (0,), False, 3.5),
    RetrievedResult(2, "d2", None, None, None, "ERROR", "PROVIDER: down"),
    RetrievedResult(3, "d1", "a, text", duplicate=True),
]
RESULT = EvaluationResult(
    TABLE,
    [
        QueryResult("q1", "what, then?", ["e"], retrieved=FOUND, metadata={"kind": "a"}),
        QueryResult("q2", "how", (), ["d9"], ["bad"]),
        QueryResult("q3", "why", failure="RuntimeError: no index"),
    ],
    JudgeIdentity("exact", "verbatim", 0.5, "exact|v1", "key", "print"),
    NegativeReport(1, 1, [NegativeMatch("q2", 0, 0, "d2", 0.7)], VerdictCounts(ok=1)),
    Usage(calls=2, cost=None, cascade=CASCADE, left_out=("tokens",)),
    ["mind the gap"],
    "bm25",
    2,
)


def test_the_summary_shows_bounds_where_all_is_unsettled():
    [line] = [line for line in RESULT.summary().splitlines() if line.startswith("recall@2")]
    assert line.split() == ["recall@2", "-", "[0.0000,", "1.0000]", "0"]


def test_the_document_is_read_back_as_it_was(tmp_path):
    text = RESULT.to_json(tmp_path / "a.json")
    again = EvaluationResult.from_json(tmp_path / "a.json")
    assert again.to_json() == text
    assert again["mrr@2"].interval == INTERVAL
    assert math.isnan(again["recall@2"].per_query[1])
    assert (again.judge, again.usage, again.table.counts) == (
        RESULT.judge,
        RESULT.usage,
        RESULT.table.counts,
    )
    assert list(again.queries[0].retrieved) == FOUND
    assert again.failures == {"q3": "RuntimeError: no index"}


@settings(max_examples=25)
@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(codec="utf-8")))
def test_any_text_survives_the_document(tmp_path_factory, text, document_id):
    path = tmp_path_factory.getbasetemp() / "any.json"
    found = [RetrievedResult(1, document_id, text)]
    result = EvaluationResult(TABLE, [QueryResult("q", text, [text], retrieved=found)])
    result.to_json(path)
    again = EvaluationResult.from_json(path).queries[0]
    assert (again.query, list(again.expected), list(again.retrieved)) == (text, [text], found)


def test_texts_of_rows_are_not_computed_and_numbers_stay(tmp_path, monkeypatch):
    rows = [{"query_id": "=1+1", "@m": -0.5, "query": "'tis", "failure": "-x", "found": -3}]
    monkeypatch.setattr(EvaluationResult, "to_rows", lambda _: rows)
    RESULT.to_csv(tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["query_id", "'@m", "query", "failure", "found"],
            ["'=1+1", "-0.5", "''tis", "'-x", "-3"],
        ]
    with (tmp_path / "a.csv").open(newline="") as file:
        again = [[plain_cell(cell) for cell in row] for row in csv.reader(file)]
    assert again == [list(rows[0]), [str(value) for value in rows[0].values()]]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"format": None}, "has no 'format'"),
        ({"version": 2}, "has 'version' 2, and this judged reads 1"),
        ({"metrics": None}, 'has no "metrics"'),
        ({"judge": {"kind": "exact"}}, "judge has no 'profile'"),
        ({"queries": [{"query_id": "q"}]}, "queries[0] has no 'query'"),
    ],
)
def test_what_is_no_result_is_refused(tmp_path, change, problem):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(RESULT.to_dict() | change))
    with pytest.raises(FileError) as caught:
        EvaluationResult.from_json(path)
    assert problem in str(caught.value)
