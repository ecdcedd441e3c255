"""How queries and results fit each other."""

from judged.evaluation.datasets.query import Fit


def test_queries_without_results_and_results_without_queries_are_told():
    missing, unknown, rising = Fit.of(["a", "b"], ["a", "B"], ["a"]).warnings()
    assert missing.startswith("1 of 2 queries has no results and counts as having found nothing")
    assert unknown.endswith("is not in the data set and left out, for example 'B'")
    assert "has scores that rise with rank, for example 'a'" in rising
