"""The table and the JSON document of metrics."""

import io

from judged import MetricTable
from judged.cli.tables import (
    describe_counts,
    describe_verdicts,
    means_table,
    negative_warnings,
    per_query_table,
)
from judged.values import (
    MetricCounts,
    MetricResult,
    NegativeMatch,
    NegativeReport,
    VerdictCounts,
)
from rich.console import Console

HIT = NegativeReport(3, 1, [NegativeMatch("q7", 4, 0, "d9", 0.9)], VerdictCounts(ok=8, relevant=1))
SETTLED = MetricTable(
    [
        MetricResult("ndcg@10", 0.25, 2, None, None, "ndcg@10|v1", [0.0, 0.5]),
        MetricResult("ap", 1.0, 2, None, None, "ap|v1", [1.0, 1.0]),
    ],
    ["q1", "[bold]q2"],
    MetricCounts(queries=3, evaluated=2, skipped_no_gold=1, retrieved=20),
)


def text_of(table):
    page = io.StringIO()
    console = Console(file=page, width=100, markup=False)
    console.print(table)
    return [line.split() for line in page.getvalue().splitlines() if line.strip("─ ")]


class TestMeansTable:
    def test_has_no_bounds_where_every_verdict_exists(self):
        assert text_of(means_table(SETTLED)) == [
            ["metric", "mean", "n"],
            ["ndcg@10", "0.2500", "2"],
            ["ap", "1.0000", "2"],
        ]

    def test_shows_bounds_and_means_that_do_not_exist(self):
        table = MetricTable([MetricResult("ap", None, 0, 0.0, 1.0, "", [])], [], MetricCounts())
        assert text_of(means_table(table)) == [
            ["metric", "mean", "n", "lower", "upper"],
            ["ap", "-", "0", "0.0000", "1.0000"],
        ]


class TestPerQueryTable:
    def test_prints_ids_as_they_are(self):
        assert text_of(per_query_table(SETTLED)) == [
            ["query", "ndcg@10", "ap"],
            ["q1", "0.0000", "1.0000"],
            ["[bold]q2", "0.5000", "1.0000"],
        ]


class TestLines:
    def test_describe_what_went_in(self):
        assert describe_counts(SETTLED.counts) == "2 of 3 queries, 20 results"
        assert describe_verdicts(VerdictCounts(ok=3, error=1, relevant=2)) == (
            "4 verdicts, 2 relevant, coverage 0.75"
        )
        assert describe_verdicts(VerdictCounts()) == "0 verdicts, 0 relevant, coverage none"


def test_the_document_counts_reserved_tokens_where_there_are_any():
    flagged = VerdictCounts(flagged_reserved_tokens=2).to_dict()
    assert flagged["flagged_reserved_tokens"] == 2
    assert VerdictCounts(flagged_fallback=3).to_dict()["flagged_fallback"] == 3
    assert list(VerdictCounts(ok=3).to_dict()) == [
        "ok",
        "error",
        "abstained",
        "not_assessable",
        "relevant",
        "flagged_no_tokens",
        "flagged_truncated",
    ]


def test_a_match_of_a_negative_is_told_with_its_place():
    (warning,) = negative_warnings(HIT)
    assert warning.startswith("1 of 3 queries with negative answers retrieved one (1 match)")
    assert "'q7' with result 5 ('d9')" in warning


def test_missing_verdicts_on_negatives_are_told():
    (warning,) = negative_warnings(NegativeReport(1, 0, [], VerdictCounts(ok=1, error=2)))
    assert warning == "2 of 3 verdicts on negative answers are missing"
    (warning,) = negative_warnings(NegativeReport(1, 0, [], VerdictCounts(error=1)))
    assert warning == "1 of 1 verdict on negative answers is missing"


def test_without_negatives_there_is_nothing_to_tell():
    assert list(negative_warnings(None)) == []
    assert list(negative_warnings(NegativeReport(1, 0, [], VerdictCounts(ok=1)))) == []
