"""Which items to label: more of those that the judge is unsure of, each with a known probability.

An item's probability of being drawn grows with its uncertainty; a share of the labels is spread
evenly over all items, so that no probability is 0 and weights stay bounded (Zrnic, Candes (2024),
"Active statistical inference", arXiv 2403.03208). The draw is sequential Poisson sampling (Ohlsson
(1998), Journal of Official Statistics 14(2)): every item has a random number of its own, and comes
the earlier, the smaller that number is beside its probability. The first n of that order are a
sample of n for every n: labelling can stop early or go on, and what is labelled stays drawn. The
probabilities of being among the first n are those said to within about a hundredth, at 20 labels
or more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

from judged.errors import InvalidArgument

RANDOM_SHARE = 0.25


def inclusion_probabilities(
    uncertainty: Sequence[float], n: int, random_share: float = RANDOM_SHARE
) -> list[float]:
    """Return each item's probability of being among the first `n` drawn; they sum to n.

    `uncertainty` has a number from 0 for each item; twice the number, twice the probability, but
    for the `random_share` of the labels that all items share alike, and for those that reach 1.
    With n of all items or more each is 1. Raises InvalidArgument for n below 1, a random share
    that is not above 0 and at most 1, and an uncertainty below 0 or not finite.
    """
    if n < 1:
        raise InvalidArgument.of_field("n", "must be 1 or more")
    size = _sizes(uncertainty, random_share)
    if n >= len(size):
        return [1.0] * len(size)
    sure: set[int] = set()
    while True:
        rest = math.fsum(each for i, each in enumerate(size) if i not in sure)
        factor = (n - len(sure)) / rest
        over = {i for i, each in enumerate(size) if i not in sure and factor * each >= 1}
        if not over:
            return [1.0 if i in sure else factor * each for i, each in enumerate(size)]
        sure |= over


def drawing_order(
    ids: Sequence[str],
    uncertainty: Sequence[float],
    random_share: float = RANDOM_SHARE,
    *,
    seed: int = 0,
) -> list[int]:
    """Return the places of all items in the order in which they are drawn.

    An item's random number is made of the seed and its id: it stays the same among other items.
    Raises InvalidArgument as `inclusion_probabilities` does.
    """
    size = _sizes(uncertainty, random_share)
    numbers = [Random(f"{seed}:{name}").random() for name in ids]  # noqa: S311 - a draw, no secret
    return sorted(range(len(size)), key=lambda i: numbers[i] / size[i])


def _sizes(uncertainty: Sequence[float], random_share: float) -> list[float]:
    """Return what the probabilities are in proportion to; they sum to 1."""
    if not 0 < random_share <= 1:
        raise InvalidArgument.of_field("random_share", "must be above 0 and at most 1")
    for i, each in enumerate(uncertainty):
        if not (math.isfinite(each) and each >= 0):
            raise InvalidArgument.of_field(f"uncertainty[{i}]", "must be a number from 0")
    whole = math.fsum(uncertainty)
    even = 1 / max(len(uncertainty), 1)
    return [
        random_share * even + (1 - random_share) * (each / whole if whole else even)
        for each in uncertainty
    ]
