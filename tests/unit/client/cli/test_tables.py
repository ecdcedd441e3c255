"""What commands print of verdicts, means and of what asking models took."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from judged import MetricTable, QueryGroup, Source, Status, Verdicts
from judged._batching.judging import failed_verdicts
from judged.cli.output import Exit, Output
from judged.cli.tables import (
    Tally,
    corrected_table,
    describe_counts,
    describe_usage,
    describe_verdicts,
    detail_document,
    means_table,
    negative_warnings,
    per_query_table,
    usage_document,
    vote_warnings,
)
from judged.errors import Unavailable
from judged.values import (
    CorrectedEstimate,
    Estimate,
    Interval,
    JudgeIdentity,
    MetricCounts,
    MetricResult,
    NegativeMatch,
    NegativeReport,
    Usage,
    VerdictCounts,
    VerdictDetail,
    VerdictSample,
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


TALLIED = JudgeIdentity("exact", "verbatim", 0.5, "exact|v1", "key", "print")


def tallied(relevant: list[bool]) -> Verdicts:
    n = len(relevant)
    return Verdicts(
        relevant=relevant,
        score=[float(each) for each in relevant],
        status=[int(Status.OK)] * n,
        source=[int(Source.COMPUTED)] * n,
        flags=[0] * n,
        offsets=[0, n],
        errors={},
        judge=TALLIED,
        agreement=[0.5] * n,
        usage=Usage(calls=n),
    )


def test_blocks_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally()
    tally.add(tallied([True, False]))
    tally.add(tallied([True]))
    assert tally.counts == VerdictCounts(ok=3, relevant=2)
    assert tally.usage == Usage(calls=3)
    tally.tell(Output(None))
    said = capsys.readouterr().err
    assert "3 verdicts, 2 relevant, coverage 1; exact|v1" in said
    assert "3 of 3 verdicts have votes on both sides" in said


def test_a_block_that_nobody_answered_has_the_error_of_its_server(
    capsys: pytest.CaptureFixture[str],
) -> None:
    groups = [QueryGroup("q", ["a", "b"], ["c"]), QueryGroup("q", ["a"], ["d"])]
    lost = failed_verdicts(groups, Unavailable("can't reach it", code="UNAVAILABLE"), TALLIED)
    assert (len(lost), lost.offsets, set(lost.status)) == (3, [0, 2, 3], {int(Status.ERROR)})
    assert {error.reason for error in lost.errors.values()} == {"UNAVAILABLE"}
    tally = Tally()
    tally.add(tallied([True]))
    tally.add(replace(lost, agreement=[0.0] * 3))
    assert tally.counts.error == 3
    out = Output(None)
    tally.tell(out)
    assert "3 verdicts missing: UNAVAILABLE: can't reach it" in capsys.readouterr().err
    with pytest.raises(Exit) as ended:
        out.finish()
    assert ended.value.exit_code == 2


IDENTITY = JudgeIdentity("llm", "", 0.5, "llm|v1", "", "")


class TestUsage:
    def test_is_one_line(self):
        line = describe_usage(Usage(1, 2, 30, 4, 0.00123, 1.0))
        assert line == "1 call answered in 2 tries, 30 input and 4 output tokens, cost 0.00123"

    def test_without_a_price_there_is_no_cost(self):
        assert describe_usage(Usage(2, 1, 0, 0, None)).startswith("2 calls answered in 1 try,")
        assert "cost" not in describe_usage(Usage(cost=None))

    def test_is_in_the_document_when_somebody_was_asked(self):
        assert usage_document(None) == {}
        assert usage_document(Usage(cost=None))["usage"]["cost"] is None


def test_votes_on_both_sides_are_a_warning():
    columns = [True] * 3, [1.0] * 3, [1, 1, 3], [1] * 3, [0] * 3
    verdicts = Verdicts(*columns, [0, 3], {}, IDENTITY, agreement=[1.0, 2 / 3, 0.0])
    (warning,) = vote_warnings(verdicts)
    assert warning.startswith("1 of 3 verdicts has votes on both sides")
    (warning,) = vote_warnings(replace(verdicts, agreement=[0.5, 2 / 3, 0.0]))
    assert warning.startswith("2 of 3 verdicts have votes on both sides")


def test_the_document_of_a_detail_names_statuses():
    sample = VerdictSample(Status.ABSTAINED, None, None, "REFUSED", "", "no")
    document = detail_document(VerdictDetail("", [sample], Usage(), "m", ""))
    assert document["samples"][0]["status"] == "ABSTAINED"
    assert document["samples"][0]["score"] is None


INTERVAL = Interval(0.25, 0.75, 0.95, 0.1, "s")


def mean(corrected, warnings=()):
    naive = Estimate(0.7, INTERVAL)
    return CorrectedEstimate(corrected, naive, Estimate(0.5, None), 3, 90, 0.25, warnings)


def test_the_three_means_stand_side_by_side():
    means = {"ap": mean(Estimate(0.5, INTERVAL)), "mrr": mean(None)}
    console = Console(width=200, color_system=None)
    with console.capture() as shown:
        console.print(corrected_table(means))
    _, _, first, second = shown.get().splitlines()
    assert first.split() == [
        *("ap", "0.7000", "[0.2500,", "0.7500]", "0.5000"),
        *("0.5000", "[0.2500,", "0.7500]", "3", "of", "90", "0.250"),
    ]
    assert second.split()[4:6] == ["0.5000", "-"]
