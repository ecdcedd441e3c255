"""Labels drawn in strata: the estimate and its error by arithmetic, and by drawing many times."""

import math

import numpy as np
import pytest
from judged_server.statistics.prediction_powered import correct_mean


def population(seed=3, n=900):
    """Machine and human values of n items in three strata, which differ in both."""
    rng = np.random.Generator(np.random.PCG64(seed))
    strata = np.sort(rng.integers(0, 3, n))
    machine = np.clip(0.2 + 0.25 * strata + rng.normal(0, 0.15, n), 0, 1)
    human = np.clip(0.9 - 0.3 * strata + (0.2 + 0.3 * strata) * machine, 0, 1)
    return machine, np.clip(human + rng.normal(0, 0.1, n), 0, 1), strata


def draw(strata, sizes, seed=0):
    rng = np.random.Generator(np.random.PCG64(seed))
    drawn = [rng.permutation(np.flatnonzero(strata == h))[:size] for h, size in enumerate(sizes)]
    return np.sort(np.concatenate(drawn))


def test_every_stratum_has_its_own_mean_power_and_share():
    machine, human, strata = population()
    places = draw(strata, (40, 60, 100))
    found = correct_mean(machine, human[places], places, strata=strata)
    value = variance = trusted = 0.0
    for h in range(3):
        f, y = machine[places[strata[places] == h]], human[places[strata[places] == h]]
        power = min(max(np.cov(y, f)[0, 1] / np.var(f, ddof=1), 0.0), 1.0)
        share, n = np.mean(strata == h), len(f)
        value += share * (y.mean() - power * (f.mean() - machine[strata == h].mean()))
        trusted += share * power
        leverage = 1 / n + (f - f.mean()) ** 2 / np.sum((f - f.mean()) ** 2)
        rest = y - power * f
        moved = (rest - rest.mean()) / n / (1 - leverage) * math.sqrt((n - 1) / n)
        variance += share**2 * np.sum(moved**2)
    assert found.corrected.value == pytest.approx(value)
    assert found.power == pytest.approx(trusted)
    error = found.corrected.interval.standard_error
    assert error**2 > variance  # that of the labels, and what the strata's own draw adds
    assert error**2 == pytest.approx(variance, rel=0.6)
    assert found.corrected.interval.signature.startswith(
        "prediction_powered|variance:jackknife|strata:3|"
    )


def test_the_intervals_hold_and_are_narrower_than_those_of_labels_drawn_together():
    hits, widths, together = 0, [], []
    _, big_human, _ = population(seed=1, n=200_000)
    truth = float(big_human.mean())
    for seed in range(400):
        machine, human, strata = population(seed=100 + seed)
        for drawn_in, places in (
            (strata, draw(strata, (50, 50, 50), seed)),
            (None, np.sort(np.random.Generator(np.random.PCG64(seed)).permutation(900)[:150])),
        ):
            interval = correct_mean(
                machine, human[places], places, strata=drawn_in
            ).corrected.interval
            if drawn_in is None:
                together.append(interval.upper - interval.lower)
            else:
                hits += interval.lower <= truth <= interval.upper
                widths.append(interval.upper - interval.lower)
    assert 0.92 <= hits / 400 <= 0.98
    assert np.median(widths) < 0.9 * np.median(together)


def test_one_stratum_is_as_good_as_none():
    machine, human, strata = population()
    places = draw(strata, (40, 60, 100))
    clusters = np.arange(len(machine)) // 3
    one = correct_mean(
        machine, human[places], places, clusters=clusters, strata=np.full(len(machine), 7)
    )
    none = correct_mean(machine, human[places], places, clusters=clusters)
    assert one.corrected.value == pytest.approx(none.corrected.value)
    ours, theirs = one.corrected.interval, none.corrected.interval
    assert (ours.lower, ours.upper) == pytest.approx((theirs.lower, theirs.upper))
    assert ours.signature == theirs.signature


def test_clusters_may_lie_in_several_strata():
    machine, human, strata = population()
    places = draw(strata, (60, 60, 60))
    clusters = np.arange(len(machine)) % 300  # a third of each in every stratum, about
    found = correct_mean(machine, human[places], places, clusters=clusters, strata=strata)
    alone = correct_mean(machine, human[places], places, strata=strata)
    assert found.n == 300
    assert found.n_labelled == len(np.unique(clusters[places]))
    assert found.corrected.value == pytest.approx(alone.corrected.value, abs=0.02)
    ratio = found.corrected.interval.standard_error / alone.corrected.interval.standard_error
    assert 0.8 < ratio < 1.25  # items of a cluster are independent here


def test_what_every_item_says_needs_no_correction_in_strata_either():
    machine, human, strata = population(n=120)
    found = correct_mean(machine, human, np.arange(120), strata=strata)
    plain = correct_mean(machine, human, np.arange(120))
    assert found.corrected.value == pytest.approx(human.mean())
    ours, theirs = found.corrected.interval, plain.corrected.interval
    assert ours.standard_error == pytest.approx(theirs.standard_error, rel=0.02)


def test_a_stratum_without_labels_is_joined_with_its_neighbour_and_told():
    machine, human, strata = population()
    places = draw(strata, (30, 0, 30))
    found = correct_mean(machine, human[places], places, strata=strata)
    share = np.mean(strata == 1)
    assert found.warnings[0] == (
        "1 of 3 strata have fewer than 2 labelled clusters and were joined with others; nobody "
        f"labelled anything of {share:.1%} of the items"
    )
    assert "|strata:2|" in found.corrected.interval.signature
    y = human[places]
    expected = np.mean(strata < 2) * y[:30].mean() + np.mean(strata == 2) * y[30:].mean()
    assert found.labels_only.value == pytest.approx(expected)


def test_labels_of_joined_strata_count_by_the_sizes_of_these():
    machine, human, strata = population()
    places = draw(strata, (1, 30, 30))
    found = correct_mean(machine, human[places], places, strata=strata)
    y = human[places]
    shares = [np.mean(strata == h) for h in range(3)]
    means = [y[:1].mean(), y[1:31].mean(), y[31:].mean()]
    assert found.labels_only.value == pytest.approx(
        sum(s * m for s, m in zip(shares, means, strict=True))
    )


def test_probabilities_within_a_stratum_count_in_proportion():
    machine, human, strata = population()
    places = draw(strata, (40, 40, 40))
    inclusion = np.where(places % 2 == 0, 0.2, 0.6)
    scale = np.array([1.0, 0.5, 0.1])[strata[places]]
    found = correct_mean(machine, human[places], places, strata=strata, inclusion=inclusion)
    scaled = correct_mean(
        machine, human[places], places, strata=strata, inclusion=inclusion * scale
    )
    assert scaled.corrected.value == pytest.approx(found.corrected.value)
    assert "|strata:3|weights:hajek|" in found.corrected.interval.signature


def test_labels_that_hardly_differ_make_no_interval_without_width():
    machine, _, strata = population()
    places = draw(strata, (70, 70, 60))
    found = correct_mean(machine, np.ones(200), places, strata=strata)
    assert found.corrected.interval.upper == 1
    assert found.corrected.interval.lower == pytest.approx(0.025 ** (1 / 200), abs=0.002)
