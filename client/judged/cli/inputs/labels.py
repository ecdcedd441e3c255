"""Files of contexts that people have labelled, or of scores with labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from judged.cli.inputs.contexts import FIELDS, contexts_of
from judged.cli.inputs.lines import check_labelled, input_records, name_of
from judged.evaluation.datasets.files import FileError
from judged.evaluation.labels import read_inclusion
from judged.values import Context

LABEL = "relevant"


@dataclass(frozen=True, slots=True)
class LabelledLine:
    """One line: its contexts or its score, its label and what it belongs to, if any."""

    number: int
    contexts: Sequence[Context]
    score: float | None
    label: bool | None
    query_id: str | None
    inclusion: float | None = None


def read_labels(path: str, *, scored: bool, label_field: str = LABEL) -> list[LabelledLine]:
    """Return the lines of a file, or of standard input for "-". Raises FileError.

    Lines must hold a score when `scored`, and the texts of a context otherwise.
    """
    name = name_of(path)
    lines = []
    for at, record in input_records(path, *FIELDS, label_field, "query_id", "score"):
        label = record.optional_label(label_field)
        contexts: Sequence[Context] = ()
        score = None
        if scored:
            score = record.optional_number("score")
            if score is None:
                raise record.error("has no 'score', which --judge none reads")
            if not 0 <= score <= 1:
                raise record.error("has 'score' that is not in 0 to 1")
        else:
            contexts = contexts_of(record)
        lines.append(
            LabelledLine(
                *(at, contexts, score, label, record.optional_identifier("query_id")),
                inclusion=read_inclusion(record),
            )
        )
    if not lines:
        raise FileError(name, None, f"holds nothing; write lines with {label_field!r}")
    check_labelled(name, label_field, (line.label for line in lines))
    return lines


def cluster_of(line: LabelledLine) -> str:
    """Return the name of a line's query; empty where it has none."""
    if line.query_id is not None:
        return f"query {line.query_id}"
    return f"text {line.contexts[0].query}" if line.contexts and line.contexts[0].query else ""
