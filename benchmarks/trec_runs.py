"""Qrels and runs for benchmarks: random, seeded, as Python programs hold them.

Owns the data of `benchmarks.metrics` and its peers. Needs NumPy only, since peers import it in
environments of their own.

Ids look like those of a corpus ("D0123456"). Scores are as retrievers give them, real numbers in
descending order, unless shuffled. Of the judged documents half were retrieved, anywhere in the
ranking; grades run from 0 to 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Columns = list[tuple[str, list[str], list[float]]]


@dataclass(frozen=True, slots=True)
class Runs:
    """Qrels and a run as columns: (topic, document ids, grades or scores)."""

    qrels: Columns
    run: Columns


def build_runs(n: int, depth: int = 100, judged: int = 10, *, seed: int = 7) -> Runs:
    """Return the qrels and the run of n topics."""
    rng = np.random.default_rng(seed)
    qrels: Columns = []
    run: Columns = []
    some = judged // 2
    for topic in range(n):
        # Steps from 1 to 8000 make distinct ids; shuffled, they come in no order.
        numbers = np.cumsum(rng.integers(1, 8000, depth + judged - some))
        rng.shuffle(numbers)
        ids = [f"D{number:07d}" for number in numbers.tolist()]
        scores = -np.sort(-rng.normal(10, 3, depth))
        found = [ids[place] for place in rng.choice(depth, some, replace=False).tolist()]
        grades = rng.choice(4, judged, p=[0.3, 0.4, 0.2, 0.1])
        qrels.append((f"q{topic}", found + ids[depth:], grades.tolist()))
        run.append((f"q{topic}", ids[:depth], scores.tolist()))
    return Runs(qrels, run)


def mappings(columns: Columns) -> dict[str, dict[str, float]]:
    """Return {topic: {document: number}}."""
    return {topic: dict(zip(ids, numbers, strict=True)) for topic, ids, numbers in columns}
