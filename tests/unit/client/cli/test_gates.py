"""Gates: their syntax, what passes, and what can't be checked."""

from __future__ import annotations

import json

import pytest
from judged import MetricTable
from judged.cli.gates import GateOptions, Gates, split_min_scores
from judged.cli.output import Exit, Output
from judged.cli.problems import Problem
from judged.evaluation import FileError
from judged.report.documents import read_gates
from judged.values import MetricCounts, MetricResult, NegativeMatch, NegativeReport, VerdictCounts

NDCG = "rbp(p=0.5)@10"


def table(mean=0.76, n=4, signature="s|v1", lower=None, verdicts=None, left_out=0):
    metric = MetricResult(NDCG, mean, n, lower, None, signature, [])
    counts = MetricCounts(evaluated=n, verdicts=verdicts, skipped_missing=left_out)
    return MetricTable([metric], [], counts)


def gates(
    scores=(),
    drops=(),
    baseline=None,
    *,
    metrics=(NDCG,),
    allow=False,
    negatives=None,
    coverage=None,
):
    options = GateOptions(
        min_score=scores,
        max_drop=drops,
        baseline=None if baseline is None else str(baseline),
        allow_other_signature=allow,
    )
    return Gates(options, metrics, max_negatives=negatives, min_coverage=coverage)


def finish(outcomes):
    out = Output(None)
    out.gates = outcomes
    out.finish()


@pytest.fixture
def baseline(tmp_path):
    path = tmp_path / "base.json"

    def write(mean=0.8, n=4, signature="s|v1", judge=None, upper=None):
        metrics = {NDCG: {"mean": mean, "n": n, "signature": signature, "upper_bound": upper}}
        path.write_text(json.dumps({"metrics": metrics, "per_query": {}, "signature": judge}))
        return path

    return write


class TestMinScore:
    @pytest.mark.parametrize(
        ("threshold", "passed"),
        [("0.76", True), ("0.7599999", True), ("0.7600001", False), ("1e-3", True), ("9", False)],
    )
    def test_holds_the_mean_against_the_threshold(self, threshold, passed):
        (outcome,) = gates([f"{NDCG}={threshold}"]).check(table(), None, Output(None))
        assert (outcome.passed, outcome.value) == (passed, 0.76)

    def test_says_which_gate_fell_short_and_by_how_much(self, capsys):
        outcomes = gates([f"{NDCG}=0.8"]).check(table(), None, Output(None))
        with pytest.raises(Exit) as left:
            finish(outcomes)
        assert left.value.exit_code == 1
        assert capsys.readouterr().err == (
            f"judged: fell short: {NDCG} is 0.7600, 0.0400 below --min-score {NDCG}=0.8\n"
        )

    def test_a_metric_without_a_mean_ends_with_2(self):
        (outcome,) = gates([f"{NDCG}=0"]).check(table(None), None, Output(None))
        assert (outcome.passed, outcome.value) == (False, None)
        with pytest.raises(Exit) as left:
            finish([outcome])
        assert left.value.exit_code == 2

    @pytest.mark.parametrize(("threshold", "passed"), [("0.7", True), ("0.71", False)])
    def test_holds_the_lower_bound_against_the_bar_where_verdicts_are_missing(
        self, threshold, passed
    ):
        found = table(lower=0.7, verdicts=VerdictCounts(ok=8, error=2))
        held = gates([f"{NDCG}={threshold}"], coverage=0.8).check(found, None, Output(None))
        assert [outcome.passed for outcome in held] == [passed, True]
        assert (held[0].value, held[0].worst) == (0.76, 0.7)
        assert "lower bound" in held[0].message

    def test_topics_that_the_run_lacks_count_as_0_and_against_the_coverage(self):
        found = table(mean=0.8, n=9, left_out=1)
        score, coverage = gates([f"{NDCG}=0.73"]).check(found, None, Output(None))
        assert score.worst == pytest.approx(0.72)
        assert (score.passed, coverage.passed, coverage.value) == (False, False, 0.9)


