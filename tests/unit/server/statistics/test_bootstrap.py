"""Resampled means: exact, the same everywhere, and drawn as they should be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged_server.statistics import intervals
from judged_server.statistics.intervals import _Draws, resample_means

RNG = np.random.default_rng(5)


def test_the_stream_of_draws_is_pinned():
    """A change here changes every interval under the same seed: raise v1 in the signatures."""
    assert _Draws(10, 0).take(12).tolist() == [5, 8, 9, 6, 8, 5, 7, 2, 9, 3, 2, 0]
    assert _Draws(100_000, 1).take(4).tolist() == [47318, 51182, 75516, 95046]


def naive_draws(n, seed, count):
    """The rule in plain integers: x * n, its low half checked, its high half drawn."""
    bits = 16 if n <= 1 << 16 else 32
    draws = []
    for word in np.random.PCG64(seed).random_raw(4 * count + 16).tolist():
        for place in range(0, 64, bits):
            product = (word >> place & (1 << bits) - 1) * n
            if product % (1 << bits) >= (1 << bits) % n:
                draws.append(product >> bits)
    return draws[:count]


@pytest.mark.parametrize("n", [1, 2, 3, 64, 1000, 40_000, 65_535, 65_536, 65_537, 1_000_003])
def test_draws_follow_the_rule_however_they_are_cut(n):
    whole = naive_draws(n, 9, 500)
    draws = _Draws(n, 9)
    assert [x for size in (1, 0, 7, 292, 200) for x in draws.take(size).tolist()] == whole
    assert max(whole) < n


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 700), st.integers(1, 4), st.integers(1, 60), st.integers(0, 2**64 - 1))
def test_means_are_those_of_the_drawn_queries(n, m, resamples, seed):
    values = np.random.default_rng(n).random((m, n))
    drawn = _Draws(n, seed).take(n * resamples).reshape(resamples, n).astype(np.int64)
    expected = values[:, drawn].mean(axis=2)
    found = resample_means(values, resamples, seed)
    assert np.abs(found.means - expected).max() < 1e-11
    assert np.abs(found.estimates - values.mean(axis=1)).max() < 1e-11


def test_neither_blocks_nor_other_metrics_change_a_bit(monkeypatch):
    values = RNG.random((5, 997))
    whole = resample_means(values, 300, 2).means
    for block in (1, 5_000, 1 << 22):
        monkeypatch.setattr(intervals, "BLOCK_DRAWS", block)
        assert np.array_equal(resample_means(values, 300, 2).means, whole)
    for i in range(5):
        assert np.array_equal(resample_means(values[i : i + 1], 300, 2).means[0], whole[i])
    assert not np.array_equal(resample_means(values, 300, 3).means, whole)


@pytest.mark.parametrize("size", [1e-300, 1e-5, 1e5, 1e100])
def test_the_size_of_values_does_not_matter(size):
    values = RNG.normal(size=(2, 50))
    plain, scaled = resample_means(values, 50, 0).means, resample_means(values * size, 50, 0).means
    assert np.allclose(scaled / size, plain, rtol=0, atol=1e-11)
