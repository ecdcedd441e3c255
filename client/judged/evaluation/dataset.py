"""Queries with what they should find, and how they meet what was retrieved.

Owns the dataset's JSON layout and the join of queries with results into groups. What is done with
the groups is up to `evaluator`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from judged.evaluation.files import Record, parse_json, read_bytes
from judged.evaluation.results import Retrieved
from judged.types import QueryGroup


class MissingText(ValueError):
    """A result has no text to judge, or no id to match; the message names query and rank."""


@dataclass(frozen=True, slots=True)
class Query:
    """One query: the answers that should be found, or the ids of the documents that should.

    With ids, results are matched by id and never judged; the answers are then left aside.
    """

    query_id: str
    text: str
    expected_answers: Sequence[str] = ()
    relevant_document_ids: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """One document that may be retrieved."""

    doc_id: str
    text: str
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dataset:
    """Queries, and documents by id. Documents fill in results that come without text."""

    queries: Sequence[Query]
    documents: Mapping[str, Document] = field(default_factory=dict)

    @classmethod
    def from_json(cls, path: Path | str) -> Dataset:
        """Return the dataset of a file in Evret's layout. Raises FileError.

            {"queries": [{"query_id", "query_text", "expected_answers", "expected_doc_ids"}],
             "documents": [{"doc_id", "text", "metadata"}]}

        Also read are "id" and "query", and "relevant_doc_ids" or "relevant_docs" for the ids; other
        fields are passed over. Of answers and ids that repeat the first counts, blank ones do not.
        """
        name = str(path)
        root = Record(parse_json(read_bytes(path), name, None), name, None, "")
        if root.get("queries") is None:
            raise root.error('has no "queries"')
        queries: dict[str, Query] = {}
        for index, value in enumerate(root.items("queries")):
            query = _read_query(record := Record(value, name, None, f"queries[{index}]"))
            if query.query_id in queries:
                raise record.error(f"has the query_id {query.query_id!r} of an earlier query")
            queries[query.query_id] = query
        documents: dict[str, Document] = {}
        for index, value in enumerate(root.items("documents")):
            document = _read_document(record := Record(value, name, None, f"documents[{index}]"))
            if document.doc_id in documents:
                raise record.error(f"has the doc_id {document.doc_id!r} of an earlier document")
            documents[document.doc_id] = document
        if not queries:
            raise root.error("has no query")
        return cls(list(queries.values()), documents)

    def to_groups(self, results: Mapping[str, Sequence[Retrieved]]) -> list[QueryGroup]:
        """Return one group a query, in order; a query without results retrieved nothing.

        Raises MissingText for a result that can be neither judged nor matched by id.
        """
        return [self._group(query, results.get(query.query_id, ())) for query in self.queries]

    def _group(self, query: Query, ranked: Sequence[Retrieved]) -> QueryGroup:
        by_id = bool(query.relevant_document_ids)
        return QueryGroup(
            query=query.text,
            expected=() if by_id else query.expected_answers,
            retrieved=[
                self._text(query, rank, result, needed=not by_id)
                for rank, result in enumerate(ranked)
            ],
            query_id=query.query_id,
            document_ids=[
                _identify(query, rank, result, needed=by_id) for rank, result in enumerate(ranked)
            ],
            relevant_document_ids=query.relevant_document_ids,
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


def _read_query(record: Record) -> Query:
    answers = record.texts("expected_answers")
    ids = record.identifiers("expected_doc_ids", "relevant_doc_ids", "relevant_docs")
    return Query(
        query_id=record.identifier("query_id", "id"),
        text=record.text("query_text", "query"),
        expected_answers=[text for text in dict.fromkeys(answers) if text.strip()],
        relevant_document_ids=[text for text in dict.fromkeys(ids) if text.strip()],
    )


def _read_document(record: Record) -> Document:
    metadata = record.get("metadata")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise record.error("has 'metadata' that is not an object")
    return Document(record.identifier("doc_id", "id"), record.text("text"), metadata or {})
