"""Queries of a data set beside their results: whether they fit, and what errors about them say."""

from __future__ import annotations

from collections.abc import Sequence

from judged import QueryGroup
from judged.cli.field_path import Place, Steps
from judged.cli.output.tables import of_all, word
from judged.cli.output.writer import Output
from judged.cli.problems import Problem
from judged.cli.replay import Name
from judged.evaluation import Dataset, Results
from judged.traces import MissingJudgements


def check_join(out: Output, queries: Dataset, retrieved: Results) -> None:
    """Warn where dataset and results do not fit each other. Raises Problem when nothing does."""
    known = {query.query_id for query in queries.queries}
    missing = [query.query_id for query in queries.queries if query.query_id not in retrieved]
    unknown = [query_id for query_id in retrieved if query_id not in known]
    if not retrieved:
        raise Problem("the results hold no query; write a line for each query of the dataset")
    if len(missing) == len(known):
        raise Problem(
            f"no query of the results is in the dataset: {unknown[0]!r} is one of the results, "
            f"{missing[0]!r} one of the dataset; check that they belong together"
        )
    if missing:
        out.warn(
            f"{of_all(len(missing), len(known), 'query', 'queries')} "
            f"{word(len(missing), 'has', 'have')} no line in the results and "
            f"{word(len(missing), 'counts', 'count')} as having found nothing, for example "
            f"{missing[0]!r}"
        )
    if unknown:
        out.warn(
            f"{of_all(len(unknown), len(retrieved), 'line', 'lines')} of the results "
            f"{word(len(unknown), 'is', 'are')} for queries that the dataset lacks and left out, "
            f"for example {unknown[0]!r}"
        )
    if rising := retrieved.out_of_order:
        out.warn(
            f"{of_all(len(rising), len(retrieved), 'line', 'lines')} of the results "
            f"{word(len(rising), 'has', 'have')} scores that rise with rank, for example that of "
            f"{rising[0]!r}; the given order is the ranking"
        )


def places(groups: list[QueryGroup]) -> Place:
    """Return what turns the path of a field into the query that it came from."""

    def place(path: Steps) -> str | None:
        match path:
            case ("groups", int(group), ("expected" | "retrieved") as field, int(text), *_):
                side = "result" if field == "retrieved" else "expected answer"
                return f"query {groups[group].query_id!r}, {side} {text + 1}"
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
