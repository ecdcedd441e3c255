"""Active labelling: which items people should label, and estimates from their labels.

Items that the judge is unsure of are drawn more often, each with a known probability, so that the
labels allow estimates for all items. Needs only the base install.

An item's probability of being drawn grows with its uncertainty; a share of the labels is spread
evenly over all items, so that no probability is 0 and weights stay bounded (Zrnic, Candes (2024),
"Active statistical inference", arXiv 2403.03208). The draw is sequential Poisson sampling (Ohlsson
(1998), Journal of Official Statistics 14(2)): every item has its own random number, and items are
ordered by that number divided by their probability. The first n of that order are a sample of n
for every n: labelling can stop early or continue, and labelled items stay drawn. With 20 labels or
more, the computed probabilities of being among the first n are right to about a hundredth.

The file has the lines that `judged calibrate` reads. Each label reads it again and rewrites it as
a whole, so that several people can share it and an interruption loses nothing. Undo removes the
last label of this run.
"""

from __future__ import annotations

import fcntl
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

from judged._files import FileError, Record, json_line, read_records, replacing_text, writing
from judged._inputs import refuse_below
from judged.client import Client
from judged.errors import InvalidArgument
from judged.evaluation.labels import INCLUSION
from judged.values import CalibrateOptions, CorrectedEstimate, IntervalOptions, LabelledScores

__all__ = [
    "Item",
    "Judged",
    "Label",
    "LabelFile",
    "drawing_order",
    "inclusion_probabilities",
]

RANDOM_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Item:
    """A line of `judged judge` with status OK. `belief` is the judge's probability of relevance.

    Without a probability it is the score, and without a score 1 or 0, as the verdict says.
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
        """The standard deviation of a verdict that is relevant with probability `belief`."""
        return math.sqrt(self.belief * (1 - self.belief))


@dataclass(frozen=True, slots=True)
class Judged:
    """The items of a file and the draw from them. `missing` lines had no verdict."""

    name: str
    items: Sequence[Item]
    missing: int
    random_share: float = RANDOM_SHARE
    seed: int = 0

    @property
    def _uncertainty(self) -> list[float]:
        return [item.uncertainty for item in self.items]

    def drawn(self, n: int) -> list[Item]:
        """Return the first n items of the draw, in order."""
        names = [item.item_id for item in self.items]
        order = drawing_order(names, self._uncertainty, self.random_share, seed=self.seed)
        return [self.items[i] for i in order[:n]]

    def probabilities(self, n: int) -> dict[str, float]:
        """Return each item's probability of being among the first n, by id."""
        chances = inclusion_probabilities(self._uncertainty, n, self.random_share)
        return {item.item_id: p for item, p in zip(self.items, chances, strict=True)}

    @classmethod
    def read(cls, path: Path | str, random_share: float = RANDOM_SHARE, seed: int = 0) -> Judged:
        """Return what `judged judge --output` wrote. Raises FileError."""
        items, missing = [], 0
        line_of: dict[str, int | None] = {}
        for record in read_records(path):
            if record.get("rubric") is not None:
                raise record.error(
                    "is a score of an answer, and verdicts of `judged judge` are labelled here; "
                    "write 'relevant' into the answers, and run `judged calibrate --rubric ID`"
                )
            if record.text("status") != "OK":
                missing += 1
                continue
            item = _item_of(record)
            record.refuse_again(line_of, item.item_id, f"has the id {item.item_id!r} of line {{}}")
            items.append(item)
        if not items:
            raise FileError(str(path), None, "has no line with a verdict to label")
        return cls(str(path), items, missing, random_share, seed)


def _item_of(record: Record) -> Item:
    relevant, query = record.label("relevant"), record.text("query")
    beliefs = record.share("probability"), record.share("score"), float(relevant)
    return Item(
        record.optional_identifier("id") or f"line {record.line}",
        record.optional_identifier("query_id") or query,
        query,
        record.alternatives(),
        record.text("retrieved_text"),
        relevant,
        next(belief for belief in beliefs if belief is not None),
    )


def inclusion_probabilities(
    uncertainty: Sequence[float], n: int, random_share: float = RANDOM_SHARE
) -> list[float]:
    """Return each item's probability of being among the first `n` drawn; they sum to n.

    `uncertainty` has a number from 0 for each item. Probabilities are proportional to it, except
    for the `random_share` of the labels, which is spread evenly, and for those that reach 1. If n
    is the number of items or more, each is 1. Raises InvalidArgument for n below 1, a random share
    that is not above 0 and at most 1, and an uncertainty below 0 or not finite.
    """
    refuse_below(1, n=n)
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
    """Return the indices of all items in the order in which they are drawn.

    An item's random number depends only on the seed and its id, not on the other items.
    Raises InvalidArgument as `inclusion_probabilities` does.
    """
    size = _sizes(uncertainty, random_share)
    numbers = [Random(f"{seed}:{name}").random() for name in ids]  # noqa: S311 - a draw, no secret
    return sorted(range(len(size)), key=lambda i: numbers[i] / size[i])


def _sizes(uncertainty: Sequence[float], random_share: float) -> list[float]:
    """Return the weights that the probabilities are proportional to; they sum to 1."""
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


@dataclass(frozen=True, slots=True)
class Label:
    """A person's label of one item; `relevant` is None for "unsure"."""

    item_id: str
    relevant: bool | None
    labelled_at: datetime
    inclusion_probability: float
    note: str = ""


