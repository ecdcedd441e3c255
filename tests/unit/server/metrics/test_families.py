from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from judged_server.errors import InvalidField
from judged_server.metrics.compute import compute_gains, compute_judged, compute_trec
from judged_server.metrics.matching import JudgedResults
from judged_server.metrics.measures.formulas import FAMILIES, family_metric
from judged_server.metrics.measures.names import METRICS, parse_metrics
from judged_server.metrics.table import MatchingMode, MetricOptions

from tests.trec import Topic, qrels_of, run_of

MEMBERS = ["precision", "recall", "f1", "hybrid_log_rank"]


def test_both_families_have_the_four_metrics():
    names = {name for name, metric in METRICS.items() if metric.family}
    assert names == {f"{member}_{family}" for member in MEMBERS for family in FAMILIES}


@pytest.mark.parametrize("family", list(FAMILIES))
@pytest.mark.parametrize("name", MEMBERS)
def test_a_member_has_the_formula_and_the_parameters_of_its_metric(name, family):
    plain, member = METRICS[name], METRICS[f"{name}_{family}"]
    assert (member.function, member.parameters) == (plain.function, plain.parameters)
    assert member.modes == (MatchingMode.ANY,)


def test_a_member_is_its_metric_under_the_family_and_in_mode_any():
    plain, family = METRICS["recall"], FAMILIES["exact"]
    assert family_metric(plain, family) == replace(
        plain,
        name="recall_exact",
        description="recall without pairing, where texts match that are equal, byte for byte.",
        modes=(MatchingMode.ANY,),
        family="exact",
    )


def test_a_name_prints_as_it_parses():
    name = "hybrid_log_rank_exact(gamma=2)@10"
    assert str(parse_metrics([name])[0]) == name


def test_the_signature_tells_the_judge_once_there_is_one():
    measure = parse_metrics(["precision_exact@5"])[0].judged_by("exact|min_score:0.8|v1")
    assert measure.metric == replace(METRICS["precision_exact"], family="")
    assert measure.signature([("matching", "any")]) == (
        "precision_exact@5|judge:exact min_score:0.8 v1|matching:any|v1"
    )


def test_no_verdicts_qrels_or_gains_are_taken_for_those_of_the_family():
    measures = parse_metrics(["mrr", "f1_similarity@2"])
    options = MetricOptions(MatchingMode.ANY)
    one = np.array([1])
    verdicts = JudgedResults(np.array([True]), one, one)
    calls = {
        "ask for f1 with matching MATCHING_MODE_ANY over verdicts of the judge semantic": lambda: (
            compute_judged(measures, verdicts, options)
        ),
        "from qrels": lambda: compute_trec(
            measures,
            qrels_of([Topic("1", ["a"], [1])]),
            run_of([Topic("1", ["a"], [1.0])]),
            options,
        ),
        "from gains": lambda: compute_gains(measures, [[1.0]], [[1.0]], options),
    }
    for words, call in calls.items():
        with pytest.raises(InvalidField, match=words) as caught:
            call()
        assert caught.value.field == "metrics[1]"
