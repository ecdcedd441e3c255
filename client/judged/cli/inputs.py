"""Reads the input files of commands: answers, contexts, labels, and data sets with results.

A line of contexts is one item: a query, a retrieved text, and one or more expected texts, which
are alternatives. Each alternative is a context; the item's verdict is the best of theirs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, groupby, islice, pairwise
from pathlib import Path
from typing import Any, BinaryIO

from judged import AnswerItem, Client, Context, Judge, QueryGroup, Status, Verdicts
from judged._batching.judging import ASKING_KINDS
from judged._files import (
    SYSTEM_MODEL,
    KnownFields,
    Record,
    number_records,
    open_file,
)
from judged._views import Listed, of_all, word
from judged.cli.output import STDOUT, Output, Places, Problem
from judged.evaluation import CandidateAnswer, Dataset, FileError, Results
from judged.evaluation.datasets.dataset import FORMATS, join_results
from judged.evaluation.datasets.query import (
    Query,
    ResultFile,
    Retrieved,
    expects_something,
    join_warnings,
)
from judged.evaluation.labels import read_inclusion

_LINE = "{query, expected_text, retrieved_text}"
_CONTEXT_FIELDS = "id query expected_text expected_alternatives retrieved_text system_model"
_ANSWER_FIELDS = (
    "item_id id query answer other_answer references contexts sources_used confidence min_score "
    "system_model"
)
LABEL = "relevant"


def name_of(path: str) -> str:
    """Return the name of a file in messages."""
    return "standard input" if path == STDOUT else path


def input_records(path: str, empty: str, known: str = "") -> Iterator[Record]:
    """Yield the object of every non-blank line. Raises FileError, `empty` if there is no line.

    Warns about fields whose names are close to a `known` one.
    """
    with _opened(path) as file:
        yield from _records(file, name_of(path), empty, known)


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    if path == STDOUT:
        yield sys.stdin.buffer
    else:
        with open_file(path) as file:
            yield file


def _records(lines: Iterable[bytes], name: str, empty: str, known: str) -> Iterator[Record]:
    fields = KnownFields(*known.split())
    for record in number_records(lines, name, empty):
        fields.check(record)
        yield record


@dataclass(frozen=True, slots=True)
class AnswerLine:
    """One answer of a file, the number of its line, and what requests don't contain.

    That is the model named by the line, the human label, if requested, and the least score that
    its scores must reach.
    """

    number: int
    item: AnswerItem
    system_model: str | None
    label: bool | None
    min_score: float | None


@dataclass(frozen=True, slots=True)
class AnswerFile:
    """The answers of a file."""

    name: str
    lines: list[AnswerLine]

    @property
    def items(self) -> list[AnswerItem]:
        """The answers, as in a request."""
        return [line.item for line in self.lines]

    def places(self) -> Places:
        """Return the names of the answers' fields in messages: by their lines."""

        def place(item: str, rest: str) -> str:
            return f"{self.name}:{self.lines[int(item)].number}: {rest!r}"

        return {r"items\[(\d+)\]\.(.+)": place}


def read_answers(path: str, label_field: str | None = None) -> AnswerFile:
    """Return the answers of a file, or of standard input for "-". Raises FileError.

    The id of an answer defaults to its line number. With `label_field` some must have labels.
    """
    found = AnswerFile(name_of(path), [])
    line_of: dict[str, int | None] = {}
    empty = "holds nothing to score; write lines of {query, answer}"
    for line in input_records(path, empty, f"{_ANSWER_FIELDS} {label_field or LABEL}"):
        item_id = line.optional_identifier("item_id", "id") or str(line.line)
        line.refuse_again(
            line_of,
            item_id,
            f"item {item_id!r} was on line {{}} already; give each line its own 'item_id'",
        )
        line.text("query"), line.text("answer")  # required here, optional in AnswerItem
        item = line.read(AnswerItem, item_id=item_id)
        model = line.optional_text(SYSTEM_MODEL)
        label = None if label_field is None else line.optional_label(label_field)
        at = line.line or 0
        found.lines.append(AnswerLine(at, item, model, label, line.share("min_score")))
    if label_field is not None:
        _check_labelled(path, label_field, [line.label for line in found.lines])
    return found


