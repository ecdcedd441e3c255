"""Which items to label: more of those that the judge is unsure of, each with a known probability.

An item's probability of being drawn grows with its uncertainty; a share of the labels is spread
evenly over all items, so that no probability is 0 and weights stay bounded (Zrnic, Candes (2024),
"Active statistical inference", arXiv 2403.03208). The draw is sequential Poisson sampling (Ohlsson
(1998), Journal of Official Statistics 14(2)): every item has a random number of its own, and comes
the earlier, the smaller that number is beside its probability. The first n of that order are a
sample of n for every n: labelling can stop early or go on, and what is labelled stays drawn. The
probabilities of being among the first n are those said to within about a hundredth, at 20 labels
or more.

In strata, the items of each are drawn evenly, and strata take turns so that among the first n each
has its share of the labels, for every n: as large as that of its items times their uncertainty,
and a part of the labels by items alone (Fisch et al. (2024), "Stratified Prediction-Powered
Inference", arXiv 2406.04291, whose heuristic allocation this is).
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


def stratified_order(
    ids: Sequence[str],
    strata: Sequence[int],
    uncertainty: Sequence[float],
    random_share: float = RANDOM_SHARE,
    *,
    seed: int = 0,
) -> list[int]:
    """Return the places of all items in the order in which they are drawn from their strata.

    An item's place within its stratum is made of the seed and its id. Raises InvalidArgument as
    `inclusion_probabilities` does.
    """
    size = _sizes(uncertainty, random_share)
    share: dict[int, float] = {}
    members: dict[int, list[int]] = {}
    for i, stratum in enumerate(strata):
        share[stratum] = share.get(stratum, 0.0) + size[i]
        members.setdefault(stratum, []).append(i)
    turns: list[tuple[float, int, int]] = []
    for stratum, places in members.items():
        numbers = {i: Random(f"{seed}:{ids[i]}").random() for i in places}  # noqa: S311 - no secret
        for turn, i in enumerate(sorted(places, key=numbers.__getitem__)):
            turns.append(((turn + 0.5) / share[stratum], stratum, i))
    return [i for _, _, i in sorted(turns)]


def bands(beliefs: Sequence[float], n_bands: int, random_share: float = RANDOM_SHARE) -> list[int]:
    """Return for each item the number of its band of beliefs, from 0 for the lowest.

    Bands are cut so that each gets about the same number of labels; items of one belief are in one
    band, so that there may be fewer. Raises InvalidArgument for fewer than 2 bands, and as
    `inclusion_probabilities` does.
    """
    if n_bands < 2:
        raise InvalidArgument.of_field("n_bands", "must be 2 or more")
    uncertainty = [math.sqrt(max(belief * (1 - belief), 0.0)) for belief in beliefs]
    share: dict[float, float] = {}
    for belief, size in zip(beliefs, _sizes(uncertainty, random_share), strict=True):
        share[belief] = share.get(belief, 0.0) + size
    number: dict[float, int] = {}
    passed = 0.0
    for belief in sorted(share):
        number[belief] = min(int(n_bands * (passed + share[belief] / 2)), n_bands - 1)
        passed += share[belief]
    used = {band: place for place, band in enumerate(sorted(set(number.values())))}
    return [used[number[belief]] for belief in beliefs]


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
