"""Queries with what they should find, and how they meet what was retrieved.

What is done with the groups is up to `evaluator`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from judged._inputs import (
    need_by_ids,
    need_each,
    need_id,
    need_ids,
    need_text,
    need_texts,
    set_fields,
)
from judged._views import View
from judged.evaluation.datasets.files import FileError, KnownFields, Record, parse_json, read_bytes
from judged.evaluation.datasets.results import Results, Retrieved, read_span
from judged.types import QueryGroup, Span, Spans

_SHAPE = 'a data set is {"queries": [{"query_id", "query_text", "expected_answers"}, ...]}'


_QUERY_FIELDS = (
    "query_id",
    "id",
    "query_text",
    "query",
    "expected_answers",
    "expected_text",
    "expected_alternatives",
    "expected_doc_ids",
    "relevant_doc_ids",
    "relevant_docs",
    "expected_spans",
    "negative_answers",
    "metadata",
)


class MissingText(ValueError):
    """A result has no text or span to judge, or no id to match; the message names its place."""


@dataclass(frozen=True, slots=True)
class Query:
    """One query and what should be found for it: answers, spans of files, or document ids.

    With ids, results are matched by id and never judged; answers and spans are then left aside.
    Ids are text or whole numbers, compared as text.
    Negative answers are those that should not be found.
    """

    query_id: str
    text: str
    expected_answers: Sequence[str] = ()
    relevant_document_ids: Sequence[str] = ()
    expected_spans: Sequence[Span] = ()
    negative_answers: Sequence[str] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        set_fields(
            self,
            query_id=need_id(self.query_id, "query_id"),
            text=need_text(self.text, "text"),
            expected_answers=need_texts(self.expected_answers, "expected_answers"),
            relevant_document_ids=need_ids(self.relevant_document_ids, "relevant_document_ids"),
            expected_spans=need_each(self.expected_spans, "expected_spans", (Span,), "Span"),
            negative_answers=need_texts(self.negative_answers, "negative_answers"),
        )


@dataclass(frozen=True, slots=True)
class Document:
    """One document that may be retrieved."""

    doc_id: str
    text: str
    metadata: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        set_fields(self, doc_id=need_id(self.doc_id, "doc_id"), text=need_text(self.text, "text"))


@dataclass(frozen=True, slots=True, repr=False)
class Dataset(View):
    """Queries, and documents by id. Documents fill in results that come without text."""

    queries: Sequence[Query]
    documents: Mapping[str, Document] = field(default_factory=dict)

    def __post_init__(self) -> None:
        queries = need_each(self.queries, "queries", (Query,), "Query")
        set_fields(self, queries=queries, documents=need_by_ids(self.documents, "documents"))

    @classmethod
    def from_json(cls, path: Path | str) -> Dataset:
        """Return the dataset of a file in Evret's layout. Raises FileError.

            {"queries": [{"query_id", "query_text", "expected_answers", "expected_doc_ids",
                          "expected_spans": [{"file", "start", "end"}], "negative_answers",
                          "metadata"}],
             "documents": [{"doc_id", "text", "metadata"}]}

        Also read are "id" and "query"; "expected_text" and "expected_alternatives" where there are
        no "expected_answers"; "relevant_doc_ids" or "relevant_docs" for the ids. Other fields are
        passed over, and so are lists and objects in a query's metadata. Of answers, ids and spans
        that repeat the first counts, blank ones do not.
        """
        name = str(path)
        content = read_bytes(path)
        if not content.strip():
            raise FileError(name, None, f"is empty; {_SHAPE}")
        root = Record(parse_json(content, name, None), name, None, "")
        if root.get("queries") is None:
            raise root.error(f'has no "queries"; {_SHAPE}')
        queries: dict[str, Query] = {}
        KnownFields("queries", "documents").check(root)
        known, inner = KnownFields(*_QUERY_FIELDS), KnownFields("doc_id", "id", "text", "metadata")
        for index, value in enumerate(root.items("queries")):
            query = _read_query(record := Record(value, name, None, f"queries[{index}]"))
            known.check(record)
            if query.query_id in queries:
                raise record.error(f"has the query_id {query.query_id!r} of an earlier query")
            queries[query.query_id] = query
        documents: dict[str, Document] = {}
        for index, value in enumerate(root.items("documents")):
            document = _read_document(record := Record(value, name, None, f"documents[{index}]"))
            inner.check(record)
            if document.doc_id in documents:
                raise record.error(f"has the doc_id {document.doc_id!r} of an earlier document")
            documents[document.doc_id] = document
        if not queries:
            raise root.error(f"has no query; {_SHAPE}")
        return cls(list(queries.values()), documents)

    def to_groups(
        self, results: Mapping[str, Sequence[Retrieved]], *, by_spans: bool | None = None
    ) -> list[QueryGroup]:
        """Return one group a query, in order; a query without results retrieved nothing.

        With `by_spans` groups bring spans, without it texts; None takes what the data set has, and
        texts where it has both. Raises MissingText for a result that can't be judged or matched.
        """
        if by_spans is None:
            by_spans = not any(query.expected_answers for query in self.queries)
            by_spans = by_spans and any(query.expected_spans for query in self.queries)
        ranked = Results.of(results)
        return [
            self._group(query, ranked.get(query.query_id, ()), by_spans) for query in self.queries
        ]

    def _group(self, query: Query, ranked: Sequence[Retrieved], by_spans: bool) -> QueryGroup:
        by_id = bool(query.relevant_document_ids)
        by_spans = by_spans and not by_id
        return QueryGroup(
            query=query.text,
            expected=() if by_id or by_spans else query.expected_answers,
            retrieved=()
            if by_spans
            else [
                self._text(query, rank, result, needed=not by_id)
                for rank, result in enumerate(ranked)
            ],
            query_id=query.query_id,
            document_ids=[
                _identify(query, rank, result, needed=by_id) for rank, result in enumerate(ranked)
            ],
            relevant_document_ids=query.relevant_document_ids,
            spans=_spans(query, ranked) if by_spans else None,
            negatives=query.negative_answers,
            metadata=query.metadata,
        )

    def _text(self, query: Query, rank: int, result: Retrieved, *, needed: bool) -> str:
        if result.text is not None:
            return result.text
        document = self.documents.get(result.doc_id) if result.doc_id is not None else None
        if document is None and needed:
            known = f"doc_id {result.doc_id!r}" if result.doc_id is not None else "no doc_id"
            raise MissingText(
                f"query {query.query_id!r}, result {rank + 1} ({known}) has no text to judge; give "
                'it a "text", or add the document to the "documents" of the dataset'
            )
        return document.text if document is not None else ""


def _identify(query: Query, rank: int, result: Retrieved, *, needed: bool) -> str:
    if result.doc_id is not None:
        return result.doc_id
    if needed:
        raise MissingText(
            f"query {query.query_id!r}, result {rank + 1} has no doc_id, but this query is matched "
            "by document id"
        )
    return f"retrieved_{rank}"


def _spans(query: Query, ranked: Sequence[Retrieved]) -> Spans:
    retrieved = []
    for rank, result in enumerate(ranked):
        if result.span is None:
            raise MissingText(
                f"query {query.query_id!r}, result {rank + 1} has no span, but spans are expected; "
                'give it a "span" with "file", "start" and "end"'
            )
        retrieved.append(result.span)
    return Spans(query.expected_spans, retrieved)


def _read_query(record: Record) -> Query:
    answers = record.texts("expected_answers")
    if not answers:
        first = record.optional_text("expected_text")
        answers = [*([] if first is None else [first]), *record.texts("expected_alternatives")]
    negatives = record.texts("negative_answers")
    ids = record.identifiers("expected_doc_ids", "relevant_doc_ids", "relevant_docs")
    return Query(
        query_id=record.identifier("query_id", "id"),
        text=record.text("query_text", "query"),
        expected_answers=[text for text in dict.fromkeys(answers) if text.strip()],
        relevant_document_ids=[text for text in dict.fromkeys(ids) if text.strip()],
        expected_spans=tuple(dict.fromkeys(map(read_span, record.records("expected_spans")))),
        negative_answers=tuple(text for text in dict.fromkeys(negatives) if text.strip()),
        metadata=record.labels("metadata"),
    )


def _read_document(record: Record) -> Document:
    metadata = record.get("metadata")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise record.error("has 'metadata' that is not an object")
    return Document(record.identifier("doc_id", "id"), record.text("text"), metadata or {})
