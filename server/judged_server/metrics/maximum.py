"""Maximum bipartite matching of one group by augmenting paths.

Konig 1931; H. W. Kuhn, Naval Research Logistics Quarterly 2, 1955).
"""

from __future__ import annotations

import numpy as np

from judged_server.domain import BoolArray


def earliest_hits(matrix: BoolArray) -> BoolArray:
    """Return bool[results]: the results that a maximum matching with the earliest hits matches.

    `matrix` is bool[results, expected texts]. Results are added in rank order, and a matched one
    stays matched while others find new partners. The sets of results that can be matched together
    form a matroid, so the outcome is maximum within the top k for every k at once. Memory is one
    bit a verdict; time is at most results * expected steps on bit sets.
    """
    rows = [
        int.from_bytes(row.tobytes(), "little")
        for row in np.packbits(matrix, axis=1, bitorder="little")
    ]
    partner = [-1] * len(rows)  # the expected text of each result
    holder = [-1] * matrix.shape[1]  # the result of each expected text
    free = alive = (1 << matrix.shape[1]) - 1
    for start in range(len(rows)):
        reached_from: dict[int, int] = {}
        frontier = [start]
        end = -1
        seen = 0
        while frontier:
            result = frontier.pop()
            if rows[result] & free:
                end = _lowest(rows[result] & free)
                reached_from[end] = result
                break
            new = rows[result] & alive & ~seen
            seen |= new
            while new:
                expected = _lowest(new)
                new &= new - 1
                reached_from[expected] = result
                frontier.append(holder[expected])
        if end < 0:
            # Everything reached is taken and leads only to itself: no later path can use it.
            alive &= ~seen
            continue
        free &= ~(1 << end)
        while end >= 0:
            result = reached_from[end]
            holder[end], partner[result], end = result, end, partner[result]
    return np.array(partner) >= 0


def _lowest(bits: int) -> int:
    """Return the position of the lowest set bit."""
    return (bits & -bits).bit_length() - 1
