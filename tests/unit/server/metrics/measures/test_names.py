"""Metric names: what parses, how it prints, what each wrong name is told."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.domain import Parameter
from judged_server.metrics import measures
from judged_server.metrics.measures import (
    MAX_CUTOFF,
    METRICS,
    Measure,
    Metric,
    MetricNameError,
    parse_measure,
)

TOY = Metric(
    name="toy",
    description="A metric with every sort of parameter.",
    reference="none",
    function=lambda rankings, _parameters, _k: np.zeros(rankings.n_queries),
    parameters=(
        Parameter("p", 0.8, "A number.", 0.0, 1.0),
        Parameter("scale", 1.0, "A number of any size.", -1e300, 1e300),
        Parameter("kind", "plain", "A word.", choices=("plain", "fancy")),
    ),
    version=3,
)


@pytest.fixture(autouse=True)
def with_toy(monkeypatch):
    monkeypatch.setattr(measures, "METRICS", {**METRICS, "toy": TOY})


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("ndcg@10", "ndcg@10"),
        ("precision", "precision"),
        ("ndcg(gain=linear)@10", "ndcg@10"),
        ("ndcg(gain=exponential)@10", "ndcg(gain=exponential)@10"),
        ("ap(divisor=min)@3", "ap(divisor=min)@3"),
        ("ap(divisor=relevant)", "ap"),
        ("rbp(p=0.5)@10", "rbp(p=0.5)@10"),
        ("rbp(p=0.80)@10", "rbp@10"),
        ("err(max_grade=4)", "err(max_grade=4)"),
        ("hybrid_log_rank(alpha=0.3,gamma=1.0)", "hybrid_log_rank(alpha=0.3)"),
        ("toy(p=0.5)@10", "toy(p=0.5)@10"),
        ("toy(kind=fancy,p=1.0)", "toy(p=1,kind=fancy)"),
        ("toy(p=0.80)", "toy"),
        ("toy(p=-0)", "toy(p=0)"),
        (f"mrr@{MAX_CUTOFF}", f"mrr@{MAX_CUTOFF}"),
    ],
)
def test_a_name_prints_in_one_way(written, printed):
    assert str(parse_measure(written)) == printed


@given(st.sampled_from(sorted(METRICS)), st.data(), st.none() | st.integers(1, MAX_CUTOFF))
def test_every_metric_makes_the_round_trip(name, data, k):
    metric = METRICS[name]
    values = {
        p.name: data.draw(
            st.sampled_from(p.choices)
            if p.choices
            else st.floats(p.minimum, p.maximum).map(lambda value: value + 0.0)
        )
        for p in metric.parameters
    }
    measure = Measure(metric, values, k)
    assert parse_measure(str(measure)) == measure


@given(st.text(max_size=30))
def test_any_text_is_a_measure_or_a_named_error(text):
    try:
        measure = parse_measure(text)
    except MetricNameError:
        return
    assert parse_measure(str(measure)) == measure


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("", "is not a metric's name"),
        ("ndcg @10", "is not a metric's name"),
        ("ndcg@10\n", "is not a metric's name"),
        ("ndcg(gain=linear", "is not a metric's name"),
        ("x" * 201, "is not a metric's name"),
        ("ndgc@10", "did you mean ndcg?"),
        ("NDCG@10", "did you mean ndcg?"),
        ("P_5", "did you mean precision?"),
        ("P@5", "did you mean precision?"),
        ("map@10", "did you mean ap?"),
        ("map_cut_10", "did you mean ap?"),
        ("ndcg_cut_10", "did you mean ndcg?"),
        ("recip_rank", "did you mean mrr?"),
        ("success_1", "did you mean hit_rate?"),
        ("Rprec", "did you mean r_precision?"),
        ("zzzz", "this server has precision, recall, f1, "),
        ("ndcg@0", "k must be a whole number from 1 to 1000000000, not '0'"),
        ("ndcg@-1", "k must be"),
        ("ndcg@", "k must be"),
        ("ndcg@1.5", "k must be"),
        ("ndcg@ten", "k must be"),
        ("ndcg@010", "k must be"),
        ("ndcg@10@10", "k must be"),
        ("ndcg@\u0663", "k must be"),
        ("ndcg@1000000001", "k must be"),
        ("ndcg(gain=cubic)@10", "gain must be one of linear, exponential"),
        ("ndcg(base=2)@10", "ndcg has no parameter 'base'; it has gain"),
        ("mrr(p=1)", "mrr has no parameter 'p'; it has none"),
        ("ndcg()@10", "parameters are written name=value"),
        ("ndcg(gain)@10", "parameters are written name=value"),
        ("ndcg(gain=linear,gain=linear)", "parameter gain is given twice"),
        ("toy(p=1.5)", "p must be a number from 0 to 1"),
        ("toy(p=-1e-9)", "p must be a number from 0 to 1"),
        ("toy(p=nan)", "p must be a number"),
        ("toy(scale=inf)", "scale must be a number"),
        ("toy(p=)", "p must be a number"),
        ("toy(p=0_1)", "p must be a number"),
        ("toy(p=\u0660)", "p must be a number"),
    ],
)
def test_a_wrong_name_is_told_the_rule(name, rule):
    with pytest.raises(MetricNameError) as caught:
        parse_measure(name)
    assert rule in str(caught.value)


def test_a_signature_shows_defaults_settings_and_version():
    settings = [("matching", "greedy_first"), ("no_gold", "skip")]
    assert (
        parse_measure("ndcg@10").signature(settings)
        == "ndcg@10|gain:linear|matching:greedy_first|no_gold:skip|v1"
    )
    assert (
        parse_measure("toy(p=0.5)@3").signature([("source", "trec")])
        == "toy@3|p:0.5|scale:1|kind:plain|source:trec|v3"
    )
    assert parse_measure("mrr").signature([]) == "mrr|v1"
