"""What the file of a data set holds, put together as it is read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from judged.evaluation.datasets.files import FileError, Record
from judged.evaluation.datasets.query import Document, Query, read_document, read_query


class Saved(Protocol):
    """What can be saved: queries, and documents by their ids."""

    @property
    def queries(self) -> Sequence[Query]:
        """The queries, in order."""
        ...

    @property
    def all_documents(self) -> Sequence[Document]:
        """The documents, in order."""
        ...


@dataclass(slots=True)
class Content:
    """Queries and documents by id. `problems`, where given, takes what would be raised.

    `left_out` says of each key of metadata that can't be kept, once, where it was.
    """

    queries: dict[str, Query] = field(default_factory=dict)
    documents: dict[str, Document] = field(default_factory=dict)
    problems: list[FileError] | None = None
    places: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def take_query(self, record: Record) -> None:
        """Take a query. Raises FileError for one that can't be read or has an id again."""
        try:
            query = read_query(record)
            self.add(record, query)
        except FileError as error:
            self.refuse(error)

    def add(self, record: Record, query: Query) -> None:
        """Take a query that was read from a record."""
        if query.query_id in self.queries:
            raise record.error(f"has the query_id {query.query_id!r} of an earlier query")
        self.queries[query.query_id] = query
        self.places[query.query_id] = record.place
        for key, text in record.unlabelled("metadata").items():
            self.left_out.setdefault(key, text)

    def take_document(self, record: Record) -> None:
        """Take a document. Raises FileError for one that can't be read or has an id again."""
        try:
            self.add_document(record, read_document(record))
        except FileError as error:
            self.refuse(error)

    def add_document(self, record: Record, document: Document) -> None:
        """Take a document that was read from a record."""
        if document.doc_id in self.documents:
            raise record.error(f"has the id {document.doc_id!r} of an earlier document")
        self.documents[document.doc_id] = document

    def refuse(self, error: FileError) -> None:
        """Keep a problem where they are collected, else raise it."""
        if self.problems is None:
            raise error
        self.problems.append(error)


def json_line(value: object) -> str:
    """Return a value as a line of JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"


def lost(dataset: Saved, format_name: str, held: Iterable[str]) -> list[str]:
    """Return what a format can't hold of a data set, as texts for people."""
    told = {
        "expected_answers": "expected answers",
        "relevant_document_ids": "relevant document ids",
        "grades": "grades of documents",
        "expected_spans": "expected spans",
        "negative_answers": "negative answers",
        "metadata": "metadata",
    }
    kept = set(held)
    found = []
    for name, words in told.items():
        n = sum(bool(getattr(query, name)) for query in dataset.queries)
        if n and name not in kept:
            found.append(f"{format_name} can't hold {words}: those of {n} queries are left out")
    if dataset.all_documents and "documents" not in kept:
        n = len(dataset.all_documents)
        found.append(f"{format_name} can't hold documents: {n} are left out")
    return found
