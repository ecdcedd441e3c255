"""Human labels of some queries, and the means corrected by them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from judged._batching.judging import distinct_ranks
from judged._files import FileError, Record, read_records
from judged._views import plural
from judged.client import Client
from judged.errors import InvalidArgument
from judged.values import (
    CorrectedEstimate,
    Evaluation,
    JudgedRanking,
    JudgedRankings,
    MetricOptions,
    PerQueryValues,
    QueryGroup,
)

_FAMILY = re.compile(r"(precision|recall|f1|hybrid_log_rank)_(exact|similarity)(?![a-z])")
"""The names of metrics that have a judge of their own."""
INCLUSION = "inclusion_probability"


@dataclass(frozen=True, slots=True)
class Labels:
    """Human decisions on some queries by query id, with a list for each result.

    `inclusion` has the probabilities with which the queries were drawn for labelling: for all of
    them, or none.
    """

    name: str
    by_query: Mapping[str, Sequence[Sequence[bool]]]
    line_of: Mapping[str, int | None]
    inclusion: Mapping[str, float]

    @classmethod
    def from_jsonl(cls, path: Path | str) -> Labels:
        """Return the labels of a file. Raises FileError."""
        name = str(path)
        by_query: dict[str, Sequence[Sequence[bool]]] = {}
        line_of: dict[str, int | None] = {}
        inclusion: dict[str, float] = {}
        for line in read_records(path, "holds no labels; write a line for each labelled query"):
            query_id = line.identifier("query_id", "id")
            line.refuse_again(line_of, query_id, f"query {query_id!r} was on line {{}} already")
            by_query[query_id] = line.value("relevant", Sequence[Sequence[bool]])
            first = bool(inclusion) if len(by_query) > 1 else None
            if (probability := read_inclusion(line, first=first)) is not None:
                inclusion[query_id] = probability
        return cls(name, by_query, line_of, inclusion)

    def rankings(self, groups: Sequence[QueryGroup]) -> JudgedRankings:
        """Return the labelled groups with the human verdicts, without their repeated results.

        Raises FileError for a query that is not among the groups, or has another size.
        """
        known = {group.query_id: group for group in groups}
        rankings: list[JudgedRanking] = []
        relevant: list[bool] = []
        for query_id, labels in self.by_query.items():
            group = known.get(query_id)
            problem = _misfit(group, labels)
            if group is None or problem:
                problem = f"query {query_id!r} {problem}"
                raise FileError(self.name, self.line_of[query_id], problem)
            ranks = distinct_ranks(group)
            rankings.append(JudgedRanking(query_id, group.n_expected, len(ranks)))
            for rank in ranks:
                relevant += labels[rank]
        return JudgedRankings(rankings, relevant)


def read_inclusion(line: Record, *, first: bool | None) -> float | None:
    """Return the probability with which a line was drawn for labelling; None if no line has it.

    `first` is whether the first line has it, or None on the first line. Raises FileError for a line
    that differs from the first.
    """
    probability = line.chance(INCLUSION)
    if first is not None and first == (probability is None):
        raise line.error(
            f"has {'no' if probability is None else 'an'} {INCLUSION!r}, other than the lines "
            "before; give it on every line, or on none"
        )
    return probability


def _misfit(group: QueryGroup | None, labels: Sequence[Sequence[bool]]) -> str:
    """Return why labels don't fit a group; "" if they fit."""
    if group is None:
        return "is no query of the dataset"
    if group.by_id:
        return "is matched by document id, so that nothing was judged"
    n, per_result = group.n_retrieved, group.n_expected
    if [len(of_result) for of_result in labels] == [per_result] * n:
        return ""
    return f"must have {plural(n, 'list')} of {plural(per_result, 'label')}, one a result"


def own_metrics(metrics: Sequence[str]) -> list[str]:
    """Return the metrics that use the judge of the evaluation: those of no family."""
    return [name for name in metrics if not _FAMILY.match(name)]


def refuse_families(metrics: Sequence[str]) -> None:
    """Raise InvalidArgument for a metric that has a judge of its own."""
    for place, name in enumerate(metrics):
        if (member := _FAMILY.match(name)) is not None:
            rule = f"metrics of the family {member[2]} ask a judge of their own, and none is to"
            raise InvalidArgument.of_field(
                f"metrics[{place}]", f"{rule} run; leave them out, or name a judge"
            )


def corrected_means(
    client: Client,
    found: Evaluation,
    human: JudgedRankings,
    options: MetricOptions,
    inclusion: Mapping[str, float] | None = None,
    *,
    timeout: float = 120.0,
) -> dict[str, CorrectedEstimate]:
    """Return the corrected mean of every metric that the labels apply to.

    `found` must have per-query values, computed with the same options. `inclusion` has the
    probability with which each query was drawn for labelling; without it, all are equal. Metrics of
    families are left out: their own judges are not the one that was labelled.
    """
    table = found.table
    own = [metric for metric in table.metrics if not _FAMILY.match(metric.name)]
    names = [metric.name for metric in own]
    if not own:
        return {}
    asked = replace(options, per_query=True, interval=None, slice_by=())
    ours = client.compute_metrics(names, human, asked, timeout=timeout)
    known = set(table.query_ids)
    rows = [row for row, query_id in enumerate(ours.query_ids) if query_id in known]
    values = PerQueryValues(
        [ours.query_ids[row] for row in rows],
        [[metric.per_query[row] for row in rows] for metric in ours.metrics],
        [inclusion[ours.query_ids[row]] for row in rows] if inclusion else (),
    )
    machine = PerQueryValues(table.query_ids, [metric.per_query for metric in own])
    corrected = client.compute_metrics(
        names,
        machine,
        MetricOptions(interval=options.interval),
        human_values=values,
        timeout=timeout,
    )
    return {
        name: metric.corrected
        for name, metric in zip(names, corrected.metrics, strict=True)
        if metric.corrected is not None
    }
