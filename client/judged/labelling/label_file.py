"""Labels in a file: a line for each item and annotator, with time and inclusion probability.

The lines are those that `judged calibrate` reads. After every label the file is read again and
written whole, so that several annotators may share it, and nothing is lost when the work is
interrupted. Undo takes the last label out again.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from judged._files import FileError, Record, json_line, read_records, writing
from judged._writing import replacing_text
from judged.evaluation.datasets.tables import read_table, write_rows
from judged.evaluation.labels import INCLUSION, read_inclusion
from judged.labelling.items import Item

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
            label = _read(record)
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


def _read(record: Record) -> Label:
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
