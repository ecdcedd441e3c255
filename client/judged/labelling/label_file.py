"""Labels in a file: a line for each item and annotator, with time and inclusion probability.

The lines are those that `judged calibrate` reads. The file is written whole after every label, so
that nothing is lost when the work is interrupted, and undo takes the last label out again.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from judged.evaluation.datasets.files import FileError, Record, open_file, read_records, writing
from judged.evaluation.datasets.formats.content import json_line
from judged.evaluation.datasets.formats.tables import cells_of_any_length
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
    """The labels of a file, in the order in which they were given."""

    path: Path
    items: Mapping[str, Item]
    labels: list[Label] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path | str, items: Sequence[Item]) -> LabelFile:
        """Return the labels of a file, none without one.

        Raises FileError for a label of an item that is not among those given, or that its annotator
        labelled twice.
        """
        found = cls(Path(path), {item.item_id: item for item in items})
        if not found.path.exists():
            return found
        seen: set[tuple[str, str]] = set()
        for _, record in read_records(path):
            label = _read(record)
            if label.item_id not in found.items:
                raise record.error(
                    f"labels {label.item_id!r}, which the judged lines don't hold; name the file "
                    "that was labelled"
                )
            if (key := (label.item_id, label.annotator)) in seen:
                raise record.error(f"labels {key[0]!r} by {key[1]!r} a second time")
            seen.add(key)
            found.labels.append(label)
        return found

    @property
    def annotators(self) -> list[str]:
        """Who has labelled, in the order of their first label."""
        return list(dict.fromkeys(label.annotator for label in self.labels))

    def of(self, annotator: str) -> dict[str, Label]:
        """Return the labels of one annotator by item, in their order."""
        return {label.item_id: label for label in self.labels if label.annotator == annotator}

    def add(self, label: Label) -> None:
        """Add a label, and write the file. Raises FileError."""
        self.labels.append(label)
        self.write()

    def undo(self, annotator: str) -> Label | None:
        """Take the annotator's last label out, and write the file; None where there is none."""
        for place in range(len(self.labels) - 1, -1, -1):
            if self.labels[place].annotator == annotator:
                label = self.labels.pop(place)
                self.write()
                return label
        return None

    def write(self) -> None:
        """Write all labels. Raises FileError."""
        beside = self.path.with_name(self.path.name + ".new")
        with writing(self.path):
            with beside.open("w", encoding="utf-8") as file:
                for label in self.labels:
                    file.write(json_line(_line(label, self.items[label.item_id])))
            beside.replace(self.path)


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
    relevant = record.optional_bool("relevant")
    probability = read_inclusion(record)
    if probability is None:
        raise record.error(f"has no {INCLUSION!r}; it is no file of `judged label`")
    try:
        at = datetime.fromisoformat(record.text("labelled_at"))
    except ValueError:
        raise record.error("has 'labelled_at' that is no time") from None
    return Label(
        record.identifier("id"),
        record.text("annotator"),
        relevant,
        at,
        probability,
        record.optional_text("note") or "",
    )


def write_csv(path: Path | str, items: Sequence[Item], labels: Mapping[str, Label]) -> None:
    """Write items for a spreadsheet, with the labels that there are. Raises FileError."""
    with writing(path), Path(path).open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(_CSV)
        for item in items:
            label = labels.get(item.item_id)
            said = "" if label is None else {True: "y", False: "n", None: "unsure"}[label.relevant]
            note = "" if label is None else label.note
            expected = "\n".join(item.expected)
            rows.writerow([item.item_id, item.query, expected, item.retrieved, said, note])


def read_csv(path: Path | str) -> Iterator[tuple[int, str, bool | None, str]]:
    """Yield line number, item id, label and note of the rows with a label. Raises FileError.

    Columns are divided by commas, or as spreadsheets of some countries do it: semicolons, tabs.
    """
    name = str(path)
    with open_file(path) as file:
        text = file.read().decode("utf-8-sig", "replace")
    divider = max(",;\t", key=text.partition("\n")[0].count)
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=divider)
    with cells_of_any_length(text):
        columns = rows.fieldnames or ()
        read = [(rows.line_num, row) for row in rows]
    missing = [column for column in ("id", "label") if column not in columns]
    if missing:
        raise FileError(name, 1, f"has no column {missing[0]!r}; keep the first line as it was")
    for line, row in read:
        said = (row["label"] or "").strip().lower()
        if not said:
            continue
        if said not in _YES | _NO | _UNSURE:
            raise FileError(name, line, f"has the label {row['label']!r}; write y, n or unsure")
        relevant = None if said in _UNSURE else said in _YES
        yield line, row["id"], relevant, (row.get("note") or "").strip()
