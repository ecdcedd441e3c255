"""Cascades proposed from labels, against judges whose errors are known."""

from __future__ import annotations

import numpy as np
import pytest
from judged_server.statistics.calibration.calibrate import number_clusters
from judged_server.statistics.calibration.cascade import count_labels, upper_bound
from judged_server.statistics.calibration.frontier import (
    FrontierOptions,
    ScoredStage,
    StagedItems,
    frontier,
    run,
)
from scipy import stats

N = 2_000


def population(seed: int = 0, n: int = N) -> tuple[ScoredStage, ScoredStage, np.ndarray]:
    """Return a cheap judge that is unsure of some items, a dear one that is not, and labels."""
    rng = np.random.default_rng(seed)
    labels = rng.random(n) < 0.5
    unsure = rng.random(n) < 0.4
    sure_score = np.where(labels, 0.95, 0.05)
    vague = np.clip(np.where(labels, 0.53, 0.47) + rng.normal(0, 0.05, n), 0.01, 0.99)
    cheap = ScoredStage("cheap", np.where(unsure, vague, sure_score), 0.0)
    wrong = rng.random(n) < 0.02
    dear = ScoredStage("dear", np.where(labels ^ wrong, 1.0, 0.0), 1.0)
    return cheap, dear, labels


def items_of(*stages: ScoredStage, labels: np.ndarray, of_each: int = 4) -> StagedItems:
    clusters = np.arange(len(labels)) // of_each
    return StagedItems(stages, labels, clusters)


class TestFrontier:
    def test_asks_the_dear_judge_where_the_cheap_one_is_unsure(self):
        cheap, dear, labels = population()
        found = frontier(items_of(cheap, dear, labels=labels), FrontierOptions(0.1))
        assert found.proposed is not None
        point = found.points[found.proposed]
        assert point.certified
        assert point.guarantee.max_error == 0.1
        assert point.cost < 0.6  # that of asking about all is 1
        best = found.points[-1]
        assert [stage.stage for stage in best.stages][-1] == 1
        assert best.cost <= 0.65
        assert best.stages[-1].share == pytest.approx(best.cost)
        costs = [each.cost for each in found.points]
        assert costs == sorted(costs)

    def test_a_later_stage_is_calibrated_on_what_the_earlier_ones_leave(self):
        cheap, dear, labels = population()
        # Of what the cheap judge is sure of, the dear one is always wrong: it never sees that.
        unsure = np.abs(cheap.scores - 0.5) < 0.3
        scores = np.where(unsure, dear.scores, 1 - labels.astype(np.float64))
        turned = ScoredStage("dear", scores, 1.0)
        found = frontier(items_of(cheap, turned, labels=labels), FrontierOptions(0.1))
        best = found.points[-1]
        assert [stage.stage for stage in best.stages] == [0, 1]
        assert best.error < 0.1

    def test_keeps_a_share_and_a_price(self):
        cheap, dear, labels = population()
        items = items_of(cheap, dear, labels=labels)
        for options in (FrontierOptions(max_share=0.25), FrontierOptions(max_cost=0.25)):
            found = frontier(items, options)
            assert found.proposed is not None
            assert 0 < found.points[found.proposed].cost <= 0.3
        nothing = frontier(items, FrontierOptions(max_cost=0.0))
        assert nothing.proposed == 0
        assert nothing.points[0].cost == 0

    def test_abstains_where_no_stage_is_sure(self):
        cheap, _, labels = population()
        settling = frontier(items_of(cheap, labels=labels), FrontierOptions(0.05))
        assert settling.proposed is None
        assert "no cascade is certified at an error of 0.05" in settling.warnings[0]
        found = frontier(items_of(cheap, labels=labels), FrontierOptions(0.05, may_abstain=True))
        assert found.proposed is not None
        point = found.points[found.proposed]
        assert 0.5 < point.settled < 0.8
        assert point.error < 0.05

    def test_a_missing_score_goes_on(self):
        cheap, dear, labels = population()
        lost = ScoredStage("cheap", np.where(np.arange(N) % 5 == 0, np.nan, cheap.scores), 0.0)
        found = frontier(items_of(lost, dear, labels=labels), FrontierOptions(0.1))
        two = next(point for point in found.points if len(point.stages) == 2)
        assert two.stages[1].share >= 0.2
        assert two.settled == 1.0
        alone = frontier(items_of(lost, labels=labels), FrontierOptions(0.45))
        assert alone.points[-1].settled == pytest.approx(0.8)

    def test_the_promise_is_kept_over_draws(self):
        cheap, dear, labels = population(seed=5, n=20_000)
        clusters = np.arange(20_000) // 4
        whole = StagedItems((cheap, dear), labels, clusters)
        everything, broken, draws = np.arange(20_000), 0, 30
        for seed in range(draws):
            rng = np.random.default_rng(seed)
            drawn = np.isin(clusters, rng.choice(5_000, 100, replace=False))
            stages = tuple(ScoredStage(s.name, s.scores[drawn], s.cost) for s in (cheap, dear))
            some = StagedItems(stages, labels[drawn], number_clusters(clusters[drawn]))
            found = frontier(some, FrontierOptions(0.1, confidence=0.9, seed=seed))
            if found.proposed is not None:
                outcome = run(whole, found.points[found.proposed].stages, everything)
                broken += outcome.wrong.sum() / outcome.settled.sum() > 0.1
        assert broken <= 0.1 * draws


@pytest.mark.parametrize(("wrong", "n"), [(0, 59), (3, 100), (20, 40)])
def test_the_bound_is_that_of_clopper_and_pearson(wrong, n):
    verdicts = np.arange(n) < wrong
    counted = count_labels(np.arange(n), verdicts)
    expected = stats.beta.ppf(0.95, wrong + 1, n - wrong)
    assert upper_bound(wrong / n, counted, 0.05) == pytest.approx(expected, abs=1e-9)