class TestMinCoverage:
    VERDICTS = VerdictCounts(ok=6, error=1, abstained=1, not_assessable=5)

    @pytest.mark.parametrize(("share", "passed"), [(None, False), (0.75, True), (0.76, False)])
    def test_what_is_not_assessable_is_not_missing(self, share, passed):
        found = table(lower=0.76, verdicts=self.VERDICTS)
        _, coverage = gates([f"{NDCG}=0"], coverage=share).check(found, None, Output(None))
        assert (coverage.value, coverage.passed) == (0.75, passed)

    def test_is_a_gate_of_its_own_and_none_without_gates(self):
        found = table(lower=0.76, verdicts=self.VERDICTS)
        assert gates().check(found, None, Output(None)) == []
        assert not gates(coverage=1.0).check(found, None, Output(None))[0].passed

    def test_no_verdict_at_all_ends_with_2(self):
        found = table(0.0, lower=0.0, verdicts=VerdictCounts(abstained=3))
        outcomes = gates([f"{NDCG}=0"], coverage=0.0).check(found, None, Output(None))
        with pytest.raises(Exit) as left:
            finish(outcomes)
        assert left.value.exit_code == 2

    @pytest.mark.parametrize(
        "text", ["0.8", f"{NDCG}=", f"{NDCG}=x", f"{NDCG}=nan", f"{NDCG}=1_0", "=0.8", NDCG]
    )
    def test_malformed_gates_are_refused(self, text):
        with pytest.raises(Problem, match="METRIC=X"):
            gates([text])

    def test_metrics_that_are_not_measured_are_refused(self):
        with pytest.raises(Problem, match="add --metric ap"):
            gates(["ap=0.5"])


class TestMaxDrop:
    @pytest.mark.parametrize(("drop", "passed"), [("0.04", True), ("0.039", False), ("0", False)])
    def test_holds_the_drop_against_the_threshold(self, drop, passed, baseline):
        (outcome,) = gates((), [f"{NDCG}={drop}"], baseline()).check(table(), None, Output(None))
        assert outcome.passed is passed
        assert outcome.value == pytest.approx(0.04)

    def test_holds_the_largest_drop_against_the_bar_where_verdicts_are_missing(self, baseline):
        now = table(lower=0.7, verdicts=VerdictCounts(ok=8, error=2))
        for drop, passed in (("0.2", True), ("0.19", False)):
            held = gates((), [f"{NDCG}={drop}"], baseline(upper=0.9), coverage=0.8)
            assert [outcome.passed for outcome in held.check(now, None, Output(None))] == [
                passed,
                True,
            ]

    def test_a_rise_passes(self, baseline):
        held = gates((), [f"{NDCG}=0"], baseline(0.5))
        assert held.check(table(), None, Output(None))[0].passed

    def test_needs_a_baseline_and_a_baseline_needs_it(self, baseline):
        with pytest.raises(Problem, match="needs --baseline FILE"):
            gates((), [f"{NDCG}=0.1"])
        with pytest.raises(Problem, match="no use without --max-drop"):
            gates((), (), baseline())
        with pytest.raises(Problem, match="a drop is 0 or more"):
            gates((), [f"{NDCG}=-0.1"], baseline())

    @pytest.mark.parametrize(
        ("written", "named"),
        [({"signature": "s|v2"}, "s|v2"), ({"judge": "exact|v1"}, "the judge")],
    )
    def test_another_signature_is_refused_unless_allowed(self, written, named, baseline):
        path = baseline(**written)
        with pytest.raises(Problem, match="--allow-other-signature") as caught:
            gates((), [f"{NDCG}=1"], path).check(table(), None, Output(None))
        assert named.replace("|", r"|") in str(caught.value)
        out = Output(None)
        assert gates((), [f"{NDCG}=1"], path, allow=True).check(table(), None, out)[0].passed
        assert len(out.warnings) == 1

    def test_another_number_of_queries_is_a_warning(self, baseline):
        out = Output(None)
        gates((), [f"{NDCG}=1"], baseline(n=9)).check(table(), None, out)
        assert "a mean of 9 queries there and of 4 here" in out.warnings[0]

    def test_a_baseline_without_the_metric_or_its_mean_is_refused(self, baseline, tmp_path):
        with pytest.raises(Problem, match="has no mean there"):
            gates((), [f"{NDCG}=1"], baseline(None)).check(table(), None, Output(None))
        other = tmp_path / "other.json"
        other.write_text('{"metrics": {}, "per_query": {}}')
        with pytest.raises(FileError, match="it has no metric"):
            gates((), [f"{NDCG}=1"], other).check(table(), None, Output(None))


