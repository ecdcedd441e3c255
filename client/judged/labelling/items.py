"""Items to be labelled, the order in which they are drawn, and the file of labels.

An item's probability of being drawn grows with its uncertainty; a share of the labels is spread
evenly over all items, so that no probability is 0 and weights stay bounded (Zrnic, Candes (2024),
"Active statistical inference", arXiv 2403.03208). The draw is sequential Poisson sampling (Ohlsson
(1998), Journal of Official Statistics 14(2)): every item has a random number of its own, and comes
the earlier, the smaller that number is beside its probability. The first n of that order are a
sample of n for every n: labelling can stop early or go on, and what is labelled stays drawn. The
probabilities of being among the first n are those said to within about a hundredth, at 20 labels
or more.

The lines are those that `judged calibrate` reads. After every label the file is read again and
written whole, so that several annotators may share it, and nothing is lost when the work is
interrupted. Undo takes the last label out again.
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
from judged.errors import InvalidArgument
from judged.evaluation.datasets.tables import read_table, write_rows
from judged.evaluation.labels import INCLUSION, read_inclusion

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
            item, score = _item_of(record)
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


def _item_of(record: Record) -> tuple[Item, float]:
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


_CSV = ("id", "query", "expected", "retrieved", "label", "note")
_YES, _NO = {"y", "yes", "true", "1", "relevant"}, {"n", "no", "false", "0", "not relevant"}
_UNSURE = {"u", "unsure", "?"}


@dataclass(frozen=True, slots=True)
class Label:
    """What one annotator said of one item; `relevant` is None for "unsure"."""

    item_id: str
    annotator: str
    relevant: bool | None
    labelled_at: datetime
    inclusion_probability: float
    note: str = ""


@dataclass(slots=True)
class LabelFile:
    """The labels of a file, in the order in which they were given.

    With `chances` these are the inclusion probabilities of its items, whatever the file says.
    """

    path: Path
    items: Mapping[str, Item]
    chances: Mapping[str, float] | None = None
    labels: list[Label] = field(default_factory=list)

    @classmethod
    def read(
        cls, path: Path | str, items: Sequence[Item], chances: Mapping[str, float] | None = None
    ) -> LabelFile:
        """Return the labels of a file, none without one.

        Raises FileError for a label of an item that is not among those given, or that its annotator
        labelled twice.
        """
        found = cls(Path(path), {item.item_id: item for item in items}, chances)
        if found.path.exists():
            found.labels = found._read()
        return found

    def _read(self) -> list[Label]:
        labels: dict[tuple[str, str], Label] = {}
        for record in read_records(self.path):
            label = _label_of(record)
            if label.item_id not in self.items:
                raise record.error(
                    f"labels {label.item_id!r}, which the judged lines don't hold; name the file "
                    "that was labelled"
                )
            if (key := (label.item_id, label.annotator)) in labels:
                raise record.error(f"labels {key[0]!r} by {key[1]!r} a second time")
            if self.chances is not None:
                label = replace(label, inclusion_probability=self.chances[label.item_id])
            labels[key] = label
        return list(labels.values())

    @property
    def annotators(self) -> list[str]:
        """Who has labelled, in the order of their first label."""
        return list(dict.fromkeys(label.annotator for label in self.labels))

    def of(self, annotator: str) -> dict[str, Label]:
        """Return the labels of one annotator by item, in their order."""
        return {label.item_id: label for label in self.labels if label.annotator == annotator}

    def add(self, *labels: Label) -> None:
        """Add labels, each in place of one by the same annotator. Raises FileError."""
        new = {(label.item_id, label.annotator) for label in labels}
        with self._changing():
            kept = [each for each in self.labels if (each.item_id, each.annotator) not in new]
            self.labels = [*kept, *labels]

    def undo(self, annotator: str) -> Label | None:
        """Take the annotator's last label out; None where there is none. Raises FileError."""
        with self._changing():
            mine = [label for label in self.labels if label.annotator == annotator]
            if mine:
                self.labels.remove(mine[-1])
        return mine[-1] if mine else None

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the file alone, with the labels that others wrote, until it is written."""
        with writing(self.path), _alone(self.path):
            before, self.labels = self.labels, self._read()
            try:
                yield
                with replacing_text(self.path) as file:
                    for label in self.labels:
                        file.write(json_line(_line(label, self.items[label.item_id])))
            except BaseException:
                self.labels = before
                raise


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Wait until no other process of ours changes a file, and keep others from it."""
    while True:
        with path.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # Else who held it before put another file in its place.
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
        "annotator": label.annotator,
        "labelled_at": label.labelled_at.isoformat(timespec="seconds"),
        INCLUSION: label.inclusion_probability,
        "note": label.note,
    }


def _label_of(record: Record) -> Label:
    item_id, probability = record.identifier("id"), read_inclusion(record)
    if probability is None:
        raise record.error(f"has no {INCLUSION!r}; it is no file of `judged label`")
    return record.read(Label, item_id=item_id, inclusion_probability=probability)


def write_csv(path: Path | str, items: Sequence[Item], labels: Mapping[str, Label]) -> None:
    """Write items for a spreadsheet, with the labels that there are. Raises FileError."""
    rows: list[Sequence[str]] = [_CSV]
    for item in items:
        label = labels.get(item.item_id)
        said = "" if label is None else {True: "y", False: "n", None: "unsure"}[label.relevant]
        note = "" if label is None else label.note
        expected = "\n".join(item.expected)
        rows.append((item.item_id, item.query, expected, item.retrieved, said, note))
    with writing(path):
        write_rows(path, rows)


def read_csv(path: Path | str) -> Iterator[tuple[int, str, bool | None, str]]:
    """Yield line number, item id, label and note of the rows with a label. Raises FileError."""
    table = read_table(path, _CSV)
    missing = [column for column in ("id", "label") if column not in table.columns]
    if missing:
        problem = f"has no column {missing[0]!r}; keep the first line as it was"
        raise FileError(table.name, table.line, problem)
    for line, cells in table.rows:
        row = dict(table.row(line, cells))
        said = row["label"].strip().lower()
        if not said:
            continue
        if said not in _YES | _NO | _UNSURE:
            problem = f"has the label {row['label']!r}; write y, n or unsure"
            raise FileError(table.name, line, problem)
        relevant = None if said in _UNSURE else said in _YES
        yield line, row["id"], relevant, row.get("note", "").strip()
