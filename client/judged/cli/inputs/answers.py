"""Files of answers: a line an answer, {item_id, query, answer, references, contexts}."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from judged import AnswerItem
from judged.cli.field_path import Place, Steps, write_path
from judged.cli.inputs.lines import check_labelled, input_records, name_of
from judged.evaluation.datasets.files import SYSTEM_MODEL, FileError

_FIELDS = (
    *("item_id", "id", "query", "answer", "other_answer", "references", "negative_references"),
    *("contexts", "sources_used", "confidence", "min_score", SYSTEM_MODEL),
)


@dataclass(frozen=True, slots=True)
class AnswerFile:
    """The answers of a file, the number of the line of each, and what no request holds.

    That is the models that lines name, the negative references of each answer, the labels of
    people, None without one, both empty where they were not asked for, and by item what its line
    says that its scores must reach.
    """

    name: str
    items: Sequence[AnswerItem]
    line_numbers: Sequence[int]
    system_models: Sequence[str] = ()
    negatives: Sequence[Sequence[str]] = ()
    labels: Sequence[bool | None] = ()
    min_scores: Mapping[str, float] = field(default_factory=dict)

    def place(self) -> Place:
        """Return what turns the path of a field into the line of the file that it came from."""

        def place(path: Steps) -> str | None:
            match path:
                case ("items", int(item), _, *_):
                    return f"{self.name}:{self.line_numbers[item]}: {write_path(path[2:])!r}"
            return None

        return place


def read_answers(
    path: str, *, with_negatives: bool = False, label_field: str | None = None
) -> AnswerFile:
    """Return the answers of a file, or of standard input for "-". Raises FileError.

    An answer without an id goes by the number of its line. With `label_field` lines have labels.
    """
    name = name_of(path)
    items: list[AnswerItem] = []
    negatives: list[Sequence[str]] = []
    line_of: dict[str, int] = {}
    models: dict[str, None] = {}
    labels: list[bool | None] = []
    min_scores: dict[str, float] = {}
    for number, line in input_records(path, *_FIELDS, *([label_field] if label_field else [])):
        item_id = line.optional_identifier("item_id", "id") or str(number)
        if item_id in line_of:
            raise line.error(
                f"item {item_id!r} was on line {line_of[item_id]} already; a line without "
                "'item_id' goes by its number, so give every line an id of its own"
            )
        against = line.texts("negative_references")
        if against and not with_negatives:
            raise line.error(
                "has 'negative_references', which no rubric reads; leave it out, or measure with "
                "judged texts -m semantic_similarity"
            )
        negatives.append(against)
        line_of[item_id] = number
        if model := line.optional_text(SYSTEM_MODEL):
            models[model] = None
        own = line.optional_number("min_score")
        if own is not None:
            if not 0 <= own <= 1:
                raise line.error("has 'min_score' that is not in 0 to 1")
            min_scores[item_id] = own
        if label_field is not None:
            labels.append(line.optional_label(label_field))
        items.append(
            AnswerItem(
                item_id,
                line.text("query"),
                line.text("answer"),
                line.texts("references"),
                line.texts("contexts"),
                line.optional_text("other_answer") or "",
                line.texts("sources_used") or (),
                line.optional_number("confidence"),
            )
        )
    if not items:
        raise FileError(name, None, "holds nothing to score; write lines of {query, answer}")
    if label_field is not None:
        check_labelled(name, label_field, labels)
    numbers = list(line_of.values())
    return AnswerFile(name, items, numbers, list(models), negatives, labels, min_scores)
