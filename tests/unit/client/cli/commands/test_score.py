"""What is typed about rubrics, and what the server says of it in words of the command line."""

from __future__ import annotations

import pytest
from judged import Rubric
from judged.cli.commands.score import outcomes, read_rubrics, read_thresholds
from judged.cli.output import Problem
from judged.values import JudgeInfo, ParameterInfo, RubricInfo, RubricSummary, ScoreCounts

PARAMETERS = (
    ParameterInfo("samples", 0, "a whole number", ""),
    ParameterInfo("temperature", 0.0, "a number", ""),
)
DIMENSIONS = {"accuracy": 1.0, "coherence": 1.0}


class Info:
    """What a server says, as far as it is read here."""

    default_judge = "token_overlap"
    judges = (JudgeInfo("answers", "", "", 0.0, PARAMETERS, "", ""),)
    rubrics = (
        RubricInfo("faithfulness", "1", "", 0.7, ""),
        RubricInfo("quality", "1", "", 0.7, "", "dimensions", (), DIMENSIONS),
        RubricInfo("other", "1", "", 0.7, "", "dimensions", (), {"accuracy": 1.0}),
        RubricInfo("recall", "1", "", 0.7, "", "claims", ("query", "reference", "contexts")),
        RubricInfo("match", "1", "", 0.5, "", "verdict", ("query", "expected", "retrieved")),
    )


def rubrics(*names: str, weights: str | None = None, threshold: float | None = None, given=None):
    return read_rubrics(names, Info(), threshold, given or {}, weights)


class TestRubrics:
    def test_a_version_travels(self):
        found = rubrics("quality@1", "faithfulness", weights="accuracy=1")
        assert found == [Rubric("quality@1", weights={"accuracy": 1.0}), Rubric("faithfulness")]

    def test_weights_are_for_the_rubrics_that_have_all_of_them(self):
        found = rubrics("faithfulness", "quality", "other", weights="accuracy=2, coherence=.5")
        assert [r.weights for r in found] == [{}, {"accuracy": 2.0, "coherence": 0.5}, {}]
        assert rubrics("other", "quality", weights="accuracy=1")[0].weights == {"accuracy": 1.0}

    @pytest.mark.parametrize(
        ("names", "weights", "message"),
        [
            (["quality"], "accuracy", "write it as name=value"),
            (["quality"], "accuracy=1e999", "accuracy must be a number"),
            (["quality"], "accuracy=1,accuracy=2", "accuracy: is given twice"),
            (["quality"], "", "write it as name=value"),
        ],
    )
    def test_weights_that_fit_nowhere(self, names, weights, message):
        with pytest.raises(Problem, match=message):
            rubrics(*names, weights=weights)


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
