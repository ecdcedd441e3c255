"""The tests of all comparisons of a call, corrected for how many there are.

Comparisons are numbered by metric, then by pair. The tests themselves are in `paired_tests` and
`sign_flips`. The corrections are of our own: SciPy has no Holm's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from judged_server.domain import FloatArray, IntArray
from judged_server.statistics.comparison.paired_tests import PairedTest, mcnemar, t_test, wilcoxon
from judged_server.statistics.comparison.pairing import Pair
from judged_server.statistics.comparison.sign_flips import sign_flip_p_values


@dataclass(frozen=True, slots=True)
class CorrectedTest:
    """A test with its p-value corrected in two ways over all comparisons of the call."""

    statistic: float | None
    p_value: float
    p_holm: float
    p_benjamini_hochberg: float


def corrected_tests(
    shared: Sequence[Pair], n_queries: int, permutations: int, seed: int
) -> dict[str, dict[int, CorrectedTest]]:
    """Return every test by its name, then by the number of the comparison.

    `n_queries` is the number of the baseline's queries. McNemar's test applies where all values of
    both runs are 0 or 1, the others everywhere.
    """
    return {
        **_single_tests(shared, len(shared[0].differences)),
        "permutation": _permutation(shared, n_queries, permutations, seed),
    }


def _single_tests(shared: Sequence[Pair], n_metrics: int) -> dict[str, dict[int, CorrectedTest]]:
    """Return the tests that need one comparison at a time: by name, then by its place."""
    methods: dict[str, Callable[[FloatArray], PairedTest]] = {"t": t_test, "wilcoxon": wilcoxon}
    places = [(metric, pair) for metric in range(n_metrics) for pair in shared]
    tests = {
        name: {i: test(pair.differences[metric]) for i, (metric, pair) in enumerate(places)}
        for name, test in methods.items()
    }
    tests["mcnemar"] = {
        i: mcnemar(pair.differences[metric])
        for i, (metric, pair) in enumerate(places)
        if _boolean(pair.baseline[metric]) and _boolean(pair.run[metric])
    }
    return {name: _corrected(column) for name, column in tests.items()}


def _boolean(values: FloatArray) -> bool:
    return bool(np.all((values == 0) | (values == 1)))


def _permutation(
    shared: Sequence[Pair], n_queries: int, permutations: int, seed: int
) -> dict[int, CorrectedTest]:
    """Return the sign-flip tests. A query has the same signs in all of them."""
    n_metrics = len(shared[0].differences)
    spread = np.zeros((n_metrics, len(shared), n_queries))
    for j, pair in enumerate(shared):
        spread[:, j, pair.places] = pair.differences
    p_values = sign_flip_p_values(spread.reshape(-1, n_queries), permutations, seed)
    means = [pair.differences[metric].mean() for metric in range(n_metrics) for pair in shared]
    results = zip(means, p_values.tolist(), strict=True)
    return _corrected({i: PairedTest(float(mean), p) for i, (mean, p) in enumerate(results)})


def _corrected(tests: dict[int, PairedTest]) -> dict[int, CorrectedTest]:
    p_values = np.array([test.p_value for test in tests.values()])
    corrected = zip(
        tests.items(), holm(p_values).tolist(), benjamini_hochberg(p_values).tolist(), strict=True
    )
    return {
        i: CorrectedTest(test.statistic, test.p_value, p_holm, p_bh)
        for (i, test), p_holm, p_bh in corrected
    }


def holm(p_values: FloatArray) -> FloatArray:
    """Return the p-values times how many are not smaller, float64[m], at most 1 and in one order.

    Rejecting where these are below alpha keeps the chance of even one false claim below alpha
    (Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure").
    """
    m = len(p_values)
    order = np.argsort(p_values, kind="stable")
    steps = np.maximum.accumulate(p_values[order] * np.arange(m, 0, -1))
    return _back_in_place(steps, order)


def benjamini_hochberg(p_values: FloatArray) -> FloatArray:
    """Return the p-values times m over their rank, float64[m], at most 1 and in one order.

    Rejecting where these are below alpha keeps the expected share of false ones among the claims
    below alpha (Benjamini & Hochberg 1995, "Controlling the False Discovery Rate").
    """
    m = len(p_values)
    order = np.argsort(p_values, kind="stable")
    steps = p_values[order] * m / np.arange(1, m + 1)
    return _back_in_place(np.minimum.accumulate(steps[::-1])[::-1], order)


def _back_in_place(steps: FloatArray, order: IntArray) -> FloatArray:
    corrected = np.empty_like(steps)
    corrected[order] = np.minimum(steps, 1.0)
    return corrected
