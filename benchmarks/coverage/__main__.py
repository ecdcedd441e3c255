"""Measures the coverage of 95 % intervals.

Values are drawn from distributions with a known mean, 4,000 times each. Every method makes an
interval of every draw, with the code that serves requests. The distributions resemble metrics of
queries: hit rates of 0.1 to 0.9, average precision that is often 0 and otherwise near the lower
end, nDCG that is sometimes 0 and often 1, reciprocal ranks. Coverage is the share of intervals that
contain the mean, for one distribution and one number of queries. The figures are the smallest and
the largest coverage of each method; every single one is printed above.

coverage_percentile_min, _max   percentile bootstrap (the default), at 50, 100 and 200 queries
coverage_bca_min, _max          BCa bootstrap
coverage_t_min, _max            Student's t
coverage_t_unwarned_min, _max   Student's t, over the draws whose interval has no warning

A share of 0.95 over 4,000 draws has a standard error of 0.0034. The bootstrap uses 2,000 resamples
here; the default is 10,000.

    python -m benchmarks.coverage
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from judged.values.choices import IntervalMethod, IntervalOptions
from judged_server.statistics.intervals import mean_intervals

from benchmarks.harness import closing_line

SEED = 7
SIMULATIONS = 4_000
RESAMPLES = 2_000
SIZES = (50, 100, 200)
BATCH = 500
ROUNDING = 1e-9


@dataclass(frozen=True)
class Population:
    """A distribution of per-query values with a known mean."""

    name: str
    mean: float
    draw: Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def hit_rate(p: float) -> Population:
    """Return the values of a metric that is 0 or 1."""
    return Population(f"hit_rate {p:g}", p, lambda rng, shape: (rng.random(shape) < p) * 1.0)


def mixture(name: str, atoms: Mapping[float, float], a: float, b: float) -> Population:
    """Return a beta distribution mixed with `atoms`: value -> share of queries."""
    rest = 1 - sum(atoms.values())
    mean = sum(value * share for value, share in atoms.items()) + rest * a / (a + b)

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        values, chance, begin = rng.beta(a, b, shape), rng.random(shape), 0.0
        for value, share in atoms.items():
            values[(chance >= begin) & (chance < begin + share)] = value
            begin += share
        return values

    return Population(name, mean, draw)


POPULATIONS = (
    *(hit_rate(p) for p in (0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9)),
    mixture("ap", {0.0: 0.2}, 0.8, 1.6),
    mixture("ap, often 0", {0.0: 0.4, 1.0: 0.05}, 0.7, 1.5),
    mixture("ap, hard", {0.0: 0.3}, 0.5, 3.0),
    mixture("ndcg", {0.0: 0.1, 1.0: 0.2}, 3.0, 2.0),
    mixture("ndcg, often 1", {0.0: 0.05, 1.0: 0.5}, 4.0, 2.0),
    mixture("mrr", {0.0: 0.2, 1.0: 0.4, 0.5: 0.15, 0.25: 0.1, 0.2: 0.1, 0.1: 0.05}, 1.0, 1.0),
)


def coverage(population: Population, n: int, method: IntervalMethod) -> tuple[float, float | None]:
    """Return the coverage of all intervals, and of those without a warning."""
    rng = np.random.default_rng([SEED, n])
    values = population.draw(rng, (SIMULATIONS, n))
    holds, warned = [], []
    for begin in range(0, SIMULATIONS, BATCH):
        options = IntervalOptions(method, resamples=RESAMPLES, seed=begin)
        for interval in mean_intervals(values[begin : begin + BATCH], options):
            if interval is not None:
                low, high = interval.lower - ROUNDING, interval.upper + ROUNDING
                holds.append(low <= population.mean <= high)
                warned.append(bool(interval.warnings))
    quiet = np.array(holds)[~np.array(warned)]
    return float(np.mean(holds)), float(quiet.mean()) if len(quiet) >= SIMULATIONS / 2 else None


def main() -> None:
    """Print a line for each population and size, and the closing line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.parse_args()
    shares: dict[str, list[float]] = {}
    for n in SIZES:
        for population in POPULATIONS:
            printed = []
            for method in IntervalMethod:
                share, quiet = coverage(population, n, method)
                name = method.name.lower()
                shares.setdefault(name, []).append(share)
                if quiet is not None and method is IntervalMethod.T:
                    shares.setdefault(f"{name}_unwarned", []).append(quiet)
                printed.append(f"{name} {share:.4f}")
            print(
                f"n={n:<4} {population.name:<14} mean {population.mean:.3f}  {'  '.join(printed)}"
            )
    figures = {}
    for name, all_shares in shares.items():
        figures[f"coverage_{name}_min"] = [min(all_shares)]
        figures[f"coverage_{name}_max"] = [max(all_shares)]
    print(closing_line("coverage", figures))


if __name__ == "__main__":
    main()
