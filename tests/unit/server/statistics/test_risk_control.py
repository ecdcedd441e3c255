"""Bounds of single queries: the finite-sample rule, and what it promises of fresh queries."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged_server.statistics.risk_control import allowed_misses, chosen_bounds, shifted_bounds


@pytest.mark.parametrize(
    ("labels", "confidence", "misses"),
    [(0, 0.95, -1), (38, 0.95, -1), (39, 0.95, 0), (78, 0.95, 0), (79, 0.95, 1), (199, 0.95, 4)],
)
def test_the_rule_of_conformal_risk_control(labels, confidence, misses):
    found = allowed_misses(labels, confidence)
    assert found == misses
    tail = (1 - confidence) / 2
    if found >= 0:
        assert (found + 1) / (labels + 1) <= tail + 1e-12
    assert (found + 2) / (labels + 1) > tail


def drawn(rng, n):
    machine = rng.beta(2, 1, n)
    human = np.clip(machine - 0.1 + 0.2 * rng.standard_normal(n) * machine, 0, 1)
    return machine, human


def family(machine, steps=20):
    """Values that fall (rise) with the step, but not all the time: a family must be made to."""
    wave = 0.02 * np.sin(np.arange(machine.shape[1]) * 7)
    for step in range(1, steps + 1):
        yield machine + step / steps + (wave if step % 2 else 0)


def bounds_of(kind, machine, human, labels, confidence=0.95):
    own = human[None, :labels]
    places = np.arange(labels)
    if kind == "shifted":
        return shifted_bounds(machine[None], own, places, confidence)
    return chosen_bounds(
        machine[None],
        own,
        places,
        confidence,
        falling=(2 * machine[None] - v for v in family(machine[None])),
        rising=family(machine[None]),
    )


@pytest.mark.parametrize("kind", ["shifted", "chosen"])
def test_fresh_queries_are_missed_no_more_often_than_promised(kind):
    """40,000 fresh queries in 400 draws; a draw's own labels move its rate by about 0.015."""
    rng = np.random.Generator(np.random.PCG64(5))
    below = above = 0
    for _ in range(400):
        machine, human = drawn(rng, 180)
        bounds = bounds_of(kind, machine, human, 80)
        below += int(np.count_nonzero(human[80:] < bounds.lower[0, 80:]))
        above += int(np.count_nonzero(human[80:] > bounds.upper[0, 80:]))
    slack = 3 * 0.02 / np.sqrt(400)
    assert below / 40_000 <= 0.025 + slack
    assert above / 40_000 <= 0.025 + slack
    assert below / 40_000 >= 0.005  # the bounds are not just the ends of the range


@pytest.mark.parametrize("kind", ["shifted", "chosen"])
def test_too_few_labels_leave_the_whole_range(kind):
    machine, human = drawn(np.random.Generator(np.random.PCG64(6)), 60)
    bounds = bounds_of(kind, machine, human, 38)
    assert (bounds.lower == 0).all()
    assert (bounds.upper == 1).all()
    assert (bounds_of(kind, machine, human, 39).lower > 0).any()


@given(st.integers(0, 120), st.integers(0, 2**32), st.sampled_from(["shifted", "chosen"]))
@settings(max_examples=60)
def test_bounds_enclose_the_machine_and_miss_as_few_as_they_may(labels, seed, kind):
    machine, human = drawn(np.random.Generator(np.random.PCG64(seed)), 120)
    bounds = bounds_of(kind, machine, human, labels, confidence=0.9)
    assert (bounds.lower[0] <= machine).all()
    assert (machine <= bounds.upper[0]).all()
    misses = max(allowed_misses(labels, 0.9), 0)
    assert np.count_nonzero(human[:labels] > bounds.upper[0, :labels] + 1e-9) <= misses
    assert np.count_nonzero(human[:labels] < bounds.lower[0, :labels] - 1e-9) <= misses
