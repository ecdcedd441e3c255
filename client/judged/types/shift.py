"""Whether judged data are like the labels that a guarantee was made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from judged.types.calibrators import ErrorGuarantee

_BUCKETS = 64
_LEAST_BUCKETS = 20
"""Buckets with an item, of some 24 queries, below which a test sees nothing."""
_RISK = 0.01
"""How often data that are like the labels are called unlike, at most."""


@dataclass(frozen=True, slots=True)
class Shift:
    """What became of the test of data against labels.

    `unlike` names what differs: "score" (of the first stage), "length" (of retrieved texts),
    "flags" (flags and missing verdicts). `not_checked` says why there was no test.
    """

    unlike: tuple[str, ...] = ()
    not_checked: str = ""


def find_shift(guarantee: ErrorGuarantee, counts: Sequence[int]) -> Shift:
    """Return whether items are spread as the labels are, by their counts in a reply.

    Each bin's share is compared by its distance in standard errors over queries, against the
    quantile of Student's t that shares the risk among all bins.
    """
    data = guarantee.data
    width = sum(len(part.shares) for part in data)
    if not width or len(counts) != _BUCKETS * width:
        return Shift(not_checked="the cascade was made before this; make it anew")
    rows = [counts[start : start + width] for start in range(0, len(counts), width)]
    filled = [row for row in rows if any(row)]
    if len(filled) < _LEAST_BUCKETS:
        return Shift(not_checked="too few queries; it takes 30 or more")
    # The variances are of all labels, of which those that tested the cascade are one half.
    scaled = 2 * guarantee.n_labels / max(1, sum(map(sum, rows)) / len(data))
    limit = _quantile(1 - _RISK / 2 / width, len(filled) - 1)
    unlike, first = [], 0
    for part in data:
        last = first + len(part.shares)
        columns = [row[first:last] for row in filled]
        first = last
        if _distance(part.shares, part.variances, columns, scaled) > limit:
            unlike.append(part.name)
    return Shift(tuple(unlike))


def _distance(
    shares: Sequence[float],
    variances: Sequence[float],
    rows: Sequence[Sequence[int]],
    scaled: float,
) -> float:
    """Return the largest distance of a share from that of the labels, in standard errors.

    A share of few items may show no variance of its own, so that it has that of the labels at
    least, `scaled` to the number of items.
    """
    sizes = [sum(row) for row in rows]
    total = sum(sizes)
    if not total:
        return 0.0
    largest, n = 0.0, len(rows)
    for place, (share, variance) in enumerate(zip(shares, variances, strict=True)):
        seen = sum(row[place] for row in rows) / total
        off = (row[place] - size * seen for row, size in zip(rows, sizes, strict=True))
        own = n / (n - 1) * sum(each * each for each in off) / total**2
        error = math.sqrt(variance + max(own, variance * scaled))
        if seen != share:
            largest = max(largest, abs(seen - share) / error if error else math.inf)
    return largest


def _quantile(p: float, degrees: int) -> float:
    """Return the quantile of Student's t, by the expansion of Cornish and Fisher."""
    z = NormalDist().inv_cdf(p)
    second = (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
    return z + (z**3 + z) / (4 * degrees) + second
