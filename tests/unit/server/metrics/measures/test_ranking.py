"""The formulas against scalar readings of their definitions, and what must hold of all of them."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.metrics.input.rankings import rank_gains
from judged_server.metrics.measures import METRICS, parse_measure

NAMES = [
    "precision",
    "recall",
    "f1",
    "hit_rate",
    "mrr",
    "ap",
    "ndcg",
    "ndcg(gain=exponential)",
    "precision@3",
    "recall@3",
    "f1@3",
    "hit_rate@3",
    "mrr@3",
    "ap@3",
    "ap(divisor=min)@3",
    "ndcg@3",
    "ndcg(gain=exponential)@3",
    "ndcg@100",
    "precision@100",
    "ap@1",
    "r_precision",
    "r_precision@3",
]
"""The metrics that count hits, and those that discount gains."""

WEIGHTED = [
    "context_precision",
    "context_precision@3",
    "hybrid_log_rank",
    "hybrid_log_rank@3",
    "hybrid_log_rank(gamma=0)",
    "hybrid_log_rank(gamma=2.5,alpha=0.2)@4",
    "hybrid_log_rank(alpha=0)",
    "hybrid_log_rank(alpha=1)@2",
    "err",
    "err@3",
    "err(max_grade=3)",
    "err(max_grade=2.5)@4",
    "rbp",
    "rbp@3",
    "rbp(p=0.5)",
    "rbp(p=0)@2",
    "rbp_residual",
    "rbp_residual(p=0.5)@3",
]

ZERO_OF_NOTHING = [
    *NAMES,
    "context_precision",
    "context_precision@3",
    "hybrid_log_rank",
    "hybrid_log_rank@3",
    "hybrid_log_rank(gamma=0,alpha=0.3)",
    "err",
    "err(max_grade=3)@3",
    "rbp",
    "rbp(p=0.5)@3",
    "bpref",
    "bpref@3",
    "infap",
    "infap@3",
]
"""Those of every family, but for the two that say how sure others are."""

EVERY = [*ZERO_OF_NOTHING, "rbp_residual", "rbp_residual@3", "judged", "judged@3"]


def test_every_metric_is_among_them():
    of_families = {name for name, metric in METRICS.items() if metric.family}
    assert {parse_measure(name).metric.name for name in EVERY} == set(METRICS) - of_families


@st.composite
def queries(draw):
    """(gains by rank, gains to find) of one query."""
    gains = draw(st.lists(st.sampled_from([0, 0, -1, 1, 2, 3, 0.5]), max_size=8))
    missed = draw(st.lists(st.sampled_from([1, 2, 3, 0.5]), max_size=4))
    return gains, [gain for gain in gains if gain > 0] + missed


def ranked(some):
    return rank_gains([q[0] for q in some], [q[1] for q in some], "f")


def hybrid(best_ranks, n, gamma, alpha):
    """The definition, from the best rank of each expected item (0: unmatched) of n retrieved."""

    def credit(rank):
        if n == 1:
            return 1.0
        if gamma == 0:
            return 1 - (rank - 1) / (n - 1)
        return 1 - math.log(1 + gamma * (rank - 1)) / math.log(1 + gamma * (n - 1))

    if not best_ranks:
        return 0.0
    mean_credit = sum(credit(rank) for rank in best_ranks if rank) / len(best_ranks)
    recall = sum(rank > 0 for rank in best_ranks) / len(best_ranks)
    return alpha * recall + (1 - alpha) * mean_credit


def weighted(name, gains, relevant):
    """The same of a metric that weighs ranks or grades."""
    measure = parse_measure(name)
    parameters: Mapping[str, Any] = measure.parameters
    top = [max(gain, 0) for gain in gains][: measure.k]
    shares = [gain / max(1, *relevant) if relevant else 0 for gain in top]
    if measure.metric.name == "context_precision":
        best = sum(1 / rank for rank in range(1, len(top) + 1))
        return sum(share / rank for rank, share in enumerate(shares, 1)) / best if top else 0.0
    if measure.metric.name == "hybrid_log_rank":
        ranks = [rank for rank, gain in enumerate(top, 1) if gain]
        ranks += [0] * (len(relevant) - len(ranks))
        return hybrid(ranks, len(top), parameters["gamma"], parameters["alpha"])
    if measure.metric.name == "err":
        value, going_on, largest = 0.0, 1.0, parameters["max_grade"]
        for rank, gain in enumerate(top, 1):
            satisfied = (2 ** min(gain, largest) - 1) / 2**largest
            value += going_on * satisfied / rank
            going_on *= 1 - satisfied
        return value
    p = parameters["p"]
    if measure.metric.name == "rbp":
        return (1 - p) * sum(share * p**place for place, share in enumerate(shares))
    return p ** len(top)


def scalar(name, gains, relevant):
    """One query's value, straight from the definition."""
    measure = parse_measure(name)
    if name in WEIGHTED:
        return weighted(name, gains, relevant)
    k, parameters = measure.k, measure.parameters
    top = [max(gain, 0) for gain in gains][:k]
    hits, found = sum(gain > 0 for gain in top), len(relevant)
    precision = hits / k if k else (hits / len(gains) if gains else 0.0)
    recall = hits / found if found else 0.0
    if measure.metric.name == "precision":
        return precision
    if measure.metric.name == "recall":
        return recall
    if measure.metric.name == "f1":
        both = precision + recall
        return 2 * precision * recall / both if both else 0.0
    if measure.metric.name == "hit_rate":
        return float(hits > 0)
    ranks = [rank for rank, gain in enumerate(top, 1) if gain > 0]
    if measure.metric.name == "mrr":
        return 1 / ranks[0] if ranks else 0.0
    if measure.metric.name == "ap":
        divisor = min(k, found) if parameters["divisor"] == "min" else found
        return sum(nth / rank for nth, rank in enumerate(ranks, 1)) / divisor if divisor else 0.0
    if measure.metric.name == "r_precision":
        return sum(rank <= found for rank in ranks) / found if found else 0.0
    exponential = parameters["gain"] == "exponential"

    def dcg(ordered):
        return sum(
            (2**gain - 1 if exponential else gain) / math.log2(rank + 1)
            for rank, gain in enumerate(ordered, 1)
        )

    ideal = dcg(sorted(relevant, reverse=True)[:k])
    return dcg(top) / ideal if ideal else 0.0


