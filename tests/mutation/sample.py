"""A random sample of mutants, and what it says of all of them.

Every mutant has the same chance, whatever its file. Names are sorted before the draw, so the same
code, size and seed give the same sample.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from math import sqrt

Z = 1.959963984540054  # the standard normal's 97.5th percentile


def draw(names: Iterable[str], size: int, seed: int) -> list[str]:
    """Return `size` of the names, none twice, in order; all of them where there are no more."""
    ordered = sorted(names)
    return sorted(random.Random(seed).sample(ordered, min(size, len(ordered))))


def wilson(hits: int, n: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share, 0 to 1 where nothing was counted.

    Wilson, 1927, "Probable inference, the law of succession, and statistical inference".
    """
    if n == 0:
        return 0.0, 1.0
    share = hits / n
    middle = share + Z * Z / (2 * n)
    half = Z * sqrt(share * (1 - share) / n + Z * Z / (4 * n * n))
    scale = 1 + Z * Z / n
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)
