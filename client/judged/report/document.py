"""What a result document has of queries and metrics, and how it is read.

docs/evaluator.md says what each field means. Fields are only ever added under one version.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judged._files import Record
from judged._views import View
from judged.values import MetricCounts, MetricResult, MetricSlice, MetricTable


@dataclass(frozen=True, slots=True)
class RetrievedResult:
    """One retrieved document and what the judge made of it.

    `rank` counts from 1. `relevant` is whether any expected text is matched, `matches` the indices
    of those that are, `score` the best score of all; where verdicts are missing and none is
    relevant, `relevant` is None, and `status` and `error` say why. A `duplicate` repeats an earlier
    result of its query and was not judged. Matched by document id, there is no score. `probability`
    is that of the best score, where the judge is calibrated; `agreement` the smallest share of
    votes on the larger side, where several voted.
    """

    rank: int
    document_id: str
    text: str | None
    relevant: bool | None = None
    score: float | None = None
    status: str | None = None
    error: str | None = None
    matches: tuple[int, ...] = ()
    duplicate: bool = False
    retriever_score: float | None = None
    probability: float | None = None
    agreement: float | None = None


@dataclass(frozen=True, slots=True, repr=False)
class QueryResult(View):
    """One query with what should be found and what was, best rank first.

    `failure` says why the retriever found nothing at all: such a query has no part in any metric.
    """

    query_id: str
    query: str
    expected: Sequence[str] = ()
    relevant_document_ids: Sequence[str] = ()
    negatives: Sequence[str] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    failure: str | None = None
    retrieved: Sequence[RetrievedResult] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the entry of the query in the JSON document of a result."""
        written = {name: getattr(self, name) for name in QueryResult.__slots__}
        for name in ("expected", "relevant_document_ids", "negatives"):
            written[name] = list(written[name])
        written["metadata"] = dict(self.metadata)
        written["retrieved"] = [
            {name: getattr(result, name) for name in RetrievedResult.__slots__}
            | {"matches": list(result.matches)}
            for result in self.retrieved
        ]
        return written


def read_table(root: Record) -> MetricTable:
    """Return the metrics of a document, which has them by name and their values by query."""
    if root.get("metrics") is None or root.get("per_query") is None:
        raise root.error(
            'has no "metrics" and "per_query"; write one with judged evaluate --json FILE, '
            "judged metrics --json FILE or a result's to_json",
        )
    values, slices = read_values(root), root.records("slices")
    return MetricTable(
        read_metrics(root, values),
        list(values),
        part_of(root, "counts").read(MetricCounts),
        [part.read(MetricSlice, metrics=read_metrics(part)) for part in slices],
    )


def read_metrics(
    holder: Record, values: Mapping[str, Mapping[str, float]] | None = None
) -> list[MetricResult]:
    """Return the metrics of a document or of a slice, with the values of queries that are given."""
    named = part_of(holder, "metrics")
    found = []
    for name in named.fields:
        column = [of_query.get(name, math.nan) for of_query in (values or {}).values()]
        found.append(part_of(named, name).read(MetricResult, name=name, per_query=column))
    return found


def read_values(root: Record) -> dict[str, dict[str, float]]:
    """Return the values of each query by metric, those that there are."""
    per_query = part_of(root, "per_query")
    found = {}
    for query_id in per_query.fields:
        of_query = part_of(per_query, query_id)
        numbers = {name: of_query.optional_number(name) for name in of_query.fields}
        found[query_id] = {name: n for name, n in numbers.items() if n is not None}
    return found


def part_of(record: Record, name: str) -> Record:
    """Return an object in a field, one without fields where it is missing."""
    value = record.get(name)
    return record.inner({} if value is None else value, name)
