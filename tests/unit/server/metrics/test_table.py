"""Slices and intervals of a table."""

from __future__ import annotations

import numpy as np
from judged.values.choices import IntervalOptions
from judged_server.metrics.compute import (
    SettledOptions,
    compute_gains,
    compute_judged,
    with_intervals_and_slices,
)
from judged_server.metrics.matching import JudgedResults
from judged_server.metrics.measures import parse_metrics

MEASURES = parse_metrics(["recall", "precision@2"])
INTERVAL = IntervalOptions(resamples=200)
GAINS = [[1, 0], [0, 1], [0, 0], [1, 1], [0]]
RELEVANT = [[1, 1], [1], [1], [1, 1], []]
METADATA = [{"type": "b"}, {"type": "a", "lang": "de"}, {"type": "b"}, {}, {"type": "zzz"}]


def table_of(rows, options=None):
    options = options or SettledOptions()
    return compute_gains(MEASURES, [GAINS[i] for i in rows], [RELEVANT[i] for i in rows], options)


def test_a_slice_is_what_its_queries_are_alone():
    options = SettledOptions(interval=INTERVAL, slice_by=("type", "lang"))
    table = with_intervals_and_slices(table_of(range(5)), options, METADATA)
    assert [(part.key, part.value) for part in table.slices] == [
        ("type", ""),
        ("type", "a"),
        ("type", "b"),
        ("lang", ""),
        ("lang", "de"),
    ]
    rows_of = [[3], [1], [0, 2], [0, 2, 3], [1]]  # 4 has nothing to find and no value
    for part, rows in zip(table.slices, rows_of, strict=True):
        alone = with_intervals_and_slices(table_of(rows), SettledOptions(interval=INTERVAL))
        for ours, theirs in zip(part.columns, alone.columns, strict=True):
            assert (ours.mean, ours.n, ours.signature) == (theirs.mean, theirs.n, theirs.signature)
            assert ours.interval == theirs.interval
            assert (ours.interval is None) == (len(rows) < 2)


def test_slices_have_the_bounds_of_their_queries():
    results = JudgedResults(
        np.array([1, 0, 1, 0], np.bool_),
        np.array([2, 1, 1], np.int64),
        np.array([1, 1, 1], np.int64),
        np.array([0, 0, 0, 1], np.bool_),
    )
    options = SettledOptions(slice_by=("k",))
    table = compute_judged(MEASURES, results, options)
    metadata = [{"k": "x"}, {"k": "y"}, {"k": "y"}]
    settled, half = with_intervals_and_slices(table, options, metadata).slices
    assert (settled.columns[0].lower, settled.columns[0].upper) == (1.0, 1.0)
    assert (half.columns[0].mean, half.columns[0].n) == (1.0, 1)
    assert (half.columns[0].lower, half.columns[0].upper) == (0.5, 1.0)
    metadata[1] = {"k": "x"}
    _, unsettled = with_intervals_and_slices(table, options, metadata).slices
    assert (unsettled.columns[0].mean, unsettled.columns[0].n) == (None, 0)
    assert (unsettled.columns[0].lower, unsettled.columns[0].upper) == (0.0, 1.0)