def _check_labelled(path: str, field: str, labels: Sequence[bool | None]) -> None:
    if all(label is None for label in labels):
        problem = f"has no line with {field!r} true or false; label some"
        raise FileError(name_of(path), None, problem)


def read_candidates(path: str) -> list[tuple[int, CandidateAnswer]]:
    """Return the answers of a file, or of standard input for "-", with their lines.

    Without query ids, answers with equal queries belong together. Raises FileError.
    """
    empty = "has no answers; write lines of {query_id, query, system, answer}"
    found = []
    for line in input_records(path, empty, "query_id query system answer references contexts"):
        query_id = line.optional_identifier("query_id") or line.text("query")
        system = line.identifier("system")
        answer = line.read(CandidateAnswer, query_id=query_id, system=system)
        found.append((line.line or 0, answer))
    return found


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the input: its number, all its fields, and a context per expected text.

    Without an expected text, there is one context with a blank one, and `lacks` is the error.
    Labelled lines may have a label, and a score instead of texts; `query_id` is then the id of the
    query, or without one its text.
    """

    number: int
    fields: Mapping[str, Any]
    contexts: Sequence[Context]
    lacks: FileError | None = None
    score: float | None = None
    label: bool | None = None
    query_id: str | None = None
    inclusion: float | None = None


class ContextFile(Listed[Line]):
    """The lines of a file, or of standard input for "-".

    A plain file is read again at each iteration, not kept in memory. `fields` has the names of all
    fields of lines, `models` the models that lines name as the source of their texts, and `lacks`
    is the error for the first line without an expected text.
    """

    def __init__(self, path: str) -> None:
        """Read all lines once. Raises FileError."""
        self.name, self._path = name_of(path), path
        self.fields: dict[str, None] = {}
        self.models: dict[str, None] = {}
        self.n_contexts = self.n_blank = self._n = 0
        self.lacks: FileError | None = None
        self._kept: list[Line] | None = None if path != STDOUT and Path(path).is_file() else []
        line_of: dict[str, int | None] = {}
        empty = f"holds nothing to judge; write lines of {_LINE}"
        with _opened(path) as file:
            self._stamp = _stamp(file)
            for record in _records(file, self.name, empty, _CONTEXT_FIELDS):
                _refuse_again(line_of, record, "id")
                if model := record.optional_text(SYSTEM_MODEL):
                    self.models[model] = None
                line = _line(record)
                self.lacks = self.lacks or line.lacks
                self._n += 1
                self.n_contexts += len(line.contexts)
                self.n_blank += not any(c.expected_text.strip() for c in line.contexts)
                self.fields |= dict.fromkeys(line.fields)
                if self._kept is not None:
                    self._kept.append(line)

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[Line]:
        return iter(self._kept) if self._kept is not None else self._read_again()

    def _read_again(self) -> Iterator[Line]:
        with _opened(self._path) as file:
            if _stamp(file) == self._stamp:
                yield from map(_line, number_records(file, self.name))
            if _stamp(file) != self._stamp:
                raise FileError(self.name, None, "was changed while it was read; start again")

    def _item(self, index: int) -> Line:
        return next(islice(self, index, None))


def _refuse_again(line_of: dict[str, int | None], record: Record, *names: str) -> None:
    """Raise FileError for a line with the id, in one of the fields `names`, of an earlier one."""
    if (item_id := record.optional_identifier(*names)) is not None:
        again = f"has the id {item_id!r} of line {{}}; give each line its own"
        record.refuse_again(line_of, item_id, again)


def _stamp(file: BinaryIO) -> tuple[int, int, int]:
    """Return a value that changes if the file is replaced or changed."""
    found = os.fstat(file.fileno())
    return found.st_ino, found.st_size, found.st_mtime_ns


def _line(record: Record) -> Line:
    lacks = None
    if record.get("expected_text", "expected_alternatives") is None:
        lacks = record.missing(("expected_text",))
    contexts = contexts_of(record, [] if lacks is None else [""])
    return Line(record.line or 0, record.fields, contexts, lacks)


def check_expectations(out: Output, judge: Judge, lines: ContextFile, client: Client) -> None:
    """Warn of lines whose expected text is blank. Raises Problem if all are.

    Language models are exempt: their rubrics need not show expected texts. Raises FileError for a
    line without the field if the judge needs it.
    """
    if lines.lacks is not None:
        alone = [QueryGroup(retrieved=["text"])]
        if not client.estimate(alone, judge).contexts:  # judges that need none count 1
            raise lines.lacks
    n = lines.n_blank
    if not n or judge.kind in ASKING_KINDS:
        return
    problem = (
        f"{of_all(n, len(lines), 'line')} of {lines.name} {word(n, 'has', 'have')} a blank "
        "'expected_text', which only an empty text matches; write there what should be found"
    )
    if n == len(lines):
        raise Problem(problem)
    out.warn(problem)


def contexts_of(record: Record, expected: Sequence[str] = ()) -> list[Context]:
    """Return a context for each expected text of a line. Raises FileError.

    The texts are those of `expected`, else `expected_text` and the non-empty ones of
    `expected_alternatives`, each once; one of these fields is then required.
    """
    query = record.text("query")
    alternatives = expected or record.alternatives()
    retrieved = record.text("retrieved_text")
    return [Context(query, text, retrieved) for text in alternatives]


class FoldedLines(Listed[QueryGroup]):
    """The groups with the contexts of all lines, in order, made lazily.

    Consecutive lines with the same query and expected texts share a group. A line is never split,
    nor are its expected texts merged with another line's: some judges see all of them at once.
    """

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines

    def __len__(self) -> int:
        return sum(1 for _ in self._runs())

    def __iter__(self) -> Iterator[QueryGroup]:
        for (query, expected), run in self._runs():
            yield QueryGroup(
                query, list(expected), [line.contexts[0].retrieved_text for line in run]
            )

    def _item(self, index: int) -> QueryGroup:
        return next(islice(self, index, None))

    def _runs(self) -> Iterator[tuple[tuple[str, tuple[str, ...]], Iterator[Line]]]:
        return groupby(self._lines, key=_expectation)

    def places(self, name: str) -> Places:
        """Return the names of the groups' fields in messages: by their lines."""

        def place(group: str, side: str, text: str | None) -> str:
            _, run = next(islice(self._runs(), int(group), None))
            line = next(islice(run, int(text or 0) if side == "retrieved" else 0, None))
            what = "query" if side == "query" else f"{side}_text"
            return f"{name}:{line.number}: {what!r}"

        return {r"groups\[(\d+)\]\.(query|expected|retrieved)(?:\[(\d+)\])?": place}


