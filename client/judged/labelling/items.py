"""The judged lines that labels are drawn from: more of those that the judge is unsure of.

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
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from judged._files import FileError, Record, read_records
from judged.errors import InvalidArgument

RANDOM_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Item:
    """A line of `judged judge` whose status is OK. `belief` is how sure the judge is of relevance.

    That is the probability, where there is one; else the score, stretched so that the threshold of
    the file comes to one half.
    """

    item_id: str
    cluster: str
    query: str
    expected: Sequence[str]
    retrieved: str
    relevant: bool
    belief: float

    @property
    def uncertainty(self) -> float:
        """The standard deviation of a verdict that is right with that probability."""
        return math.sqrt(self.belief * (1 - self.belief))


@dataclass(frozen=True, slots=True)
class Judged:
    """The items of a file, and in which order they are drawn. `missing` lines had no verdict."""

    name: str
    items: Sequence[Item]
    missing: int
    random_share: float = RANDOM_SHARE
    seed: int = 0

    def drawn(self, n: int) -> list[Item]:
        """Return the first n items of the draw, in its order."""
        return [self.items[i] for i in self._order()[:n]]

    def probabilities(self, n: int) -> dict[str, float]:
        """Return with which probability each item is among the first n."""
        unsure = [item.uncertainty for item in self.items]
        chances = inclusion_probabilities(unsure, n, self.random_share)
        return {item.item_id: p for item, p in zip(self.items, chances, strict=True)}

    def _order(self) -> list[int]:
        names = [item.item_id for item in self.items]
        unsure = [item.uncertainty for item in self.items]
        return drawing_order(names, unsure, self.random_share, seed=self.seed)

    @classmethod
    def read(cls, path: Path | str, random_share: float = RANDOM_SHARE, seed: int = 0) -> Judged:
        """Return what `judged judge --output` wrote. Raises FileError."""
        name = str(path)
        lines, missing = [], 0
        line_of: dict[str, int | None] = {}
        for record in read_records(path):
            if record.get("rubric") is not None:
                raise record.error(
                    "is a score of an answer, and verdicts of `judged judge` are labelled here; to "
                    'see how scores agree with people, write "relevant": true or false into the '
                    "lines of the answers, and run `judged calibrate ANSWERS --rubric ID`"
                )
            if record.get("status") is None:
                raise record.error(
                    "has no 'status'; name a file that `judged judge --output` has written"
                )
            if record.text("status") != "OK":
                missing += 1
                continue
            item, score = _read(record)
            record.refuse_again(line_of, item.item_id, f"has the id {item.item_id!r} of line {{}}")
            lines.append((item, score))
        if not lines:
            raise FileError(name, None, "has no line with a verdict, so there is nothing to label")
        threshold = _threshold(lines)
        items = [
            replace(item, belief=_stretched(score, threshold)) if math.isnan(item.belief) else item
            for item, score in lines
        ]
        return cls(name, items, missing, random_share, seed)


def _read(record: Record) -> tuple[Item, float]:
    """Return an item and its score; where it has no probability, its belief is not a number yet."""
    relevant = record.get("relevant")
    if not isinstance(relevant, bool):
        raise record.error("has 'relevant' that is neither true nor false")
    query = record.text("query")
    score, probability = record.share("score"), record.share("probability")
    item = Item(
        record.optional_identifier("id") or f"line {record.line}",
        record.optional_identifier("query_id") or query,
        query,
        record.alternatives(),
        record.text("retrieved_text"),
        relevant,
        math.nan if probability is None else probability,
    )
    return item, float(relevant) if score is None else score


def _stretched(score: float, threshold: float) -> float:
    """Return a score, stretched so that the threshold comes to one half."""
    if score < threshold:
        return 0.5 * score / threshold
    return 0.5 + 0.5 * (score - threshold) / (1 - threshold) if threshold < 1 else 1.0


def _threshold(lines: Sequence[tuple[Item, float]]) -> float:
    """Return a score between those of relevant items and of others, as far as there is one."""
    yes = min((score for item, score in lines if item.relevant), default=1.0)
    no = max((score for item, score in lines if not item.relevant), default=0.0)
    return min(max((yes + no) / 2, 0.01), 0.99)


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
