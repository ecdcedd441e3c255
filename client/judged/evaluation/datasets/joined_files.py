"""Queries and their results in two files, joined query by query, so that neither is held whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from gzip import GzipFile
from pathlib import Path

from judged.evaluation.datasets.dataset import MissingText, group_of
from judged.evaluation.datasets.files import FileError, KnownFields, Record, open_file
from judged.evaluation.datasets.fit import Example, Fit, spelling_warning
from judged.evaluation.datasets.id_index import IdIndex
from judged.evaluation.datasets.json_lists import ReadWhole, read_lists
from judged.evaluation.datasets.query import (
    DOCUMENT_FIELDS,
    QUERY_FIELDS,
    Document,
    Query,
    expects_something,
    read_document,
    read_query,
)
from judged.evaluation.datasets.results import LinesOfResults, Retrieved, scores_fall
from judged.values import QueryGroup

JoinedQuery = tuple[Query, QueryGroup, Sequence[Retrieved]]
"""A query, the same with its results as a group, and its results as they were read."""


class JoinedFiles:
    """The queries of a file in Evret's layout with their results from a file of lines.

    Iterating gives their groups, in the order of the data set; the files are read each time. Held
    are the documents of the data set, and where in a file each line of results is. `n_contexts` are
    those of all groups, `system_models` the language models that lines name.
    """

    def __init__(self, dataset: Path | str, results: Path | str, *, by_spans: bool | None) -> None:
        """Check all of both files; `by_spans` is that of `Dataset.to_groups`.

        Raises ReadWhole for files that can't be joined so: a data set that can't be read item by
        item, results that are compressed or can be read only once, or anything that is wrong with
        them, which `Dataset` and `Results` tell.
        """
        if not (Path(dataset).is_file() and Path(results).is_file()):
            raise ReadWhole("a file can be read only once")
        self._dataset, self._results = dataset, results
        self._lines = LinesOfResults(str(results))
        self._line_ids, self._query_ids = IdIndex(), IdIndex()
        self._documents: dict[str, Document] = {}
        self._by_spans = bool(by_spans)
        models: dict[str, None] = {}
        try:
            complete, rising = self._check_lines(models)
            missing = self._check_queries(decide=by_spans is None)
            if self._by_spans or not complete:
                for _ in self:
                    pass  # raises MissingText for what can't be judged or matched
        except (FileError, MissingText) as error:
            raise ReadWhole(str(error)) from None
        self.system_models = list(models)
        n_unknown = len(self._line_ids) - (len(self._query_ids) - missing.count)
        first = self._line_ids.first_outside(self._query_ids) if n_unknown else None
        unknown = Example(n_unknown, first or "")
        spelling = spelling_warning(
            [missing.query_id] * bool(missing.count), [unknown.query_id] * bool(n_unknown)
        )
        sizes = len(self._query_ids), len(self._line_ids)
        self.fit = Fit(*sizes, missing, unknown, rising, spelling)

    def __iter__(self) -> Iterator[QueryGroup]:
        return (group for _, group, _ in self.queries())

    @property
    def groups(self) -> Iterable[QueryGroup]:
        """The groups, which are read each time."""
        return self

    def queries(self) -> Iterator[JoinedQuery]:
        """Yield every query with its group and its results."""
        with open_file(self._results) as file:
            for query in self._read_queries():
                found = self._line_ids.find(query.query_id)
                ranked = () if found is None else self._lines.at(file, found[0]).results
                group = group_of(query, ranked, self._documents, by_spans=self._by_spans)
                yield query, group, ranked

    def query_id(self, index: int) -> str:
        """Return the id of the query at an index."""
        return self._query_ids.at(index) or ""

    def _check_lines(self, models: dict[str, None]) -> tuple[bool, Example]:
        """Say whether all results have an id and a text, and which lines have scores that rise."""
        complete, rising = True, Example()
        with open_file(self._results) as file:
            if isinstance(file, GzipFile):
                raise ReadWhole("a place in a compressed file is found by reading up to it")
            for line in self._lines.read(file):
                if not self._line_ids.add(line.query_id, line.offset, len(line.results)):
                    raise ReadWhole("a query has two lines")
                if line.system_model:
                    models[line.system_model] = None
                complete = complete and all(
                    result.doc_id is not None and result.text is not None for result in line.results
                )
                if not scores_fall(line.results):
                    rising = rising.and_also(line.query_id)
        return complete, rising

    def _check_queries(self, *, decide: bool) -> Example:
        """Return the queries without a line of results. `decide` whether groups bring spans."""
        name, missing = str(self._dataset), Example()
        any_answers = any_spans = any_expectation = False
        known, inner = KnownFields(*QUERY_FIELDS), KnownFields(*DOCUMENT_FIELDS)
        n_by_answers = n_by_spans = 0
        fields: dict[str, object] = {}
        for field, item in read_lists(self._dataset):
            fields[field] = item
            if field == "queries":
                record = Record(item, name, None, f"queries[{len(self._query_ids)}]")
                query = read_query(record)
                if not self._query_ids.add(query.query_id, len(self._query_ids)):
                    raise ReadWhole("a query comes twice")
                known.check(record)
                line = self._line_ids.find(query.query_id)
                if line is None:
                    missing = missing.and_also(query.query_id)
                n = 0 if line is None or query.by_id else line[1]
                n_by_answers += n * len(query.expected_answers)
                n_by_spans += n * len(query.expected_spans)
                any_answers = any_answers or bool(query.expected_answers)
                any_spans = any_spans or bool(query.expected_spans)
                any_expectation = any_expectation or expects_something(query)
            elif field == "documents":
                record = Record(item, name, None, f"documents[{len(self._documents)}]")
                document = read_document(record)
                if document.doc_id in self._documents:
                    raise ReadWhole("a document comes twice")
                self._documents[document.doc_id] = document
                inner.check(record)
        KnownFields("queries", "documents").check(Record(fields, name, None, ""))
        if not len(self._query_ids):
            raise ReadWhole("there is no query")
        if not any_expectation:
            raise ReadWhole("no query says what it should find")
        if decide:
            self._by_spans = any_spans and not any_answers
        self.n_contexts = n_by_spans if self._by_spans else n_by_answers
        return missing

    def _read_queries(self) -> Iterator[Query]:
        n, name = 0, str(self._dataset)
        for field, item in read_lists(self._dataset):
            if field == "queries":
                yield read_query(Record(item, name, None, f"queries[{n}]"))
                n += 1
                if n == len(self._query_ids):
                    return
