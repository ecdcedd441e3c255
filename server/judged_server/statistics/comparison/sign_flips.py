"""The sign-flip test of a mean difference: how often random signs do as well.

If two runs do not differ, each query's difference could as well have had the other sign. The test
asks for nothing else: no normal distribution, no ranks (Fisher 1935; Smucker, Allan & Carterette
2007 recommend it for retrieval).

The p-value depends on nothing but differences and seed: signs are bits of PCG64's raw words, whose
stream NumPy promises to keep, and differences are first rounded to multiples of a power of two
that makes every sum exact, so that blocks, threads and the order of additions can't change it.
"""

from __future__ import annotations

import math

import numpy as np

from judged_server.domain import FloatArray
from judged_server.errors import InvalidField
from judged_server.scheduling.checkpoint import checkpoint

MAX_FLIPS = 2_000_000_000
"""Signs that a call may draw: some ten seconds of one core."""
_COMPARISONS_A_PASS = 16  # comparisons whose sums take about as long as the drawing
_BLOCK_SIGNS = 1 << 18  # signs worked on at once: 2 MiB, which stay in the cache of a core


def check_flips(
    n_queries: int,
    n_comparisons: int,
    permutations: int,
    field: str = "comparison.permutations",
) -> None:
    """Raise InvalidField at `field` when the test would take too long."""
    passes = max(1, math.ceil(n_comparisons / _COMPARISONS_A_PASS))
    most = MAX_FLIPS // (max(1, n_queries) * passes)
    if permutations > most:
        asked = f"is {permutations} for {n_queries} queries and {n_comparisons} comparisons"
        what = f"ask for at most {most}" if most >= 100 else "compare fewer runs or metrics"
        raise InvalidField(field, f"{asked}, which is too much work for one call; {what}")


def sign_flip_p_values(differences: FloatArray, permutations: int, seed: int) -> FloatArray:
    """Return the two-sided p-value of each mean, float64[c]; `differences` is float64[c, n].

    Exact, over all 2^k sign flips of k non-zero differences, when these are no more than
    `permutations`. Else (b + 1) / (m + 1) with b of m random flips at least as far from 0, which
    is never 0 (Phipson & Smyth 2010). All comparisons share their signs.
    """
    p_values = np.ones(len(differences))
    drawn = []
    for i, row in enumerate(differences):
        checkpoint()
        moved = row[row != 0]
        if len(moved) < permutations.bit_length():  # that is, 2^k <= permutations
            p_values[i] = _exact(moved)
        else:
            drawn.append(i)
    if drawn:
        hits = _hits(differences[drawn], permutations, seed)
        p_values[drawn] = (hits + 1) / (permutations + 1)
    return p_values


def _exact(differences: FloatArray) -> float:
    """Return the share of all sign flips whose sum is as far from 0 as that of the differences."""
    whole, thresholds = _rounded(differences[None, :])
    sums = np.zeros(1)
    for value in whole[0, 1:]:  # by symmetry the first may keep its sign
        sums = np.concatenate([sums + value, sums - value])
    if len(differences):
        sums += whole[0, 0]
    return float(np.mean(np.abs(sums) >= thresholds[0]))


def _hits(differences: FloatArray, permutations: int, seed: int) -> FloatArray:
    """Return in how many of the random flips each sum is as far from 0 as without them."""
    whole, thresholds = _rounded(differences)
    columns = np.ascontiguousarray(whole.T)
    totals = whole.sum(axis=1)
    n = len(columns)
    words = -(-n // 64)
    source = np.random.PCG64(seed)
    # As many rows as keep signs, and sums of all comparisons, in the cache.
    block = max(1, _BLOCK_SIGNS // max(n, len(whole) // 4))
    signs = np.empty((block, n))
    sums = np.empty((block, len(whole)))
    hits = np.zeros(len(whole))
    for start in range(0, permutations, block):
        checkpoint()
        rows = min(block, permutations - start)
        raw = source.random_raw(rows * words).astype("<u8", copy=False)
        bits = np.unpackbits(raw.view(np.uint8).reshape(rows, -1), axis=1, bitorder="little")
        signs[:rows] = bits[:, :n]
        some = np.matmul(signs[:rows], columns, out=sums[:rows])
        some *= 2  # a bit is a plus, none a minus
        some -= totals
        np.abs(some, out=some)
        hits += np.sum(some >= thresholds, axis=0)
    return hits


def _rounded(differences: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the differences as whole numbers with exact sums, and what a sum must reach.

    A sum of n numbers that were rounded may be n halves off, and so may the one it is held
    against: as much short of it still counts as equal.
    """
    n = max(1, differences.shape[1])
    largest = np.abs(differences).max(axis=1, initial=0.0)
    exponents = np.frexp(np.where(largest > 0, largest, 1.0))[1]
    shift = 51 - math.ceil(math.log2(max(n, 2)))
    whole: FloatArray = np.rint(np.ldexp(differences, (shift - exponents)[:, None]))
    return whole, np.abs(whole.sum(axis=1)) - n
