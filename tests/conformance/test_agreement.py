"""Agreement and quality against scikit-learn, statsmodels, SciPy and krippendorff."""

from __future__ import annotations

import krippendorff
import numpy as np
import pytest
from judged.values.agreement import Rater, RatingLevel, RatingTable, SystemScores
from judged.values.choices import IntervalOptions
from judged_server.statistics.agreement import measure_agreement, rank_agreement
from judged_server.statistics.quality import LabelledScores, judge_quality
from scipy.stats import kendalltau
from sklearn import metrics as sk
from statsmodels.stats.inter_rater import fleiss_kappa

FEW = IntervalOptions(resamples=100)


def rated(seed: int) -> tuple[np.ndarray, int]:
    """Return random ratings [items, raters], -1 for none, and the number of categories."""
    rng = np.random.default_rng(seed)
    k, raters, n = int(rng.integers(2, 8)), int(rng.integers(2, 6)), int(rng.integers(5, 2500))
    true = rng.integers(0, k, n)
    codes = np.where(rng.random((n, raters)) < 0.6, true[:, None], rng.integers(0, k, (n, raters)))
    if seed % 2:
        codes[rng.random(codes.shape) < 0.2] = -1
    return codes, k


def measure(codes: np.ndarray, k: int, level: RatingLevel = RatingLevel.NOMINAL):
    raters = [Rater(f"rater {j}", column) for j, column in enumerate(codes.T.tolist())]
    table = RatingTable([f"category {c}" for c in range(k)], raters, level)
    return measure_agreement(table, FEW)


@pytest.mark.parametrize("level", RatingLevel)
@pytest.mark.parametrize("seed", range(12))
def test_krippendorffs_alpha_is_that_of_the_krippendorff_package(seed: int, level: RatingLevel):
    codes, k = rated(seed)
    data = np.where(codes < 0, np.nan, codes).T
    expected = krippendorff.alpha(reliability_data=data, level_of_measurement=level.name.lower())
    found = measure(codes, k, level).krippendorff_alpha.value
    assert found == pytest.approx(expected, abs=1e-12)


def test_krippendorffs_alpha_of_the_published_example():
    # Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability", part C.
    rows = ["123321412...", "1233224125.3", ".3332342251.", "12332441251."]
    codes = np.array([[-1 if c == "." else int(c) - 1 for c in row] for row in rows]).T
    values = [measure(codes, 5, level).krippendorff_alpha.value for level in RatingLevel]
    assert values == pytest.approx([0.743, 0.815, 0.849], abs=5e-4)


@pytest.mark.parametrize("weights", [None, "linear", "quadratic"])
@pytest.mark.parametrize("seed", range(8))
def test_cohens_kappa_is_that_of_scikit_learn(seed: int, weights: str | None):
    codes, k = rated(seed)
    codes = codes[:, :2]
    both = (codes >= 0).all(axis=1)
    expected = sk.cohen_kappa_score(
        codes[both, 0], codes[both, 1], labels=range(k), weights=weights
    )
    found = measure(codes, k, RatingLevel.ORDINAL)
    name = "cohen_kappa" if weights is None else f"{weights}_kappa"
    assert getattr(found, name).value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_fleiss_kappa_is_that_of_statsmodels(seed: int):
    codes, k = rated(seed)
    complete = codes[(codes >= 0).all(axis=1)]
    table = np.stack([(complete == c).sum(axis=1) for c in range(k)], axis=1)
    found = measure(codes, k).fleiss_kappa.value
    assert found == pytest.approx(fleiss_kappa(table), abs=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_kendalls_tau_b_is_that_of_scipy(seed: int):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 40))
    first = rng.integers(0, 12, n).astype(float)
    second = first + rng.integers(-4, 5, n)
    found = rank_agreement(SystemScores([str(i) for i in range(n)], first, second), FEW)
    assert found.kendall_tau.value == pytest.approx(kendalltau(first, second).statistic, abs=1e-12)


TRUE = [0.897, 0.372, 0.908, 0.898, 0.661, 0.062, 0.177, 0.384, 0.498, 0.992]
JUDGED = [0.82, 0.406, 0.817, 0.953, 0.673, 0.073, 0.364, 0.547, 0.589, 0.988]


def test_tau_ap_is_that_of_its_definition():
    # Yilmaz, Aslam and Robertson (2008), equation 2, spelt out.
    order = np.argsort(JUDGED)[::-1]
    shares = [np.mean([TRUE[a] > TRUE[s] for a in order[:i]]) for i, s in enumerate(order) if i]
    found = rank_agreement(
        SystemScores([str(i) for i in range(10)], TRUE, JUDGED), FEW
    ).tau_ap.value
    assert found == pytest.approx(2 * np.mean(shares) - 1, abs=1e-12)
    assert found == pytest.approx(0.8519, abs=5e-5)  # the value that ircor publishes for this case


def test_tau_ap_of_ties_is_one_half_of_tau_ap_b():
    # The mean of both directions is tau_AP,b (Urbano and Marrero 2017); ircor publishes .7321.
    first, second = np.round(TRUE, 1), np.round(JUDGED, 1)
    names = [str(i) for i in range(10)]
    there = rank_agreement(SystemScores(names, first, second), FEW).tau_ap.value
    back = rank_agreement(SystemScores(names, second, first), FEW).tau_ap.value
    assert (there + back) / 2 == pytest.approx(0.7321, abs=5e-5)


@pytest.mark.parametrize("seed", range(10))
def test_quality_is_that_of_scikit_learn(seed: int):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(10, 3000))
    labels = rng.random(n) < 0.6
    scores = np.clip(rng.normal(0.4 + 0.3 * labels, 0.25), 0, 1)
    if seed % 2:
        scores = np.round(scores, 1)
    verdicts = scores + 1e-9 >= 0.5
    found = judge_quality(LabelledScores(scores, labels), 0.5, FEW)
    expected = {
        "accuracy": sk.accuracy_score(labels, verdicts),
        "balanced_accuracy": sk.balanced_accuracy_score(labels, verdicts),
        "cohen_kappa": sk.cohen_kappa_score(labels, verdicts),
        "precision": sk.precision_score(labels, verdicts),
        "recall": sk.recall_score(labels, verdicts),
        "auc": sk.roc_auc_score(labels, scores),
        "expected_calibration_error": calibration_error(scores, labels),
    }
    for name, value in expected.items():
        assert getattr(found, name).value == pytest.approx(value, abs=1e-12), name


def calibration_error(scores: np.ndarray, labels: np.ndarray) -> float:
    """Return the ECE over ten bins, [0, .1) to [.9, 1], bin by bin."""
    bins = np.minimum(np.floor(scores * 10 + 1e-9), 9)
    return sum(
        (bins == b).mean() * abs(scores[bins == b].mean() - labels[bins == b].mean())
        for b in np.unique(bins)
    )
