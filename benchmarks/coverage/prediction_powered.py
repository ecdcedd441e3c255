"""Measures the coverage and the width of prediction-powered intervals.

Verdicts and labels are drawn from a known truth: a share of relevant contexts, and a judge with a
given bias and a given kappa. Each draw has 5,000 verdicts and 200 labels. Reported for every
setting: the coverage of 95 % intervals (corrected, naive), and the width of the corrected interval
over that of the labels alone. In theory that ratio is sqrt(1 - kappa^2) for a judge without bias
and infinitely many verdicts. The same is reported for clusters of unequal size.

    python -m benchmarks.coverage.prediction_powered [--draws 4000]
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from judged.values.choices import CorrectedEstimate
from judged_server.domain import FloatArray, IntArray
from judged_server.statistics.prediction_powered import correct_mean

from benchmarks.harness import closing_line

SEED = 23
LABELS = 200
VERDICTS = 5_000
PREVALENCES = (0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9)
BIASES = (-0.1, -0.05, 0.05, 0.1)
KAPPAS = (0.6, 0.7, 0.8)
CLUSTER_TRUTH = (5.5 / 3 + 15.5 / 6) / 10.5
"""Expected relevant contexts over expected contexts of a query of `clusters`."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A true prevalence, and the judge's bias and kappa."""

    prevalence: float
    bias: float
    kappa: float

    def cells(self) -> tuple[float, ...] | None:
        """Return the shares of (human, judge) = 11, 10, 01, 00; None for an impossible judge."""
        p, q = self.prevalence, self.prevalence + self.bias
        by_chance = p * q + (1 - p) * (1 - q)
        equal = self.kappa * (1 - by_chance) + by_chance
        both = (equal - 1 + p + q) / 2
        cells = (both, p - both, q - both, 1 - p - q + both)
        return cells if min(cells) >= 0 else None


@dataclass(slots=True)
class Tally:
    """Counts over the draws of one setting."""

    corrected: int = 0
    naive: int = 0
    draws: int = 0

    def add(self, found: CorrectedEstimate, truth: float) -> float:
        """Count one draw; return the corrected width over the labels-only width."""
        ours, naive, labels = (
            None if e is None else e.interval
            for e in (found.corrected, found.naive, found.labels_only)
        )
        if ours is None or naive is None or labels is None:
            raise SystemExit("a draw has no interval")
        self.draws += 1
        self.corrected += ours.lower <= truth <= ours.upper
        self.naive += naive.lower <= truth <= naive.upper
        return (ours.upper - ours.lower) / (labels.upper - labels.lower)


def items(
    rng: np.random.Generator, cells: tuple[float, ...], draws: int
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield the judge's verdicts, labelled items first, and the labels."""
    judge_says = cells[0] + cells[2]
    for _ in range(draws):
        counts = rng.multinomial(LABELS, cells)
        others = rng.binomial(VERDICTS - LABELS, judge_says)
        labelled = np.repeat([1.0, 0.0, 1.0, 0.0], counts)
        rest = np.repeat([1.0, 0.0], [others, VERDICTS - LABELS - others])
        yield np.concatenate([labelled, rest]), np.repeat([1.0, 1.0, 0.0, 0.0], counts)


def clusters(
    rng: np.random.Generator, n: int, draws: int
) -> Iterator[tuple[FloatArray, FloatArray, IntArray]]:
    """Yield verdicts, human values and cluster numbers of n queries with 1 to 20 contexts.

    Queries differ in their share of relevant contexts, which correlates with their size, and in
    the judge's leniency.
    """
    for _ in range(draws):
        share = rng.random(n)
        sizes = np.where(rng.random(n) < share, rng.integers(1, 11, n), rng.integers(11, 21, n))
        of = np.repeat(np.arange(n), sizes)
        human = rng.random(len(of)) < share[of]
        lenient = 0.3 * rng.random(n)[of]
        judge = np.where(human, rng.random(len(of)) < 0.9, rng.random(len(of)) < lenient)
        yield judge.astype(np.float64), human.astype(np.float64), of


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=4_000, help="of each setting")
    draws = parser.parse_args().draws
    rng = np.random.Generator(np.random.PCG64(SEED))
    places = np.arange(LABELS)
    samples: dict[str, list[float]] = {"coverage": [], "naive_coverage": []}
    print("prevalence  bias  kappa  coverage  naive  width (5 % to 95 % of draws)")
    for kappa in KAPPAS:
        of_kappa: list[float] = []
        for prevalence in PREVALENCES:
            for bias in BIASES:
                cells = Setting(prevalence, bias, kappa).cells()
                if cells is None:
                    continue  # no judge has this bias and still this kappa
                tally = Tally()
                widths = [
                    tally.add(correct_mean(machine, human, places), prevalence)
                    for machine, human in items(rng, cells, draws)
                ]
                median = statistics.median(widths)
                low, high = np.quantile(widths, [0.05, 0.95])
                samples["coverage"].append(tally.corrected / draws)
                samples["naive_coverage"].append(tally.naive / draws)
                of_kappa.append(median)
                print(
                    f"{prevalence:10.1f} {bias:5.2f} {kappa:6.1f} {tally.corrected / draws:9.3f} "
                    f"{tally.naive / draws:6.3f}  {median:.3f} ({low:.3f} to {high:.3f})"
                )
        samples[f"width_at_kappa_{kappa}"] = of_kappa
    tally = Tally()
    for machine, human, of in clusters(rng, 1_000, draws):
        labelled = np.flatnonzero(of < LABELS)
        tally.add(correct_mean(machine, human[labelled], labelled, clusters=of), CLUSTER_TRUTH)
    samples["clusters_coverage"] = [tally.corrected / tally.draws]
    samples["clusters_naive_coverage"] = [tally.naive / tally.draws]
    print(f"clusters: {tally.corrected / tally.draws:.3f}, naive {tally.naive / tally.draws:.3f}")
    print(closing_line("coverage_prediction_powered", samples))


if __name__ == "__main__":
    main()