@given(st.lists(queries(), max_size=6), st.sampled_from([*NAMES, *WEIGHTED]))
def test_values_follow_the_definition(some, name):
    values = parse_measure(name).values(ranked(some))
    assert values.dtype == np.float64
    assert values.tolist() == pytest.approx([scalar(name, *query) for query in some], abs=1e-12)


@given(st.lists(queries(), max_size=6), st.sampled_from(EVERY))
def test_values_stay_between_zero_and_one(some, name):
    values = parse_measure(name).values(ranked(some))
    assert np.all((values >= 0) & (values <= 1))


@pytest.mark.parametrize("name", ZERO_OF_NOTHING)
def test_nothing_retrieved_and_nothing_to_find_are_zero(name):
    rankings = ranked([([], [1, 2]), ([], []), ([0, 0], []), ([1], [1])])
    values = parse_measure(name).values(rankings).tolist()
    assert values[:3] == [0.0, 0.0, 0.0]
    assert values[3] > 0


@pytest.mark.parametrize(
    "gains",
    [[1e308] * 9, [1e308, 1e-308], [5e-324, 5e-324], [2.0**31, 1.0], [1e-20, 1e-20], [501.0]],
)
@pytest.mark.parametrize("name", ["ndcg", "ndcg(gain=exponential)", "ndcg@1"])
def test_gains_of_any_size_stay_finite(gains, name):
    measure = parse_measure(name)
    assert measure.values(ranked([(gains, gains)])).tolist() == [1.0]
    behind = measure.values(ranked([([0, *gains], gains)])).tolist()[0]
    assert 0.0 <= behind < 1.0


def test_a_huge_gain_leaves_other_queries_alone():
    plain = ([0, 2, 1], [1, 2, 3])
    for name in ("ndcg", "ndcg(gain=exponential)"):
        measure = parse_measure(name)
        alone = measure.values(ranked([plain]))[0]
        beside = measure.values(ranked([plain, ([1e300], [1e300])]))[0]
        assert beside == pytest.approx(alone, abs=1e-12)


def test_long_rankings_follow_the_definition():
    rng = np.random.default_rng(4)
    some = []
    for n in (1, 2, 3, 64, 65, 1000, 4097):
        gains = (rng.integers(0, 4, n) * 1.0).tolist()
        some.append((gains, [gain for gain in gains if gain > 0]))
    for name in (*WEIGHTED, "err(max_grade=12)", "rbp(p=0.9999)"):
        expected = [weighted(name, *query) for query in some]
        assert parse_measure(name).values(ranked(some)).tolist() == pytest.approx(
            expected, abs=1e-12
        )


@pytest.mark.parametrize("p", [0.04, 0.06, 0.09, 0.14])
def test_rounding_lifts_no_rbp_over_one(p):
    # At these the rounded weights (1 - p) * p^(rank - 1) of all ranks sum to a bit more than 1.
    weights = p ** np.arange(50.0)
    assert (1 - p) * np.cumsum(weights)[-1] > 1
    assert parse_measure(f"rbp(p={p})").values(ranked([([1] * 50, [1] * 50)])).tolist() == [1.0]


def test_gamma_has_a_straight_line_as_its_limit():
    some = ranked([([0, 1, 0, 1, 1], [1] * 4)])
    line = parse_measure("hybrid_log_rank(gamma=0)").values(some)
    for gamma in ("1e-9", "1e-300"):
        near = parse_measure(f"hybrid_log_rank(gamma={gamma})").values(some)
        assert near == pytest.approx(line, abs=1e-8)


@pytest.mark.parametrize("name", [*WEIGHTED, "hybrid_log_rank(gamma=1e100)", "err(max_grade=100)"])
def test_weighted_gains_of_any_size_stay_finite(name):
    for gains in ([1e308] * 9, [1e308, 1e-308], [5e-324, 5e-324], [2.0**31, 1.0]):
        values = parse_measure(name).values(ranked([(gains, gains), ([0, *gains], gains)]))
        assert np.all((values >= 0) & (values <= 1)), gains


def test_grades_above_those_that_err_knows_are_told():
    rankings = rank_gains([[4.0]], [[4.0]], "f")
    assert "as in err(max_grade=4)@5" in parse_measure("err@5").doubt(rankings)
    assert not parse_measure("err(max_grade=4)@5").doubt(rankings)
