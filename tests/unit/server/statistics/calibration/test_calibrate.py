from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from judged.values.choices import IntervalOptions
from judged_server.statistics.calibration.calibrate import (
    CalibrationOptions,
    ScoredItems,
    calibrate,
)
from judged_server.statistics.calibration.cascade import cascade_bounds
from judged_server.statistics.prediction_powered import correct_mean
from judged_server.statistics.quality import choose_thresholds, judge_quality


def made(n=2_000, labelled=300, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.random(n) < 0.7
    scores = np.clip(rng.normal(0.35 + 0.25 * truth, 0.2), 0, 1)
    places = np.sort(rng.choice(n, labelled, replace=False))
    return ScoredItems(scores, places, truth[places]), truth


@pytest.mark.parametrize("clustered", [False, True])
def test_every_part_is_made_with_the_options_of_the_call(clustered):
    plain, truth = made(400, 80)
    clusters = np.arange(400) // 4 if clustered else None
    items = ScoredItems(plain.scores, plain.labelled, truth[plain.labelled], clusters)
    interval = IntervalOptions(resamples=100, seed=4, confidence=0.8)
    options = CalibrationOptions(0.6, interval, precision_floor=0.8, folds=3, max_error=0.1)
    found = calibrate(items, options)
    quality = judge_quality(items.with_label, 0.6, interval)
    assert replace(found.quality, warnings=quality.warnings) == quality
    thresholds, remarks = choose_thresholds(items.with_label, 0.8, 3, interval)
    assert found.thresholds == tuple(thresholds)
    cascade, unsafe = cascade_bounds(items.with_label, items.scores, 0.1, 0.8, min_score=0.6)
    assert found.cascade == cascade
    assert found.quality.warnings == (*quality.warnings, *remarks, *unsafe)
    assert found.prevalence == correct_mean(
        (items.scores >= 0.6).astype(float),
        truth[items.labelled].astype(float),
        items.labelled,
        clusters=items.clusters,
        confidence=0.8,
        unit="clusters" if clustered else "items",
    )
