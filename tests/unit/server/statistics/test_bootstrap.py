"""Resampled means: exact, the same everywhere, and drawn as they should be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged_server.statistics.intervals import exact_means, resample_counts

RNG = np.random.default_rng(5)


def resampled(values, resamples, seed, rows=64):
    means = exact_means(values)
    counts = resample_counts(values.shape[1], resamples, seed, rows)
    return np.concatenate([means(some) for some in counts]).T


def counts_of(draws, n):
    return np.bincount(draws, minlength=n).tolist()


def test_the_stream_of_draws_is_pinned():
    """A change here changes every interval under the same seed: raise v2 in the signatures."""
    (counts,) = resample_counts(10, 1, 0, 1)
    assert counts[0].tolist() == counts_of([5, 8, 9, 6, 8, 5, 7, 2, 9, 3], 10)
    (counts,) = resample_counts(100_000, 1, 1, 1)
    assert (counts[0, [47318, 51182, 75516, 95046]] > 0).all()


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
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_draws_follow_the_rule_however_they_are_cut(n, rows):
    resamples = max(2, min(500 // n, 20))
    found = np.concatenate([*resample_counts(n, resamples, 9, rows)])
    if n > 2_000:  # the rule by one draw after the other takes its time
        assert found.sum() == n * resamples
        assert (found[0, naive_draws(n, 9, 500)] > 0).all()
        return
    draws = naive_draws(n, 9, n * resamples)
    assert found.tolist() == [counts_of(draws[i * n : (i + 1) * n], n) for i in range(resamples)]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 700), st.integers(1, 4), st.integers(1, 60), st.integers(0, 2**64 - 1))
def test_means_are_those_of_the_drawn_queries(n, m, resamples, seed):
    values = np.random.default_rng(n).random((m, n))
    (counts,) = resample_counts(n, resamples, seed, resamples)
    assert np.abs(resampled(values, resamples, seed) - values @ counts.T / n).max() < 1e-11
    assert np.abs(exact_means(values)(np.ones((1, n))) - values.mean(axis=1)).max() < 1e-11


def test_neither_blocks_nor_other_metrics_change_a_bit():
    values = RNG.random((5, 997))
    whole = resampled(values, 300, 2)
    for rows in (1, 5, 1 << 22):
        assert np.array_equal(resampled(values, 300, 2, rows), whole)
    for i in range(5):
        assert np.array_equal(resampled(values[i : i + 1], 300, 2)[0], whole[i])
    assert not np.array_equal(resampled(values, 300, 3), whole)


@pytest.mark.parametrize("size", [1e-300, 1e-5, 1e5, 1e100])
def test_the_size_of_values_does_not_matter(size):
    values = RNG.normal(size=(2, 50))
    plain, scaled = resampled(values, 50, 0), resampled(values * size, 50, 0)
    assert np.allclose(scaled / size, plain, rtol=0, atol=1e-11)
