"""The JSON documents that `judged evaluate` and `judged metrics` wrote, read again.

What they are held against is up to `gates` and `commands.compare`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from judged.evaluation.datasets.files import FileError, Record, parse_json, read_bytes


@dataclass(frozen=True, slots=True)
class ReportedMetric:
    """One metric of a document. `mean` is None when no query was evaluated.

    `upper_bound` is there where verdicts were missing.
    """

    mean: float | None
    n: int
    signature: str
    upper_bound: float | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What a document holds. `signature` names the judge; None when nobody judged."""

    name: str
    metrics: Mapping[str, ReportedMetric]
    per_query: Mapping[str, Mapping[str, float]]
    signature: str | None

    def metric(self, name: str) -> ReportedMetric:
        """Return a metric by its name. Raises FileError."""
        if name not in self.metrics:
            known = ", ".join(self.metrics) or "no metric"
            raise FileError(
                self.name, None, f"has no {name}; it has {known}. Make it with the same --metric"
            )
        return self.metrics[name]

    def column(self, name: str) -> list[float]:
        """Return the values of a metric in the order of `per_query`. Raises FileError."""
        self.metric(name)
        values = []
        for query_id, of_query in self.per_query.items():
            if name not in of_query:
                raise FileError(self.name, None, f"per_query has no {name} for query {query_id!r}")
            values.append(of_query[name])
        return values


def read_report(path: Path | str) -> Report:
    """Return the document of a file. Raises FileError."""
    name = str(path)
    root = Record(parse_json(read_bytes(path), name, None), name, None, "")
    metrics, per_query = root.record("metrics"), root.record("per_query")
    if metrics is None or per_query is None:
        raise root.error(
            'has no "metrics" and "per_query": it is not a document of judged evaluate --json or '
            "judged metrics --json"
        )
    return Report(
        name,
        {
            metric: _read_metric(Record(value, name, None, f"metrics[{metric!r}]"))
            for metric, value in metrics.fields.items()
        },
        {
            query_id: _read_values(Record(value, name, None, f"per_query[{query_id!r}]"))
            for query_id, value in per_query.fields.items()
        },
        root.optional_text("signature"),
    )


def _read_metric(record: Record) -> ReportedMetric:
    return ReportedMetric(
        record.optional_number("mean"),
        record.position("n"),
        record.text("signature"),
        record.optional_number("upper_bound"),
    )


def _read_values(record: Record) -> dict[str, float]:
    values = {}
    for metric in record.fields:
        value = record.optional_number(metric)
        if value is None:
            raise record.error(f"has no value of {metric!r}")
        values[metric] = value
    return values
