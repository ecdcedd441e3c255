"""Queries of a data set beside their results: whether they fit, and what errors about them say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from judged import QueryGroup
from judged.cli.field_path import Place, Steps
from judged.cli.output.writer import Output
from judged.cli.problems import Problem
from judged.cli.replay import Name
from judged.evaluation import Dataset, FileError, Results
from judged.evaluation.datasets.fit import Fit
from judged.evaluation.datasets.joined_files import JoinedFiles, JoinedQuery
from judged.evaluation.datasets.json_lists import ReadWhole
from judged.evaluation.datasets.query import expects_something
from judged.traces import MissingJudgements


def read_queries(
    dataset: str, results: str, *, by_spans: bool | None, whole: bool
) -> ReadQueries | JoinedFiles:
    """Return the queries of a data set with their results; `by_spans` as in `Dataset.to_groups`.

    They are read as they are needed, unless the `whole` is to be held or the files don't allow it.
    Raises FileError, also where no query says what it should find, and MissingText.
    """
    if not whole:
        with suppress(ReadWhole):
            return JoinedFiles(dataset, results, by_spans=by_spans)
    return ReadQueries(dataset, results, by_spans=by_spans)


class ReadQueries:
    """The queries of a data set with their results, all of them in memory."""

    def __init__(self, dataset: str, results: str, *, by_spans: bool | None) -> None:
        """Read both files. Raises FileError and MissingText."""
        self._queries = Dataset.from_json(dataset)
        if not any(map(expects_something, self._queries.queries)):
            raise FileError(
                dataset,
                None,
                "no query says what it should find, so there is nothing to measure; give queries "
                "'expected_answers', 'expected_doc_ids' or 'expected_spans'",
            )
        self._results = Results.from_jsonl(results)
        self.groups = self._queries.to_groups(self._results, by_spans=by_spans)
        self.n_contexts = sum(group.n_expected * group.n_retrieved for group in self.groups)
        self.system_models = self._results.system_models

    def queries(self) -> Iterator[JoinedQuery]:
        """Yield every query with its group and its results."""
        for query, group in zip(self._queries.queries, self.groups, strict=True):
            yield query, group, self._results.get(query.query_id, ())

    def query_id(self, index: int) -> str:
        """Return the id of the query at an index."""
        return self.groups[index].query_id

    @property
    def fit(self) -> Fit:
        """How queries and results fit each other."""
        ids = [query.query_id for query in self._queries.queries]
        return Fit.of(ids, self._results, self._results.out_of_order)


def check_fit(out: Output, fit: Fit) -> None:
    """Warn where dataset and results do not fit each other. Raises Problem when nothing does."""
    if fit.problem:
        raise Problem(fit.problem)
    out.warn(*fit.warnings())


def places(queries: ReadQueries | JoinedFiles) -> Place:
    """Return what turns the path of a field into the query that it came from."""

    def place(path: Steps) -> str | None:
        match path:
            case ("groups", int(group), ("expected" | "retrieved") as field, int(text), *_):
                side = "result" if field == "retrieved" else "expected answer"
                return f"query {queries.query_id(group)!r}, {side} {text + 1}"
        return None

    return place


def missing_context(groups: Sequence[QueryGroup]) -> Name:
    """Return what turns a context without a judgement into what the user knows it as."""

    def name(missing: MissingJudgements) -> str:
        first, group, side = missing.first, missing.group, "expected answer"
        if first.group >= len(groups):  # the groups of negatives come behind the others
            group = [g for g in groups if g.negatives][first.group - len(groups)]
            side = "negative answer"
        result = (
            repr(group.document_ids[first.retrieved])
            if group.document_ids
            else f"{first.retrieved + 1}"
        )
        return f"query {group.query_id!r}, result {result}, {side} {first.expected + 1}"

    return name
