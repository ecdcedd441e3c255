"""Queries with what they should find, and whether what was retrieved fits them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judged._files import FileError, Record
from judged._inputs import Given, set_grades
from judged._views import of_all, plain, word
from judged.errors import InvalidArgument
from judged.evaluation.datasets.results import read_span
from judged.values import Span

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
"""The fields that are written, and what a query has in them."""
DOCUMENT_FIELDS = ("doc_id", "id", "text", "metadata")


@dataclass(frozen=True, slots=True)
class Query(Given):
    """One query and what should be found for it: answers, spans of files, or document ids.

    With ids, results are matched by id and never judged; answers and spans are then left aside.
    Ids are text or whole numbers, compared as text.
    Negative answers are those that should not be found. `grades` of documents by their ids, 0 for
    those that were judged not relevant, say more than the ids of the relevant ones, which are then
    those with a grade above 0; metrics that weigh gains, such as ndcg, take them.
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

    @property
    def by_id(self) -> bool:
        """Whether results are matched by document id, and not judged."""
        return bool(self.relevant_document_ids or self.grades)

    @property
    def judged_documents(self) -> Mapping[str, int]:
        """The grades of all documents that were judged, by their ids: 1 where none is given."""
        return self.grades or dict.fromkeys(self.relevant_document_ids, 1)


@dataclass(frozen=True, slots=True)
class Document(Given):
    """One document that may be retrieved."""

    doc_id: str
    text: str
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class Content:
    """Queries and documents by id, as they are read. `problems`, if given, takes what is wrong.

    `places` says where each query stands.
    """

    queries: dict[str, Query] = field(default_factory=dict)
    documents: dict[str, Document] = field(default_factory=dict)
    problems: list[FileError] | None = None
    places: dict[str, str] = field(default_factory=dict)

    def take(self, record: Record, read: Callable[[Record], Query | Document | None]) -> None:
        """Take what a record holds. Raises FileError, also for an id that is there already."""
        try:
            if (item := read(record)) is not None:
                self.add(record, item)
        except FileError as error:
            self.refuse(error)

    def add(self, record: Record, item: Query | Document) -> None:
        """Take what was read from a record. Raises FileError for an id that is there already."""
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
        """Keep a problem where they are collected, else raise it."""
        if self.problems is None:
            raise error
        self.problems.append(error)


def read_query(record: Record) -> Query:
    """Return the query of an object. Raises FileError."""
    answers = record.texts("expected_answers")
    if not answers:
        first = record.optional_text("expected_text")
        answers = [*([] if first is None else [first]), *record.texts("expected_alternatives")]
    negatives = record.texts("negative_answers")
    ids = record.identifiers(*IDS)
    try:
        return Query(
            query_id=record.identifier("query_id", "id"),
            text=record.text("query_text", "query"),
            expected_answers=_distinct(answers),
            relevant_document_ids=_distinct(ids),
            expected_spans=tuple(dict.fromkeys(map(read_span, record.records("expected_spans")))),
            negative_answers=tuple(_distinct(negatives)),
            metadata=record.labels("metadata"),
            grades=record.fields_of("doc_grades"),
        )
    except InvalidArgument as error:
        raise record.error(f"has 'doc_grades' that can't be: {error.message}") from None


def _distinct(texts: Sequence[str]) -> list[str]:
    return [text for text in dict.fromkeys(texts) if text.strip()]


def expects_something(query: Query) -> bool:
    """Say whether a query says what should be found for it, or what should not."""
    expected = query.expected_answers or query.by_id or query.expected_spans
    return bool(expected or query.negative_answers)


def read_document(record: Record) -> Document:
    """Return the document of an object. Raises FileError."""
    name, text = record.identifier("doc_id", "id"), record.text("text")
    return Document(name, text, record.fields_of("metadata"))


def write_query(query: Query) -> dict[str, Any]:
    """Return the object of a query, without what it does not have."""
    fields = {name: plain(getattr(query, held)) for name, held in _WRITTEN.items()}
    return {name: value for name, value in fields.items() if value or name[:5] == "query"}


def write_document(document: Document) -> dict[str, Any]:
    """Return the object of a document."""
    fields = {"doc_id": document.doc_id, "text": document.text}
    return {**fields, "metadata": dict(document.metadata)} if document.metadata else fields


@dataclass(frozen=True, slots=True)
class Fit:
    """How the queries of a data set and those of results fit each other.

    `missing` are the queries without results, `unknown` those of results for no query of the data
    set, `rising` those whose scores rise with rank.
    """

    n_queries: int
    n_results: int
    missing: Sequence[str]
    unknown: Sequence[str]
    rising: Sequence[str]

    @classmethod
    def of(cls, query_ids: Collection[str], results: Collection[str], rising: Iterable[str]) -> Fit:
        """Return how ids of queries fit those of results, of which some have scores that rise."""
        known, found = set(query_ids), set(results)
        missing = [query_id for query_id in query_ids if query_id not in found]
        unknown = [query_id for query_id in results if query_id not in known]
        return cls(len(query_ids), len(results), missing, unknown, list(rising))

    @property
    def problem(self) -> str:
        """Why nothing can be measured; "" where any query has results."""
        if not self.n_results:
            return "the results hold no query; write a line for each query of the dataset"
        if len(self.missing) < self.n_queries:
            return ""
        return (
            f"no query of the results is in the dataset: {self.unknown[0]!r} is one of the "
            f"results, {self.missing[0]!r} one of the dataset; check that they belong together"
        )

    def warnings(self) -> Iterator[str]:
        """Yield where the two do not fit."""
        if n := len(self.missing):
            yield (
                f"{of_all(n, self.n_queries, 'query', 'queries')} {word(n, 'has', 'have')} no "
                f"results and {word(n, 'counts', 'count')} as having found nothing, for example "
                f"{self.missing[0]!r}"
            )
        if n := len(self.unknown):
            yield (
                f"{of_all(n, self.n_results, 'query', 'queries')} of the results "
                f"{word(n, 'is', 'are')} not in the data set and left out, for example "
                f"{self.unknown[0]!r}"
            )
        if n := len(self.rising):
            yield (
                f"{of_all(n, self.n_results, 'query', 'queries')} of the results "
                f"{word(n, 'has', 'have')} scores that rise with rank, for example "
                f"{self.rising[0]!r}; the given order is the ranking"
            )