def _expectation(line: Line) -> tuple[str, tuple[str, ...]]:
    return line.contexts[0].query, tuple(context.expected_text for context in line.contexts)


def of_lines(lines: Sequence[Line], verdicts: Verdicts) -> Verdicts:
    """Return one verdict per line, the best of its contexts.

    That is the relevant one with the highest score; else a missing one, since it might have been
    relevant; else the one with the highest score.
    """
    if len(verdicts) == len(lines):
        return verdicts
    ends = accumulate((len(line.contexts) for line in lines), initial=0)
    worth = partial(_worth, verdicts)
    best = [verdicts[max(range(start, end), key=worth)] for start, end in pairwise(ends)]
    return Verdicts.of(best, range(len(best) + 1), verdicts.judge, verdicts.usage)


def _worth(verdicts: Verdicts, index: int) -> tuple[int, float]:
    if verdicts.status[index] != Status.OK:
        return 1, 0.0
    return 2 if verdicts.relevant[index] else 0, verdicts.score[index]


def read_labels(path: str, *, scored: bool, label_field: str = LABEL) -> list[Line]:
    """Return the lines of a file, or of standard input for "-". Raises FileError.

    With `scored`, lines must have a score, else the texts of a context.
    """
    lines: list[Line] = []
    line_of: dict[str, int | None] = {}
    known = f"{_CONTEXT_FIELDS} {label_field} query_id score"
    for record in input_records(path, f"holds nothing; write lines with {label_field!r}", known):
        _refuse_again(line_of, record, "id", *(["item_id"] if scored else ()))
        label = record.optional_label(label_field)
        score = record.share("score") if scored else None
        if scored and score is None:
            raise record.error("has no 'score', which --judge none reads")
        contexts = () if scored else contexts_of(record)
        query_id = record.optional_identifier("query_id") or record.optional_text("query")
        first = lines[0].inclusion is not None if lines else None
        inclusion = read_inclusion(record, first=first)
        at = record.line or 0
        lines.append(Line(at, {}, contexts, None, score, label, query_id, inclusion))
    _check_labelled(path, label_field, [line.label for line in lines])
    return lines


