"""Means of resampled queries: the bootstrap distribution that intervals are read from.

What is made of the distribution is up to `intervals`; statistics that are no means take the counts
of the draws alone.

A resample draws n of n queries with replacement, all alike and none depending on another. The
same resamples serve all metrics, so that their intervals belong together and one pass is enough.

The numbers hang on nothing but the values and the seed. The draws come out of the raw words of
PCG64, whose stream NumPy promises to keep, by a rule that is written here. The sums are exact:
values are first rounded to multiples of a power of two so small that it does not matter (below
1e-9 of the largest value for 100,000 queries, finer for fewer) and so large that no sum of n of
them needs more than the 53 bits of a double. Neither the block size, nor the number of threads,
nor the order in which a matrix product adds can then change a bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from judged_server.domain import FloatArray
from judged_server.scheduling.checkpoint import checkpoint

BLOCK_DRAWS = 1 << 16
"""Draws worked on at once: about 2 MiB, which stay in the cache of a core."""

_ROWS_FROM = 256  # queries from which a resample is worth a call of its own
_EXACT_BITS = 52


@dataclass(frozen=True, slots=True)
class Resampled:
    """The bootstrap distribution of m means.

    `means` is float64[m, resamples]. `estimates` is float64[m]: the means of the values as they
    are, rounded in the same way, so that a resample that repeats them is equal to the last bit.
    """

    means: FloatArray
    estimates: FloatArray


def resample_means(values: FloatArray, resamples: int, seed: int) -> Resampled:
    """Return the means of resampled queries; `values` is float64[m, n], finite, n >= 1.

    Efron (1979), "Bootstrap Methods: Another Look at the Jackknife".
    """
    m, n = values.shape
    # A power of two that no magnitude of the row exceeds.
    scale = np.ldexp(1.0, np.frexp(np.abs(values).max(axis=1))[1])[:, None]
    unit = 2.0 ** (_EXACT_BITS - math.ceil(math.log2(max(n, 2))))
    whole = np.rint(values / scale * unit)
    sums = np.empty((resamples, m))
    columns = np.ascontiguousarray(whole.T)
    start = 0
    for counts in resample_counts(n, resamples, seed, max(1, BLOCK_DRAWS // n)):
        np.matmul(counts, columns, out=sums[start : start + len(counts)])
        start += len(counts)
    factor = scale / unit
    return Resampled(sums.T / n * factor, whole.sum(axis=1) / n * factor[:, 0])


def resample_counts(n: int, resamples: int, seed: int, rows: int) -> Iterator[FloatArray]:
    """Yield float64[rows or fewer, n]: how often each of n things is in each resample.

    Neither the number of rows in a block nor how many resamples follow changes a count.
    """
    draws = _Draws(n, seed)
    for start in range(0, resamples, rows):
        checkpoint()
        some = min(rows, resamples - start)
        yield _counts(draws.take(some * n), some, n)


def _counts(draws: NDArray[Any], rows: int, n: int) -> FloatArray:
    """Return float64[rows, n]: how often each query is in each resample."""
    if n >= _ROWS_FROM:
        counts = np.empty((rows, n))
        for row, drawn in enumerate(draws.reshape(rows, n)):
            counts[row] = np.bincount(drawn, minlength=n)
        return counts
    places = draws.reshape(rows, n) + np.arange(0, rows * n, n)[:, None]
    return np.bincount(places.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)


class _Draws:
    """An endless row of draws from 0..n-1, the same however it is cut.

    Lemire (2019), "Fast Random Integer Generation in an Interval": x * n has the draw in its upper
    half; words whose lower half falls into the uneven rest are passed over, so that every draw is
    exactly as likely as any other.
    """

    def __init__(self, n: int, seed: int) -> None:
        narrow = n <= 1 << 16
        self._n = n
        self._bits = 16 if narrow else 32
        self._word = np.dtype("<u2" if narrow else "<u4")
        self._wide: Any = np.uint32 if narrow else np.uint64
        self._rest = self._wide((2**self._bits) % n)
        self._source = np.random.PCG64(seed)
        self._left: NDArray[Any] = np.empty(0, self._word)

    def take(self, count: int) -> NDArray[Any]:
        """Return the next `count` draws, unsigned integers."""
        parts, have = [self._left], len(self._left)
        per_word = 64 // self._bits
        while have < count:
            raw = self._source.random_raw((count - have) // per_word + 16)
            parts.append(self._draw(raw.astype("<u8", copy=False).view(self._word)))
            have += len(parts[-1])
        draws: NDArray[Any] = np.concatenate(parts)
        self._left = draws[count:]
        return draws[:count]

    def _draw(self, words: NDArray[Any]) -> NDArray[Any]:
        product = words.astype(self._wide)
        product *= self._wide(self._n)
        drawn: NDArray[Any] = (product >> self._wide(self._bits)).astype(self._word)
        if self._rest:
            low = product.astype(self._word)  # keeps the lower half
            drawn = drawn[low >= self._rest.astype(self._word)]
        return drawn
