"""What is typed about rubrics, and what the server says of it in words of the command line."""

from __future__ import annotations

import pytest
from judged.cli.commands.score import outcomes, read_thresholds
from judged.values import RubricSummary, ScoreCounts


class TestBars:
    def test_a_number_is_the_bar_and_the_others_are_gates(self):
        threshold, gates = read_thresholds(["0.5", "a=0.8", "b=0"], ["a", "b", "c"])
        assert threshold == 0.5
        assert [str(gate) for gate in gates] == ["--min-score a=0.8", "--min-score b=0"]

    @pytest.mark.parametrize(
        ("mean", "passed"), [(0.8, True), (0.8 - 1e-10, True), (0.79, False), (None, False)]
    )
    def test_outcomes(self, mean: float | None, passed: bool):
        summary = RubricSummary("a", mean, ScoreCounts(not_assessable=3))
        (outcome,) = outcomes(read_thresholds(["a=0.8"], ["a"])[1], [summary], None)
        assert (outcome.value, outcome.passed) == (mean, passed)
        assert outcome.assessed is (mean is not None)

    def test_a_gate_may_name_the_version_too(self):
        for name in ("a", "a@1"):
            found = read_thresholds([f"{name}=0.8"], ["a@1"])
            assert found == read_thresholds(["a=0.8"], ["a"])
