"""Makes seeded random qrels and runs for benchmarks, as Python lists.

Needs only NumPy, since peers import it in their own environments.

Ids look like those of a corpus ("D0123456"). Scores are real numbers in descending order, unless
shuffled. Half of the judged documents were retrieved, anywhere in the ranking; grades are 0 to 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

Number = TypeVar("Number", int, float)
Columns = list[tuple[str, list[str], list[Number]]]


@dataclass(frozen=True, slots=True)
class Runs:
    """Qrels and a run as columns: (topic, document ids, grades or scores)."""

    qrels: Columns[int]
    run: Columns[float]


def build_runs(n: int, depth: int = 100, judged: int = 10, *, seed: int = 7) -> Runs:
    """Return the qrels and the run of n topics."""
    rng = np.random.default_rng(seed)
    qrels: Columns[int] = []
    run: Columns[float] = []
    some = judged // 2
    for topic in range(n):
        # Steps from 1 to 8000 make ids distinct; shuffling removes their order.
        numbers = np.cumsum(rng.integers(1, 8000, depth + judged - some))
        rng.shuffle(numbers)
        ids = [f"D{number:07d}" for number in numbers.tolist()]
        scores = -np.sort(-rng.normal(10, 3, depth))
        found = [ids[place] for place in rng.choice(depth, some, replace=False).tolist()]
        grades = rng.choice(4, judged, p=[0.3, 0.4, 0.2, 0.1])
        qrels.append((f"q{topic}", found + ids[depth:], grades.tolist()))
        run.append((f"q{topic}", ids[:depth], scores.tolist()))
    return Runs(qrels, run)


def mappings(columns: Columns[Number]) -> dict[str, dict[str, Number]]:
    """Return {topic: {document: number}}."""
    return {topic: dict(zip(ids, numbers, strict=True)) for topic, ids, numbers in columns}
