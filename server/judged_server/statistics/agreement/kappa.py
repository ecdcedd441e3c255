"""Agreement beyond chance by kappa: Cohen's for two raters, Fleiss's for a fixed panel.

`*_sums` gives what some items add; the function of the coefficient turns such sums, one row a
resample, into values. NaN means undefined: chance alone would give full agreement.
"""

from __future__ import annotations

import numpy as np

from judged_server.domain import FloatArray
from judged_server.statistics.agreement.ratings import Codes


def pair_sums(counts: FloatArray) -> FloatArray:
    """Return float64[2]: pairs of equal ratings, and pairs in all; `counts` are [items, k]."""
    given = counts.sum(axis=1)
    return np.array([(counts * (counts - 1)).sum(), (given * (given - 1)).sum()])


def observed(sums: FloatArray) -> FloatArray:
    """Return the share of pairs of ratings that are equal."""
    return ratio(sums[:, 0], sums[:, 1])


def weights(n_categories: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the disagreement of each two categories: unweighted, linear, quadratic (Cohen 1968).

    Linear and quadratic ones grow with the distance of the categories' places.
    """
    places = np.arange(n_categories, dtype=np.float64)
    distance = np.abs(places[:, None] - places[None, :])
    return (distance > 0).astype(np.float64), distance, distance**2


def confusion(codes: Codes, n_categories: int) -> FloatArray:
    """Return float64[k, k]: items by the first and the second rater's category."""
    cells = codes[:, 0].astype(np.int64) * n_categories + codes[:, 1]
    shape = (n_categories, n_categories)
    return np.bincount(cells, minlength=n_categories**2).reshape(shape).astype(np.float64)


def cohen_sums(counts: FloatArray) -> FloatArray:
    """Return float64[3 + 2k] of a confusion [k, k]: disagreements, then both marginals."""
    disagreements = [(table * counts).sum() for table in weights(len(counts))]
    return np.concatenate([disagreements, counts.sum(axis=1), counts.sum(axis=0)])


def cohen_kappas(sums: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return Cohen's kappa, plain, linear and quadratic: 1 - sum w o / sum w e.

    o are the counts of pairs of categories, e those that the two raters' marginals would give by
    chance (Cohen 1960, 1968).
    """
    k = (sums.shape[1] - 3) // 2
    first, second = sums[:, 3 : 3 + k], sums[:, 3 + k :]
    n = first.sum(axis=1)
    plain, linear, quadratic = (
        1 - ratio(sums[:, i] * n, ((first @ table) * second).sum(axis=1))
        for i, table in enumerate(weights(k))
    )
    return plain, linear, quadratic


def fleiss_sums(counts: FloatArray, n_raters: int) -> FloatArray:
    """Return float64[2 + k] of the items that all raters rated; `counts` are [items, k].

    Their number, the sum of their squared counts, their ratings by category.
    """
    complete = counts[counts.sum(axis=1) == n_raters]
    return np.concatenate([[len(complete), (complete**2).sum()], complete.sum(axis=0)])


def fleiss_kappa(sums: FloatArray, n_raters: int) -> FloatArray:
    """Return Fleiss's kappa (P - Pe) / (1 - Pe) of `fleiss_sums` (Fleiss 1971).

    P is the mean share of agreeing pairs of raters, Pe the sum of squared shares of categories.
    """
    n, squares, counts = sums[:, 0], sums[:, 1], sums[:, 2:]
    agreeing = ratio(squares - n * n_raters, n * n_raters * (n_raters - 1))
    chance = (ratio(counts, (n * n_raters)[:, None]) ** 2).sum(axis=1)
    one_category = (counts > 0).sum(axis=1) < 2
    return np.where(one_category, np.nan, ratio(agreeing - chance, 1 - chance))


def ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    """Return above / below, NaN where below is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient: FloatArray = np.where(below != 0, above / below, np.nan)
    return quotient
