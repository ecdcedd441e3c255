"""Queries with expectations, results of a retriever, and whether the two match."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from io import BytesIO
from itertools import pairwise
from math import isfinite, nan
from pathlib import Path
from typing import Any, NamedTuple

from judged._files import (
    SYSTEM_MODEL,
    FileError,
    KnownFields,
    Record,
    json_line,
    number_records,
    open_file,
    replacing_text,
    writing,
)
from judged._inputs import (
    Given,
    all_texts,
    as_id,
    need_by_ids,
    need_id,
    need_list,
    set_fields,
    set_grades,
)
from judged._views import of_all, plain, short_repr, word
from judged.errors import InvalidArgument, WrongType
from judged.evaluation.datasets.trec import TrecRun, single
from judged.values import Span

_RETRIEVED = "Retrieved(doc_id, score, text)"


@dataclass(frozen=True, slots=True)
class Retrieved:
    """One retrieved document. Without an id, its rank names it; without a text, its id.

    An id is text or a whole number, compared as text.
    """

    doc_id: str | None = None
    score: float | None = None
    text: str | None = None
    span: Span | None = None

    def __post_init__(self) -> None:
        if self.doc_id is not None and type(self.doc_id) is not str:
            set_fields(self, doc_id=need_id(self.doc_id, "doc_id"))
        if not isinstance(self.text, str | None):
            raise WrongType.of_field("text", f"must be text, not {type(self.text).__name__}")
        if self.score is not None:
            score = float(self.score) if hasattr(type(self.score), "__float__") else nan
            if not isfinite(score):
                rule = f"must be a finite number or None, not {self.score!r:.80}"
                raise InvalidArgument.of_field("score", rule)
            set_fields(self, score=score)


@dataclass(frozen=True, slots=True, repr=False)
class Results(Mapping[str, Sequence[Retrieved]]):
    """The results of queries by query id, best rank first.

    `out_of_order` are the queries whose scores rise with rank somewhere. Scores serve only to find
    these: the given order is the ranking. `system_models` are the language models that made the
    texts, as lines name them. `warnings` are those of a TREC run; see TrecRun.
    """

    by_query: Mapping[str, Sequence[Retrieved]]
    out_of_order: Sequence[str] = ()
    system_models: Sequence[str] = ()
    warnings: Sequence[str] = ()

    def __post_init__(self) -> None:
        by_query = {
            query_id: need_list(ranked, f"results[{query_id!r}]", _RETRIEVED)
            for query_id, ranked in need_by_ids(self.by_query, "results").items()
        }
        set_fields(self, by_query=by_query)

    def __repr__(self) -> str:
        return short_repr(self)

    def __getitem__(self, query_id: str) -> Sequence[Retrieved]:
        return self.by_query[as_id(query_id)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_query)

    def __len__(self) -> int:
        return len(self.by_query)

    @classmethod
    def of(cls, by_query: Mapping[str, Sequence[Retrieved]]) -> Results:
        """Return results that were retrieved in this process."""
        if isinstance(by_query, cls):
            return by_query
        found = cls(by_query)
        for query_id, ranked in found.items():
            for each in ranked:
                if not isinstance(each, Retrieved):
                    rule = f"must hold {_RETRIEVED}, not {type(each).__name__}"
                    raise WrongType.of_field(f"results[{query_id!r}]", rule)
        return cls(found.by_query, [q for q, ranked in found.items() if not scores_fall(ranked)])

    @classmethod
    def from_jsonl(cls, path: Path | str) -> Results:
        """Return the results of a file. Raises FileError."""
        with open_file(path) as file:
            lines = list(_read_lines(file, str(path), _known()))
        found = cls.of({line.query_id: line.results for line in lines})
        models = dict.fromkeys(line.system_model for line in lines if line.system_model)
        return replace(found, system_models=list(models))

    @classmethod
    def from_trec_run(cls, path: Path | str) -> Results:
        """Return the results of a TREC run, ranked as trec_eval does: by score, ties by id.

        Scores that are equal in single precision tie; `warnings` say where scores and rank column
        differ. The results have no texts: match them by id, or give the data set documents. Raises
        FileError.
        """
        run = TrecRun.from_file(path)
        by_query = {
            topic: [
                Retrieved(document, score)
                for document, score in sorted(
                    scores.items(),
                    key=lambda item: (single(item[1]), item[0].encode()),
                    reverse=True,
                )
            ]
            for topic, scores in run.scores.items()
        }
        return cls(by_query, warnings=run.warnings)

    def save(self, path: Path | str) -> None:
        """Write the results as lines of JSON. Raises FileError."""
        with writing(path), replacing_text(path) as file:
            for query_id, ranked in self.by_query.items():
                file.write(json_line({"query_id": query_id, "results": list(map(_write, ranked))}))


class ResultFile(Mapping[str, Sequence[Retrieved]]):
    """The results of a file by query id; each line is read again when it is accessed.

    Only ids are kept in memory. The file must be a regular one, which can be read at any offset.
    `out_of_order` and `system_models` are those of `Results`.
    """

    def __init__(self, path: Path | str) -> None:
        """Read all lines once. Raises FileError."""
        self._name, self._known = str(path), _known()
        self._places: dict[str, tuple[int, int]] = {}
        self.out_of_order: list[str] = []
        models: dict[str, None] = {}
        with open_file(path) as file:
            self._descriptor = os.dup(file.fileno())
            weakref.finalize(self, os.close, self._descriptor)
            start = 0
            for line in _read_lines(file, self._name, self._known):
                end = file.tell()
                self._places[line.query_id], start = (end - start, start), end
                if not scores_fall(line.results):
                    self.out_of_order.append(line.query_id)
                if line.system_model:
                    models[line.system_model] = None
        self.system_models = list(models)

    def __getitem__(self, query_id: str) -> Sequence[Retrieved]:
        read = os.pread(self._descriptor, *self._places[query_id])
        line = next(_read_lines(BytesIO(read), self._name, self._known), None)
        if line is None or line.query_id != query_id:
            raise FileError(self._name, None, "was changed while it was read; start again")
        return line.results

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class _Line(NamedTuple):
    query_id: str
    results: Sequence[Retrieved]
    system_model: str | None


def _known() -> tuple[KnownFields, KnownFields]:
    """Return the known fields of lines and of their results, to warn once of similar names."""
    of_result = KnownFields("doc_id", "id", "score", "text", "span", "metadata")
    return KnownFields("query_id", "id", "results", SYSTEM_MODEL), of_result


def _read_lines(
    lines: Iterable[bytes], name: str, known: tuple[KnownFields, KnownFields]
) -> Iterator[_Line]:
    """Yield the lines of a file that are not blank. Raises FileError, also for a repeated query."""
    of_line, of_result = known
    line_of: dict[str, int | None] = {}
    for record in number_records(lines, name):
        of_line.check(record)
        query_id = record.identifier("query_id", "id")
        record.refuse_again(line_of, query_id, f"query {query_id!r} was on line {{}} already")
        if record.get("results") is None:
            raise record.error('has no "results"; write [] for a query that found nothing')
        model = record.optional_text(SYSTEM_MODEL)
        results = [_read(inner, of_result) for inner in record.records("results")]
        yield _Line(query_id, results, model)


def read_span(record: Record) -> Span:
    """Return a span of a file: characters from `start` up to but excluding `end`.

    The names `filename`, `start_char_offset` and `end_char_offset` are read too.
    """
    start = record.position("start", "start_char_offset")
    end = record.position("end", "end_char_offset")
    if end <= start:
        raise record.error(f"has 'end' {end}, which is not above 'start' {start}")
    return Span(record.text("file", "filename"), start, end)


def _read(record: Record, known: KnownFields) -> Retrieved:
    known.check(record)
    span, metadata = record.record("span"), record.record("metadata")
    inner = None if metadata is None else metadata.optional_text("text")
    text = record.optional_text("text")
    return Retrieved(
        record.optional_identifier("doc_id", "id"),
        record.optional_number("score"),
        inner if text is None else text,
        None if span is None else read_span(span),
    )


def _write(result: Retrieved) -> dict[str, object]:
    return {name: value for name, value in asdict(result).items() if value is not None}


def scores_fall(ranked: Sequence[Retrieved]) -> bool:
    """Return whether scores never rise with rank; results without a score are skipped."""
    scores = [result.score for result in ranked if result.score is not None]
    return all(earlier >= later for earlier, later in pairwise(scores))


IDS = ("expected_doc_ids", "relevant_doc_ids", "relevant_docs")
EXPECTATIONS = (
    "expected_answers",
    "expected_text",
    "expected_alternatives",
    *IDS,
    "doc_grades",
    "expected_spans",
)
QUERY_FIELDS = (
    "query_id",
    "id",
    "query_text",
    "query",
    *EXPECTATIONS,
    "negative_answers",
    "metadata",
)
_WRITTEN = {
    "query_id": "query_id",
    "query_text": "text",
    "expected_answers": "expected_answers",
    "expected_doc_ids": "relevant_document_ids",
    "doc_grades": "grades",
    "expected_spans": "expected_spans",
    "negative_answers": "negative_answers",
    "metadata": "metadata",
}
"""The fields that are written, with the attributes of a query."""
DOCUMENT_FIELDS = ("doc_id", "id", "text", "metadata")


@dataclass(frozen=True, slots=True)
class Query(Given):
    """One query and what should be found for it: answers, spans of files, or document ids.

    With ids, results are matched by id and never judged, and answers and spans are ignored. Ids are
    text or whole numbers, compared as text. Negative answers are those that should not be found.
    `grades` maps document ids to grades, 0 for documents judged not relevant, for metrics that
    weigh gains, such as ndcg; the relevant ids are then those with a grade above 0. Repeated and
    blank answers are dropped.
    """

    query_id: str
    text: str
    expected_answers: Sequence[str] = ()
    relevant_document_ids: Sequence[str] = ()
    expected_spans: Sequence[Span] = ()
    negative_answers: Sequence[str] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    grades: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Given.__post_init__(self)
        set_grades(self)
        for name in ("expected_answers", "negative_answers"):
            texts = getattr(self, name)  # other values are refused when they are sent
            if all_texts(texts) and len(kept := distinct(texts)) < len(texts):
                set_fields(self, **{name: kept})

    @property
    def by_id(self) -> bool:
        """Whether results are matched by document id, not judged."""
        return bool(self.relevant_document_ids or self.grades)

    @property
    def judged_documents(self) -> Mapping[str, int]:
        """The grades of all judged documents, by id: 1 for relevant ones without grades."""
        return self.grades or dict.fromkeys(self.relevant_document_ids, 1)


@dataclass(frozen=True, slots=True)
class Document(Given):
    """A document of the data set."""

    doc_id: str
    text: str
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class Content:
    """Queries and documents by id, as they are read. `problems`, if given, collects errors.

    `places` has the place of each query in its file.
    """

    queries: dict[str, Query] = field(default_factory=dict)
    documents: dict[str, Document] = field(default_factory=dict)
    problems: list[FileError] | None = None
    places: dict[str, str] = field(default_factory=dict)

    def take(self, record: Record, read: Callable[[Record], Query | Document | None]) -> None:
        """Read a record and add its item. Raises FileError, also for a repeated id."""
        try:
            if (item := read(record)) is not None:
                self.add(record, item)
        except FileError as error:
            self.refuse(error)

    def add(self, record: Record, item: Query | Document) -> None:
        """Add what was read from a record. Raises FileError for a repeated id."""
        first: Query | Document
        if isinstance(item, Document):
            name, what = item.doc_id, "id {!r} of an earlier document"
            first = self.documents.setdefault(name, item)
        else:
            name, what = item.query_id, "query_id {!r} of an earlier query"
            first = self.queries.setdefault(name, item)
            self.places.setdefault(name, record.place)
        if first is not item:
            raise record.error(f"has the {what.format(name)}")

    def refuse(self, error: FileError) -> None:
        """Add an error to `problems` if these are collected; else raise it."""
        if self.problems is None:
            raise error
        self.problems.append(error)


def read_query(record: Record) -> Query:
    """Return the query of an object. Raises FileError."""
    first = record.optional_text("expected_text")
    answers = [
        *record.texts("expected_answers"),
        *([] if first is None else [first]),
        *record.texts("expected_alternatives"),
    ]
    negatives = record.texts("negative_answers")
    ids = [name for field in IDS for name in record.identifiers(field)]
    try:
        return Query(
            query_id=record.identifier("query_id", "id"),
            text=record.text("query_text", "query"),
            expected_answers=answers,
            relevant_document_ids=distinct(ids),
            expected_spans=tuple(dict.fromkeys(map(read_span, record.records("expected_spans")))),
            negative_answers=tuple(negatives),
            metadata=record.labels("metadata"),
            grades=record.fields_of("doc_grades"),
        )
    except InvalidArgument as error:
        raise record.error(f"has 'doc_grades' that can't be: {error.message}") from None


def distinct(texts: Sequence[str]) -> list[str]:
    """Return texts, each once, without blank ones."""
    return [text for text in dict.fromkeys(texts) if text.strip()]


def expects_something(query: Query) -> bool:
    """Return whether a query has anything that should be found, or should not."""
    expected = query.expected_answers or query.by_id or query.expected_spans
    return bool(expected or query.negative_answers)


def read_document(record: Record) -> Document:
    """Return the document of an object. Raises FileError."""
    name, text = record.identifier("doc_id", "id"), record.text("text")
    return Document(name, text, record.fields_of("metadata"))


def write_query(query: Query) -> dict[str, Any]:
    """Return the JSON object of a query, without empty fields."""
    fields = {name: plain(getattr(query, of)) for name, of in _WRITTEN.items()}
    return {name: value for name, value in fields.items() if value or name[:5] == "query"}


def write_document(document: Document) -> dict[str, Any]:
    """Return the JSON object of a document."""
    fields = {"doc_id": document.doc_id, "text": document.text}
    return {**fields, "metadata": dict(document.metadata)} if document.metadata else fields


def join_warnings(queries: Iterable[Query], results: Results | ResultFile) -> Iterator[str]:
    """Yield a warning for each way in which queries and results do not match.

    Raises InvalidArgument if no query has results.
    """
    known, found = dict.fromkeys(query.query_id for query in queries), set(results)
    missing = [query_id for query_id in known if query_id not in found]
    unknown = [query_id for query_id in results if query_id not in known]
    if not found:
        rule = "the results hold no query; write a line for each query of the dataset"
        raise InvalidArgument.of_field("results", rule)
    if len(missing) == len(known):
        raise InvalidArgument.of_field(
            "results",
            f"no query of the results is in the dataset: {unknown[0]!r} is one of the results, "
            f"{missing[0]!r} one of the dataset; check that they belong together",
        )
    if n := len(missing):
        yield (
            f"{of_all(n, len(known), 'query', 'queries')} {word(n, 'has', 'have')} no results and "
            f"{word(n, 'counts', 'count')} as having found nothing, for example {missing[0]!r}"
        )
    if n := len(unknown):
        yield (
            f"{of_all(n, len(found), 'query', 'queries')} of the results {word(n, 'is', 'are')} "
            f"not in the data set and left out, for example {unknown[0]!r}"
        )
    yield from order_warnings(results.out_of_order, len(found))


def order_warnings(out_of_order: Sequence[str], total: int) -> Iterator[str]:
    """Yield a warning if some of the queries have scores that rise with rank."""
    if n := len(out_of_order):
        yield (
            f"{of_all(n, total, 'query', 'queries')} of the results {word(n, 'has', 'have')} "
            f"scores that rise with rank, for example {out_of_order[0]!r}; the given order is the "
            "ranking"
        )