def cluster_of(line: Line) -> str:
    """Return the cluster of a line: its query, else its number."""
    return line.query_id or f"line {line.number}"


def _dataset_of(path: str) -> Dataset:
    """Return a data set in the format that its name ends in, else in JSON. Raises FileError."""
    suffix = Path(path).suffix.removeprefix(".").lower()
    named = Path(path).is_dir() or any(suffix in of.suffixes for of in FORMATS.values())
    return Dataset.load(path, None if named else "json")


class ReadQueries:
    """The queries of a data set with their results; iterates over their groups.

    A file of results is read at each iteration; other results are kept in memory.
    """

    def __init__(self, dataset: str, results: str, *, by_spans: bool | None) -> None:
        """Check both files; `by_spans` as in `Dataset.to_groups`. Raises FileError, MissingText."""
        self._dataset, self._by_spans = _dataset_of(dataset), by_spans
        if not any(map(expects_something, self._dataset.queries)):
            raise FileError(
                dataset,
                None,
                "no query says what it should find; give queries "
                "'expected_answers', 'expected_doc_ids' or 'expected_spans'",
            )
        self._results = (
            ResultFile(results) if Path(results).is_file() else Results.from_jsonl(results)
        )
        self.system_models = self._results.system_models
        self.n_contexts = sum(group.n_expected * group.n_retrieved for group in self)

    def __iter__(self) -> Iterator[QueryGroup]:
        return (group for _, group, _ in self.queries())

    def queries(self) -> Iterator[tuple[Query, QueryGroup, Sequence[Retrieved]]]:
        """Yield every query with its group and its results."""
        return join_results(self._dataset, self._results, by_spans=self._by_spans)

    def query_id(self, index: int) -> str:
        """Return the query id of the group at an index; groups of negatives are at the end."""
        queries = self._dataset.queries
        return [*queries, *(q for q in queries if q.negative_answers)][index].query_id

    def warnings(self) -> Iterator[str]:
        """Yield where queries and results do not match. Raises InvalidArgument if none does."""
        return join_warnings(self._dataset.queries, self._results)

    def places(self) -> Places:
        """Return the names of the groups' fields in messages: by their queries."""

        def place(group: str, side: str, text: str) -> str:
            what = "result" if side == "retrieved" else "expected answer"
            return f"query {self.query_id(int(group))!r}, {what} {int(text) + 1}"

        return {r"groups\[(\d+)\]\.(expected|retrieved)\[(\d+)\].*": place}