class TestMaxNegatives:
    def report(self, matches, error=0):
        found = [NegativeMatch(f"q{i}", 0, 0, "d", 1.0) for i in range(matches)]
        return NegativeReport(5, matches, found, VerdictCounts(ok=10, error=error))

    @pytest.mark.parametrize(("matches", "passed"), [(0, True), (2, True), (3, False)])
    def test_counts_the_matches(self, matches, passed):
        found = gates(negatives=2).check(table(), None, Output(None), self.report(matches))
        assert (found[0].passed, found[0].value) == (passed, matches)

    @pytest.mark.parametrize(("errors", "passed"), [(1, True), (2, False)])
    def test_missing_verdicts_count_as_matches(self, errors, passed):
        report = self.report(1, error=errors)
        held = gates(negatives=2, coverage=0.5).check(table(), None, Output(None), report)
        assert [outcome.passed for outcome in held] == [passed, True]
        assert held[0].worst == 1 + errors

    def test_missing_verdicts_count_against_the_coverage(self):
        held = gates(negatives=9).check(table(), None, Output(None), self.report(0, error=1))
        assert [outcome.passed for outcome in held] == [True, False]

    def test_no_verdict_on_negatives_at_all_ends_with_2(self):
        report = NegativeReport(5, 0, [], VerdictCounts(error=3))
        held = gates(negatives=9, coverage=0.0).check(table(), None, Output(None), report)
        assert not any(outcome.assessed for outcome in held)

    def test_needs_negatives(self):
        with pytest.raises(Problem, match="has no negative_answers"):
            gates(negatives=0).check(table(), None, Output(None), None)


class TestSplit:
    def test_a_bare_number_is_the_bar_of_the_judge(self):
        assert split_min_scores(["ap=0.3", "0.7", "mrr=1"]) == (0.7, ["ap=0.3", "mrr=1"])
        assert split_min_scores([]) == (None, [])

    @pytest.mark.parametrize("texts", [["0.7", "0.8"], ["ap"], ["nan"]])
    def test_what_is_neither_is_refused(self, texts):
        with pytest.raises(Problem, match="METRIC=X"):
            split_min_scores(texts)


def test_the_document_lists_the_gates():
    outcomes = gates([f"{NDCG}=0.8"]).check(table(), None, Output(None))
    document = {"gates": [outcome.to_dict() for outcome in outcomes]}
    sentence = f"fell short: {NDCG} is 0.7600, 0.0400 below --min-score {NDCG}=0.8"
    assert read_gates(document) == [(False, sentence)]  # as a report shows it
    assert document == {
        "gates": [
            {
                "gate": "min_score",
                "metric": NDCG,
                "threshold": 0.8,
                "value": 0.76,
                "worst_case": 0.76,
                "passed": False,
                "message": sentence,
            }
        ]
    }


class TestSpellings:
    """A gate may spell a metric in another way than the flag that asks for it."""

    SIGNATURE = "rbp@10|p:0.5|matching:any|v1"

    def outcome(self, metric, typed):
        [found] = gates([f"{typed}=0.7"], metrics=[metric]).check(
            table(signature=self.SIGNATURE), None, Output(None)
        )
        return found

    @pytest.mark.parametrize(
        ("metric", "typed"),
        [
            ("rbp(p=0.50)@10", NDCG),
            ("rbp@10", NDCG),
            (NDCG, "rbp(p=.5)@10"),
            ("rbp(p=0.5)@10", "rbp(p=5e-1)@10"),
        ],
    )
    def test_one_that_means_the_same_is_held(self, metric, typed):
        assert self.outcome(metric, typed).passed

    def test_one_that_may_mean_the_same_is_refused_once_the_server_has_said_that_it_does_not(self):
        message = r"--min-score rbp@10=0.7: rbp@10 is not measured; add --metric rbp@10, or name"
        with pytest.raises(Problem, match=message):
            self.outcome("rbp(p=0.5)@10", "rbp@10")

    def test_one_that_can_not_is_refused_at_once(self):
        with pytest.raises(Problem, match="is not measured"):
            gates(["rbp(p=0.6)@10=0.7"])
