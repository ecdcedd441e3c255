"""Prediction-powered means: against the authors' own package, against arithmetic, by simulation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged_server.statistics.prediction_powered import correct_mean
from scipy import stats

N, LABELLED = 1000, 200
PLACES = np.arange(N)
BINARY = ((PLACES * 379) % 1009 < 450).astype(float)
BINARY_HUMAN = np.where((PLACES**2 * 53) % 997 < 150, 1 - BINARY, BINARY)
GRADED = ((PLACES * 379) % 1009) / 1009 * 0.8 + 0.1
GRADED_HUMAN = np.clip(GRADED + 0.2 * (((PLACES**2 * 53) % 997) / 997 - 0.4), 0, 1)

# ppi-python 0.2.3 on the first 200 as labelled and the other 800 as unlabelled:
# ppi_mean_pointestimate(human[:200], machine[:200], machine[200:], lam=lam) at lam 0 and 1, and
# ppi_mean_ci(..., alpha=0.05) with its own lambda.
PPI_PYTHON = {
    "binary": (0.45, 0.44625, 0.3922276691258278, 0.503831956831428),
    "graded": (0.5154978185299208, 0.5152678879055402, 0.4987090933564721, 0.5319147648985904),
}


@pytest.mark.parametrize(
    ("name", "machine", "human"),
    [("binary", BINARY, BINARY_HUMAN), ("graded", GRADED, GRADED_HUMAN)],
)
def test_the_estimate_is_that_of_ppi_python(name, machine, human):
    at_zero, at_one, lower, upper = PPI_PYTHON[name]
    found = correct_mean(machine, human[:LABELLED], np.arange(LABELLED))
    # Their estimate is a straight line in lambda, and ours is on it at power * (1 - n / N).
    lam = found.power * (1 - LABELLED / N)
    assert found.corrected.value == pytest.approx(at_zero + lam * (at_one - at_zero), abs=1e-12)
    # Their interval is normal and their lambda a little different: the ends agree to 2 %.
    assert found.corrected.interval.lower == pytest.approx(lower, abs=0.02 * (upper - lower))
    assert found.corrected.interval.upper == pytest.approx(upper, abs=0.02 * (upper - lower))


def some(n=400, labelled=60, seed=1):
    rng = np.random.Generator(np.random.PCG64(seed))
    machine = rng.random(n)
    human = np.clip(machine + rng.normal(0, 0.2, n), 0, 1)
    places = np.sort(rng.permutation(n)[:labelled])
    return machine, human[places], places


def test_the_power_is_the_slope_and_the_estimate_the_difference():
    machine, human, places = some()
    found = correct_mean(machine, human, places)
    f = machine[places]
    slope = np.cov(human, f)[0, 1] / np.var(f, ddof=1)
    assert 0 < slope < 1
    assert found.power == pytest.approx(slope)
    expected = human.mean() - slope * (f.mean() - machine.mean())
    assert found.corrected.value == pytest.approx(expected)
    assert (found.n_labelled, found.n) == (60, 400)


def test_the_interval_pays_for_the_fit_of_the_power():
    machine, human, places = some(labelled=20)
    human *= 0.6
    found = correct_mean(machine, human, places)
    assert 0 < found.power < 1
    n, f, r = 20, machine[places], human - found.power * machine[places]
    leverage = 1 / n + (f - f.mean()) ** 2 / np.sum((f - f.mean()) ** 2)
    psi = found.power * (machine - machine.mean()) / len(machine)
    psi[places] += (r - r.mean()) / n / (1 - leverage) * math.sqrt((n - 1) / n)
    error = math.sqrt(np.sum(psi**2))
    interval = found.corrected.interval
    assert interval.standard_error == pytest.approx(error)
    reach = stats.t.ppf(0.975, n - 2) * error
    assert interval.upper - found.corrected.value == pytest.approx(reach)


def test_equal_labels_do_not_make_the_interval_collapse():
    machine, _, places = some(labelled=200)
    found = correct_mean(machine, np.zeros(200), places)
    zero_of_200 = 1 - 0.025 ** (1 / 200)  # Clopper and Pearson
    assert (found.corrected.value, found.corrected.interval.lower) == (0, 0)
    assert found.corrected.interval.upper == pytest.approx(zero_of_200)
    assert any("in all but 0 of 200" in warning for warning in found.warnings)


def test_a_judge_that_never_erred_on_the_labels_may_still_err():
    machine = BINARY
    found = correct_mean(machine, machine[:LABELLED], np.arange(LABELLED))
    interval, least = found.corrected.interval, 1 - 0.025 ** (1 / LABELLED)
    assert found.power == pytest.approx(1)
    assert interval.upper - found.corrected.value >= least - 1e-12
    assert found.corrected.value - interval.lower >= least - 1e-12
    assert any("in all but 0 of 200" in warning for warning in found.warnings)


def test_items_of_one_cluster_count_once():
    machine, human, places = some()
    times = 7
    repeated = np.repeat(machine, times)
    labelled = (places[:, None] * times + np.arange(times)).ravel()
    clusters = np.repeat(np.arange(len(machine)) * 10 + 3, times)
    once = correct_mean(machine, human, places)
    many = correct_mean(repeated, np.repeat(human, times), labelled, clusters=clusters)
    assert many.n_labelled == once.n_labelled
    assert many.n == once.n
    for name in ("corrected", "naive", "labels_only"):
        a, b = getattr(once, name), getattr(many, name)
        assert b.value == pytest.approx(a.value)
        assert (b.interval.lower, b.interval.upper) == pytest.approx(
            (a.interval.lower, a.interval.upper)
        )


@st.composite
def data(draw):
    n = draw(st.integers(2, 40))
    grid = st.sampled_from([0.0, 0.25, 0.5, 1.0])
    machine = np.array(draw(st.lists(grid, min_size=n, max_size=n)))
    places = np.array(sorted(draw(st.sets(st.integers(0, n - 1), min_size=2))))
    human = np.array(draw(st.lists(grid, min_size=len(places), max_size=len(places))))
    clusters = np.array(draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)))
    return machine, human, places, clusters


@given(data(), st.booleans())
@settings(max_examples=200)
def test_all_numbers_are_finite_and_in_order(values, clustered):
    machine, human, places, clusters = values
    found = correct_mean(machine, human, places, clusters=clusters if clustered else None)
    assert 0 <= found.power <= 1
    for estimate in (found.corrected, found.naive, found.labels_only):
        if estimate is not None and estimate.interval is not None:
            interval = estimate.interval
            assert 0 <= interval.lower <= estimate.value <= interval.upper <= 1
            assert 0 <= interval.standard_error < math.inf


def test_the_interval_covers_and_the_naive_one_does_not():
    """Of 1,000 draws; a share of 0.95 then has a standard error of 0.007."""
    rng = np.random.Generator(np.random.PCG64(11))
    truth, bias, runs = 0.3, 0.08, 1000
    covered = naive = 0
    for _ in range(runs):
        human = rng.random(3000) < truth
        machine = np.where(human, rng.random(3000) < 0.9, rng.random(3000) < (bias + 0.03) / 0.7)
        found = correct_mean(machine * 1.0, human[:200] * 1.0, np.arange(200))
        covered += found.corrected.interval.lower <= truth <= found.corrected.interval.upper
        naive += found.naive.interval.lower <= truth <= found.naive.interval.upper
    assert 0.93 <= covered / runs <= 0.97
    assert naive / runs < 0.5


@pytest.mark.parametrize(("departures", "widened"), [(9, True), (10, False)])
def test_ten_departures_speak_for_themselves(departures, widened):
    human = np.where(np.arange(30) < departures, 0.6, 0.5)
    found = correct_mean(np.zeros(30), human, np.arange(30)).labels_only
    reach = stats.t.ppf(0.975, 29) * human.std(ddof=1) / np.sqrt(30)
    if widened:
        reach = 0.5 * (1 - 0.025 ** (1 / 30))  # as far as the range goes, and Clopper and Pearson
    assert found.interval.lower == pytest.approx(found.value - reach)
    assert found.interval.standard_error == pytest.approx(human.std(ddof=1) / np.sqrt(30))


def by_uncertainty(rng, n):
    """A population, the places drawn from it with unequal probabilities, and these."""
    machine = rng.random(n)
    human = (rng.random(n) < np.clip(machine * 0.7 + 0.1, 0, 1)).astype(float)
    chances = np.clip(0.02 + 0.3 * np.abs(machine - 0.2), 0, 1)
    places = np.flatnonzero(rng.random(n) < chances)
    return machine, human, places, chances[places]


class TestLabelsOfUnequalProbability:
    def test_the_labels_alone_are_the_weighted_mean(self):
        machine, human, places, chances = by_uncertainty(np.random.default_rng(2), 2000)
        found = correct_mean(machine, human[places], places, inclusion=chances)
        weights = 1 / chances
        expected = float(human[places] @ weights / weights.sum())
        assert found.labels_only.value == pytest.approx(expected)
        r, f = human[places] - found.power * machine[places], machine
        value = float(r @ weights / weights.sum()) + found.power * f.mean()
        assert found.corrected.value == pytest.approx(value)

    def test_intervals_cover_where_unweighted_ones_do_not(self):
        rng = np.random.default_rng(5)
        weighted = unweighted = 0
        draws, truth = 300, 0.45  # 0.7 / 2 + 0.1
        for _ in range(draws):
            machine, human, places, chances = by_uncertainty(rng, 1500)
            ours = correct_mean(machine, human[places], places, inclusion=chances).corrected
            bare = correct_mean(machine, human[places], places).labels_only
            weighted += ours.interval.lower <= truth <= ours.interval.upper
            unweighted += bare.interval.lower <= truth <= bare.interval.upper
        assert weighted / draws >= 0.91
        assert unweighted / draws < 0.8
