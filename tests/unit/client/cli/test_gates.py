"""Gates: their syntax, what passes, and what can't be checked."""

from __future__ import annotations

from dataclasses import replace

import pytest
from click.exceptions import Exit
from judged import MetricTable
from judged.cli.gates import Gates, split_min_scores
from judged.cli.output import Output, Problem
from judged.report.content import make_report
from judged.values import MetricCounts, MetricResult, VerdictCounts

M = "rbp(p=0.5)@10"
METRIC = MetricResult(M, 0.76, 4, None, None, "s|v1", [])


def table(verdicts=None, left_out=0, **fields):
    counts = MetricCounts(evaluated=4, verdicts=verdicts, skipped_missing=left_out)
    return MetricTable([replace(METRIC, **fields)], [], counts)


def missing(ok, error=0, mean=0.76, lower=0.7, **counts):
    return table(VerdictCounts(ok=ok, error=error, **counts), mean=mean, lower_bound=lower)


def gates(*scores, coverage=None):
    return Gates(scores, [M], coverage)


def status(outcomes):
    out = Output(None)
    out.gates = outcomes
    try:
        out.finish()
    except Exit as left:
        return left.exit_code
    return 0


@pytest.mark.parametrize(
    ("held", "found", "passed", "ends"),
    [
        # A mean is held against its threshold, or its lower bound where verdicts are missing.
        (gates(f"{M}=0.76"), table(), [True], 0),
        (gates(f"{M}=0.7599999"), table(), [True], 0),
        (gates(f"{M}=0.7600001"), table(), [False], 1),
        (gates(f"{M}=0"), table(mean=None), [False], 2),
        (gates(f"{M}=0.7", coverage=0.8), missing(8, 2), [True, True], 0),
        (gates(f"{M}=0.71", coverage=0.8), missing(8, 2), [False, True], 1),
        # Topics that the run lacks count as 0, and against the coverage.
        (gates(f"{M}=0.73"), table(left_out=1, mean=0.8, n=9), [False, False], 1),
        # What is not assessable is not missing.
        (gates(f"{M}=0"), missing(6, 1, abstained=1, not_assessable=5), [True, False], 1),
        (gates(f"{M}=0", coverage=0.75), missing(6, 2, not_assessable=5), [True, True], 0),
        (gates(f"{M}=0", coverage=0.76), missing(6, 2, not_assessable=5), [True, False], 1),
        (gates(), missing(6, 2), [], 0),
        (gates(coverage=1.0), missing(6, 2), [False], 1),
        (gates(f"{M}=0", coverage=0.0), missing(0, 3, 0.0, 0.0), [True, True], 2),
    ],
)  # fmt: skip
def test_what_is_held_in_the_worst_case(held, found, passed, ends):
    outcomes = held.check(found)
    assert [outcome.passed for outcome in outcomes] == passed
    assert status(outcomes) == ends


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((text, "METRIC=X") for text in ["0.8", f"{M}=", f"{M}=x", f"{M}=nan", f"{M}=80", "=1"]),
        ("ap=0.5", "add --metric ap"),
        ("rbp(p=0.6)@10=0.7", "is not measured"),
    ],
)
def test_malformed_gates_are_refused(text, message):
    with pytest.raises(Problem, match=message):
        Gates([text], [M])


def test_a_bare_number_is_the_threshold_of_the_judge():
    assert split_min_scores(["ap=0.3", "0.7", "mrr=1"]) == (0.7, ["ap=0.3", "mrr=1"])
    for texts in (["0.7", "0.8"], ["ap"], ["nan"]):
        with pytest.raises(Problem, match="METRIC=X"):
            split_min_scores(texts)


def test_the_document_lists_the_gates():
    (outcome,) = gates(f"{M}=0.8").check(table())
    sentence = f"failed: {M} is 0.7600; --min-score {M}=0.8"
    document = {"metrics": {}, "per_query": {}, "gates": [outcome.to_dict()]}
    assert make_report(document).gates == [(False, sentence)]
    assert outcome.to_dict() == {
        "gate": "min_score",
        "metric": M,
        "threshold": 0.8,
        "passed": False,
        "value": 0.76,
        "worst_case": 0.76,
        "message": sentence,
    }
