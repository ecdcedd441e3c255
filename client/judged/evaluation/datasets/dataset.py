"""Queries with what they should find, and how they meet what was retrieved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from judged._files import FileError
from judged._inputs import as_list, need_by_ids, set_fields
from judged._views import View
from judged.evaluation.datasets.formats import read_beir, read_content, write_content
from judged.evaluation.datasets.query import Content, Document, Query
from judged.evaluation.datasets.results import Results, Retrieved
from judged.evaluation.datasets.tables import read_rows
from judged.values import QueryGroup, Spans


class MissingText(ValueError):
    """A result has no text or span to judge, or no id to match; the message names its place."""

    __module__ = "judged.evaluation"


@dataclass(frozen=True, slots=True, repr=False)
class Dataset(View):
    """Queries, and documents by id. Documents fill in results that come without text."""

    queries: Sequence[Query]
    documents: Mapping[str, Document] = field(default_factory=dict)

    def __post_init__(self) -> None:
        documents = need_by_ids(self.documents, "documents")
        set_fields(self, queries=as_list(self.queries), documents=documents)

    @classmethod
    def load(cls, path: Path | str, format_name: str | None = None) -> Dataset:
        """Return the data set of a file or a folder; see docs/datasets.md for the formats.

        Without a name, the format is known by the end of the path: .json, .jsonl, .csv, .tsv,
        .qrels; a folder is BEIR's. Raises FileError.
        """
        return dataset_of(read_content(path, format_name), str(path))

    @classmethod
    def from_json(cls, path: Path | str) -> Dataset:
        """Return the data set of a file in Evret's layout. Raises FileError.

            {"queries": [{"query_id", "query_text", "expected_answers", "expected_doc_ids",
                          "expected_spans": [{"file", "start", "end"}], "negative_answers",
                          "metadata"}],
             "documents": [{"doc_id", "text", "metadata"}]}

        Also read are "id" and "query"; "expected_text" and "expected_alternatives" where there are
        no "expected_answers"; "relevant_doc_ids" or "relevant_docs" for the ids. Other fields are
        passed over, and so are lists and objects in a query's metadata. Of answers, ids and spans
        that repeat the first counts, blank ones do not.
        """
        return cls.load(path, "json")

    @classmethod
    def from_jsonl(cls, path: Path | str) -> Dataset:
        """Return the data set of a file of a query, or a document, a line. Raises FileError."""
        return cls.load(path, "jsonl")

    @classmethod
    def from_csv(cls, path: Path | str) -> Dataset:
        """Return the data set of a table of a query a row. Raises FileError.

        The columns are the fields of `from_json`, with lists as JSON. A cell of answers that is no
        JSON list is one answer, whatever commas it has. Other columns are metadata.
        """
        return cls.load(path, "csv")

    @classmethod
    def from_beir(cls, path: Path | str, split: str = "test") -> Dataset:
        """Return the data set of a folder of BEIR's, with its corpus. Raises FileError."""
        content = Content()
        read_beir(path, content, split)
        return dataset_of(content, str(path))

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, object]]) -> Dataset:
        """Return the data set of rows: of Hugging Face `datasets`, of a DataFrame's records, ...

        Columns are those of `from_csv`; lists may be lists. Raises FileError with the row.
        """
        content = Content()
        read_rows(rows, content)
        return dataset_of(content, "rows")

    def save(self, path: Path | str, format_name: str | None = None) -> list[str]:
        """Write the data set; return what the format can't hold, as texts for people.

        The format is known as in `load`. Raises FileError when it can't be written.
        """
        return write_content(path, self.queries, list(self.documents.values()), format_name)

    def to_groups(
        self, results: Mapping[str, Sequence[Retrieved]], *, by_spans: bool | None = None
    ) -> list[QueryGroup]:
        """Return one group a query, in order; a query without results retrieved nothing.

        With `by_spans` groups bring spans, without it texts; None takes what the data set has, and
        texts where it has both. Raises MissingText for a result that can't be judged or matched.
        """
        joined = join_results(self, Results.of(results), by_spans=by_spans)
        return [group for _, group, _ in joined]


def join_results(
    dataset: Dataset, results: Mapping[str, Sequence[Retrieved]], *, by_spans: bool | None
) -> Iterator[tuple[Query, QueryGroup, Sequence[Retrieved]]]:
    """Yield each query with its group and its results, as these are read; see `to_groups`."""
    if by_spans is None:
        by_spans = not any(query.expected_answers for query in dataset.queries)
        by_spans = by_spans and any(query.expected_spans for query in dataset.queries)
    for query in dataset.queries:
        ranked = results.get(query.query_id, ())
        yield query, group_of(query, ranked, dataset.documents, by_spans=by_spans), ranked


def dataset_of(content: Content, name: str) -> Dataset:
    """Return the data set of what was read from `name`. Raises FileError where it has no query."""
    if not content.queries:
        raise FileError(name, None, "has no query")
    return Dataset(list(content.queries.values()), content.documents)


def group_of(
    query: Query,
    ranked: Sequence[Retrieved],
    documents: Mapping[str, Document],
    *,
    by_spans: bool,
) -> QueryGroup:
    """Return the group of a query with its results; see `Dataset.to_groups`. Raises MissingText."""
    by_id = query.by_id
    by_spans = by_spans and not by_id
    texts, ids, spans = [], [], []
    for rank, result in enumerate(ranked):
        document = documents.get(result.doc_id) if result.doc_id is not None else None
        text = document.text if result.text is None and document is not None else result.text
        needed = "doc_id" if by_id else "span" if by_spans else "text"
        if {"doc_id": result.doc_id, "span": result.span, "text": text}[needed] is None:
            raise MissingText(
                f"query {query.query_id!r}, result {rank + 1} has no {needed!r}, by which this "
                "query is measured; add it, or its document to the dataset"
            )
        texts.append(text or "")
        ids.append(f"retrieved_{rank}" if result.doc_id is None else result.doc_id)
        spans.append(result.span)
    return QueryGroup(
        query=query.text,
        expected=() if by_id or by_spans else query.expected_answers,
        retrieved=() if by_spans else texts,
        query_id=query.query_id,
        document_ids=ids,
        relevant_document_ids=query.relevant_document_ids,
        spans=Spans(query.expected_spans, [span for span in spans if span]) if by_spans else None,
        negatives=query.negative_answers,
        metadata=query.metadata,
        grades=query.grades,
    )
