"""Human labels of some queries, and the means of an evaluation that they correct.

A flat list of the same, result after result, is read too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from judged.client import Client
from judged.evaluation._steps.distinct import distinct_ranks
from judged.evaluation._steps.families import split_metrics
from judged.evaluation.datasets.files import FileError, Record, parse_json, read_lines
from judged.types import (
    CorrectedEstimate,
    Evaluation,
    JudgedRanking,
    JudgedRankings,
    MetricOptions,
    PerQueryValues,
    QueryGroup,
)


@dataclass(frozen=True, slots=True)
class Labels:
    """The human decisions of some queries by query id, each result after result."""

    name: str
    by_query: Mapping[str, Sequence[bool]]
    line_of: Mapping[str, int]

    @classmethod
    def from_jsonl(cls, path: Path | str) -> Labels:
        """Return the labels of a file. Raises FileError."""
        name = str(path)
        by_query: dict[str, Sequence[bool]] = {}
        line_of: dict[str, int] = {}
        for number, raw in read_lines(path):
            line = Record(parse_json(raw, name, number), name, number, "")
            query_id = line.identifier("query_id", "id")
            if query_id in line_of:
                raise line.error(f"query {query_id!r} was on line {line_of[query_id]} already")
            if line.get("relevant") is None:
                raise line.error("has no 'relevant'; write a list of true and false")
            line_of[query_id] = number
            by_query[query_id] = _read(line)
        if not by_query:
            raise FileError(name, None, "holds no labels; write a line for each labelled query")
        return cls(name, by_query, line_of)

    def rankings(self, groups: Sequence[QueryGroup]) -> JudgedRankings:
        """Return what people made of the labelled groups, without their repeated results.

        Raises FileError for a query that is not among the groups or whose size is another.
        """
        known = {group.query_id: group for group in groups}
        rankings: list[JudgedRanking] = []
        relevant: list[bool] = []
        for query_id, labels in self.by_query.items():
            group = known.get(query_id)
            if group is None:
                raise self._error(query_id, "is no query of the dataset")
            if group.relevant_document_ids:
                raise self._error(query_id, "is matched by document id, so that nothing was judged")
            n, per_result = group.n_retrieved, group.n_expected
            if len(labels) != n * per_result:
                size = f"{n} results by {per_result} expected answers"
                raise self._error(query_id, f"has {len(labels)} labels for {size}")
            ranks = distinct_ranks(group)
            rankings.append(JudgedRanking(query_id, per_result, len(ranks)))
            for rank in ranks:
                relevant += labels[rank * per_result : (rank + 1) * per_result]
        return JudgedRankings(rankings, relevant)

    def _error(self, query_id: str, problem: str) -> FileError:
        return FileError(self.name, self.line_of[query_id], f"query {query_id!r} {problem}")


def corrected_means(
    client: Client,
    found: Evaluation,
    human: JudgedRankings,
    options: MetricOptions,
    *,
    timeout: float = 120.0,
) -> dict[str, CorrectedEstimate]:
    """Return the corrected mean of every metric that the labels are about.

    `found` must have per-query values, made under the same options. Metrics of families have a
    judge of their own, which the labels do not speak of; they are left out.
    """
    names = [metric.name for metric in found.table.metrics]
    part = split_metrics(names)[0]
    if part.family or not names:
        return {}
    asked = replace(options, per_query=True, interval=None, slice_by=())
    ours = client.compute_metrics(part.names, human, asked, timeout=timeout)
    known = set(found.table.query_ids)
    rows = [row for row, query_id in enumerate(ours.query_ids) if query_id in known]
    values = PerQueryValues(
        [ours.query_ids[row] for row in rows],
        [[metric.per_query[row] for row in rows] for metric in ours.metrics],
    )
    machine = PerQueryValues(
        found.table.query_ids, [found.table.metrics[place].per_query for place in part.places]
    )
    table = client.compute_metrics(
        part.names,
        machine,
        MetricOptions(interval=options.interval),
        human_values=values,
        timeout=timeout,
    )
    return {
        name: metric.corrected
        for name, metric in zip(part.names, table.metrics, strict=True)
        if metric.corrected is not None
    }


def _read(line: Record) -> list[bool]:
    labels: list[bool] = []
    for rank, value in enumerate(line.items("relevant")):
        row = value if isinstance(value, list) else [value]
        for label in row:
            if not isinstance(label, bool):
                raise line.error(f"has 'relevant' with something else than true or false at {rank}")
            labels.append(label)
    return labels
