import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from judged_server.statistics import comparison as sign_flips
from judged_server.statistics.comparison import sign_flip_p_values

small = some.lists(some.integers(-20, 20), min_size=1, max_size=9)


def by_hand(d):
    """Return the share of all sign flips that reach the sum, counted one by one."""
    moved = [n for n in d if n]
    sums = [
        abs(sum(s * n for s, n in zip(signs, moved, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(moved))
    ]
    return sum(total >= abs(sum(d)) for total in sums) / len(sums)


@settings(max_examples=60, deadline=None)
@given(small)
def test_few_differences_are_counted_out(d):
    found = sign_flip_p_values(np.array([d]) / 100, 1000, 0)
    assert found[0] == pytest.approx(by_hand(d), abs=1e-12)


def test_random_flips_come_close_to_the_exact_p_value():
    d = np.random.default_rng(7).normal(0.2, 1, (1, 15))
    exact = sign_flip_p_values(d, 1 << 15, 0)[0]
    drawn = sign_flip_p_values(d, (1 << 15) - 1, 0)[0]
    assert drawn != exact
    assert drawn == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / (1 << 15)))


def test_depends_on_the_seed_and_nothing_else(monkeypatch):
    d = np.random.default_rng(3).normal(0.1, 1, (2, 130))
    first = sign_flip_p_values(d, 5000, 4)
    assert sign_flip_p_values(d, 5000, 5).tolist() != first.tolist()
    monkeypatch.setattr(sign_flips, "_BLOCK_SIGNS", 1000)
    assert sign_flip_p_values(d, 5000, 4).tolist() == first.tolist()
    assert sign_flip_p_values(d[::-1], 5000, 4)[::-1].tolist() == first.tolist()


def test_rounding_does_not_untie():
    d = np.array([[0.3 - 0.2, 0.1, 0.2 - 0.1, -0.1, 0.7 - 0.6]])
    assert sign_flip_p_values(d, 100, 0)[0] == by_hand([1, 1, 1, -1, 1])