@dataclass(slots=True)
class LabelFile:
    """The labels of a file by item, in the order in which they were given.

    `chances`, if given, replace the inclusion probabilities in the file.
    """

    path: Path
    items: Mapping[str, Item]
    chances: Mapping[str, float] | None = None
    labels: dict[str, Label] = field(default_factory=dict)
    _given: list[str] = field(default_factory=list)

    @classmethod
    def read(
        cls, path: Path | str, items: Sequence[Item], chances: Mapping[str, float] | None = None
    ) -> LabelFile:
        """Return the labels of a file, none if there is no file.

        Raises FileError for a label of an unknown item, or a second label of an item.
        """
        found = cls(Path(path), {item.item_id: item for item in items}, chances)
        if found.path.exists():
            found.labels = found._read()
        return found

    def _read(self) -> dict[str, Label]:
        labels: dict[str, Label] = {}
        line_of: dict[str, int | None] = {}
        for record in read_records(self.path):
            record.chance(INCLUSION)
            label = record.read(Label, item_id=record.identifier("id"))
            if label.item_id not in self.items:
                raise record.error(
                    f"labels {label.item_id!r}, which the judged lines don't hold; name the file "
                    "that was labelled"
                )
            again = f"labels {label.item_id!r}, as line {{}} does; delete one of them"
            record.refuse_again(line_of, label.item_id, again)
            if self.chances is not None:
                label = replace(label, inclusion_probability=self.chances[label.item_id])
            labels[label.item_id] = label
        return labels

    def add(self, label: Label) -> Label | None:
        """Add a label, replacing the one of its item that was known. Raises FileError.

        If someone else has labelled the item since, their label is kept and returned.
        """
        name = label.item_id
        with self._changing() as known:
            if name in self.labels and name not in known:
                return self.labels[name]
            self.labels.pop(name, None)
            self.labels[name] = label
            self._given.append(name)
        return None

    def undo(self) -> Label | None:
        """Remove and return the last label added here, None if none is left. Raises FileError."""
        with self._changing():
            return self.labels.pop(self._given.pop(), None) if self._given else None

    @contextmanager
    def _changing(self) -> Iterator[Mapping[str, Label]]:
        """Lock the file, read the labels that others wrote, and write it at the end.

        Yields the labels that were known before.
        """
        with writing(self.path), _locked(self.path):
            before, self.labels = self.labels, self._read()
            try:
                yield before
                with replacing_text(self.path) as file:
                    for label in self.labels.values():
                        file.write(json_line(_line(label, self.items[label.item_id])))
            except BaseException:
                self.labels = before
                raise


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which all processes take that change it."""
    while True:
        with path.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # Otherwise the previous holder has replaced the file: lock the new one.
            if path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno())):
                yield
                return


def _line(label: Label, item: Item) -> dict[str, Any]:
    return {
        "id": label.item_id,
        "query_id": item.cluster,
        "query": item.query,
        "expected_alternatives": list(item.expected),
        "retrieved_text": item.retrieved,
        "relevant": label.relevant,
        "labelled_at": label.labelled_at.isoformat(timespec="seconds"),
        INCLUSION: label.inclusion_probability,
        "note": label.note,
    }


_BELOW_HALF = 0.5 - 1e-6
_RESAMPLES = 100  # the minimum: resampled numbers are not shown here


@dataclass(frozen=True, slots=True)
class Summary:
    """Corrected means by name, over all items that have a verdict.

    `means` holds the share of relevant items, and the share on which judge and people agree.
    `counted` is the number of labelled items from the start of the draw without a gap; `warnings`
    are about labels.
    """

    means: Mapping[str, CorrectedEstimate]
    counted: int
    warnings: Sequence[str]


def summarize(
    client: Client, judged: Judged, labels: LabelFile, confidence: float = 0.95
) -> Summary:
    """Return the estimates that the labels give for all items.

    Items count in drawing order, up to the first without a label. Raises InvalidArgument if no
    label counts.
    """
    given = labels.labels
    order = judged.drawn(len(judged.items))
    counted = next((i for i, item in enumerate(order) if item.item_id not in given), len(order))
    decided = {item.item_id: given[item.item_id].relevant for item in order[:counted]}
    warnings = []
    if beyond := len(given) - counted:
        warnings.append(
            f"{beyond} labelled items come after one in the draw that has no label, and do not "
            "count; label those in between"
        )
    if unsure := sum(label is None for label in decided.values()):
        warnings.append(
            f"{unsure} of {counted} items are unsure, and count as not labelled; estimates for all "
            "items are right only as far as these are like the others"
        )
    if all(label is None for label in decided.values()):
        raise InvalidArgument.of_field("labels", "none counts; label the first items of the draw")
    chances = judged.probabilities(counted)
    found = client.calibrate(
        LabelledScores(
            [_score(item) for item in judged.items],
            [decided.get(item.item_id) for item in judged.items],
            [item.cluster for item in judged.items],
            [chances[item.item_id] for item in judged.items],
        ),
        CalibrateOptions(min_score=0.5),
        IntervalOptions(confidence=confidence, resamples=_RESAMPLES),
    )
    means = {"share of relevant items": found.prevalence}
    if found.agreement is not None:
        means["judge agrees with people"] = found.agreement
    return Summary(means, counted, warnings)


def _score(item: Item) -> float:
    """Return the belief, or one half where it contradicts the verdict."""
    return max(item.belief, 0.5) if item.relevant else min(item.belief, _BELOW_HALF)
