"""Result documents read into what a report shows: those of evaluations and of `judged metrics`.

docs/evaluator.md describes them. A field that is missing is one the report does not show; one of
the wrong type is an error that names it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from judged.errors import InvalidArgument
from judged.report.content import (
    Difference,
    MetricMean,
    ReportedQuery,
    ReportedResult,
    Run,
    SliceMeans,
)

Value = TypeVar("Value")
_THRESHOLD = re.compile(r"\|min_score:([0-9.eE+-]+)")
_HIT_METRICS = ("hit_rate", "mrr", "recall", "precision", "ndcg", "ap", "f1")
"""Metrics that are 0 only where no relevant document is retrieved, within their cutoff."""


class NoResultDocument(InvalidArgument, ValueError):
    """What was to be shown is no result document; `field` names what is wrong in it."""

    __module__ = "judged.report"


def read_run(document: object, name: str = "") -> Run:
    """Return the run of a result document. Raises NoResultDocument."""
    root = _Fields(document, "")
    if not root.has("metrics") or not root.has("per_query"):
        raise NoResultDocument.of_field(
            "document",
            'has no "metrics" and "per_query"; write one with judged evaluate --json FILE, judged '
            "metrics --json FILE or a result's to_json",
        )
    metrics = _metrics(root.part("metrics"))
    counts = root.part("counts")
    signature = root.take("signature", str)
    judge = root.part("judge")
    threshold = judge.number("min_score")
    if threshold is None and signature and (found := _THRESHOLD.search(signature)):
        threshold = float(found[1])
    usage = root.part("usage")
    return Run(
        name=name or root.take("name", str) or "result",
        metrics=metrics,
        queries=_queries(root),
        slices=[
            SliceMeans(
                part.take("key", str) or "",
                part.take("value", str) or "",
                _metrics(part.part("metrics")),
            )
            for part in root.parts("slices")
        ],
        counts=counts.counts(),
        verdicts=counts.part("verdicts").counts(),
        signatures={"judge": signature or "none: matched by document id, or measured by qrels"},
        threshold=threshold,
        usage={key: usage.number(key) for key in usage.names} if usage.names else None,
        warnings=[str(warning) for warning in root.take("warnings", list) or ()],
    )


def read_differences(comparisons: Sequence[Mapping[str, Any]]) -> list[Difference]:
    """Return what `judged compare --json` says of one run beside the baseline.

    `comparisons` are its rows, or RunComparison.to_dict() of each.
    """
    made = []
    for index, row in enumerate(comparisons):
        fields = _Fields(row, f"comparisons[{index}]")
        difference = fields.part("difference")
        interval = difference.part("interval")
        made.append(
            Difference(
                metric=fields.take("metric", str) or "",
                n=int(fields.number("n") or 0),
                baseline_mean=fields.number("baseline_mean") or 0.0,
                run_mean=fields.number("run_mean") or 0.0,
                difference=difference.number("value"),
                lower=interval.number("lower"),
                upper=interval.number("upper"),
                confidence=interval.number("confidence") or 0.95,
                p=_or(fields.part("permutation").number("p_holm"), 1.0),
                effect=fields.number("effect_size"),
                wins=int(fields.number("wins") or 0),
                losses=int(fields.number("losses") or 0),
                ties=int(fields.number("ties") or 0),
            )
        )
    return made


def read_comparison_warnings(comparisons: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what is to be minded of differences, each once a metric."""
    told: dict[str, None] = {}
    for index, row in enumerate(comparisons):
        fields = _Fields(row, f"comparisons[{index}]")
        metric = fields.take("metric", str) or ""
        said = fields.take("warnings", list) or ()
        # An interval without width is what the comparison's own warning is about already.
        of_interval = fields.part("difference").part("interval").take("warnings", list) or ()
        told |= {f"difference of {metric}: {warning}": None for warning in said or of_interval}
    return list(told)


def read_gates(document: object) -> list[tuple[bool, str]]:
    """Return the gates of a document: whether each was passed, and the sentence about it."""
    return [
        (bool(gate.take("passed", bool)), gate.take("message", str) or "a gate")
        for gate in _Fields(document, "").parts("gates")
    ]


class _Fields:
    """An object of a document, whose fields are read with the type they must have."""

    def __init__(self, value: object, path: str) -> None:
        if value is not None and not isinstance(value, Mapping):
            raise NoResultDocument.of_field(path or "document", "must be an object")
        self._fields: Mapping[str, Any] = value or {}
        self._path = path

    @property
    def names(self) -> list[str]:
        """The names of the fields."""
        return list(self._fields)

    def has(self, name: str) -> bool:
        """Say whether a field is there and not null."""
        return self._fields.get(name) is not None

    def _at(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def take(self, name: str, kind: type[Value]) -> Value | None:
        """Return a field of a type, None where it is missing or null."""
        value = self._fields.get(name)
        if value is None or isinstance(value, kind):
            return value
        raise NoResultDocument.of_field(self._at(name), f"must be {_WORDS[kind]}")

    def number(self, name: str) -> float | None:
        """Return a number, None where it is missing or null."""
        value = self._fields.get(name)
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            return value
        raise NoResultDocument.of_field(self._at(name), "must be a number")

    def part(self, name: str) -> _Fields:
        """Return an object in a field, one without fields where it is missing."""
        return _Fields(self._fields.get(name), self._at(name))

    def parts(self, name: str) -> list[_Fields]:
        """Return the objects of a list."""
        values = self.take(name, list) or []
        return [_Fields(value, f"{self._at(name)}[{at}]") for at, value in enumerate(values)]

    def texts(self, name: str) -> list[str]:
        """Return the texts of a list."""
        return [str(value) for value in self.take(name, list) or ()]

    def counts(self) -> dict[str, int]:
        """Return the fields that are whole numbers."""
        return {name: value for name, value in self._fields.items() if type(value) is int}


_WORDS: Mapping[type, str] = {str: "text", list: "a list", bool: "true or false"}


def _metrics(named: _Fields) -> list[MetricMean]:
    made = []
    for name in named.names:
        metric = named.part(name)
        interval = metric.part("interval")
        made.append(
            MetricMean(
                name,
                metric.number("mean"),
                int(metric.number("n") or 0),
                interval.number("lower"),
                interval.number("upper"),
                interval.number("confidence"),
                metric.number("lower_bound"),
                metric.number("upper_bound"),
                metric.take("signature", str) or "",
            )
        )
    return made


def _queries(root: _Fields) -> list[ReportedQuery]:
    per_query = root.part("per_query")
    if not root.has("queries"):
        return [
            ReportedQuery(query_id, values, first_hit=_no_hit(values))
            for query_id in per_query.names
            if (values := _values(per_query.part(query_id))) is not None
        ]
    return [_query(query, per_query) for query in root.parts("queries")]


def _values(values: _Fields) -> dict[str, float]:
    return {name: value for name in values.names if (value := values.number(name)) is not None}


def _query(query: _Fields, per_query: _Fields) -> ReportedQuery:
    query_id = query.take("query_id", str) or ""
    results = [_result(result) for result in query.parts("retrieved")]
    metadata = query.part("metadata")
    return ReportedQuery(
        query_id=query_id,
        values=_values(per_query.part(query_id)),
        query=query.take("query", str) or "",
        expected=query.texts("expected") or query.texts("relevant_document_ids"),
        results=results,
        first_hit=_first_hit(results),
        metadata={name: str(metadata.take(name, str) or "") for name in metadata.names},
        failure=query.take("failure", str) or "",
    )


def _result(result: _Fields) -> ReportedResult:
    return ReportedResult(
        document_id=result.take("document_id", str) or "",
        text=result.take("text", str),
        relevant=result.take("relevant", bool),
        score=result.number("score"),
        status=result.take("status", str),
        error=result.take("error", str) or "",
        agreement=result.number("agreement"),
        matches=[match for match in result.take("matches", list) or () if type(match) is int],
        duplicate=bool(result.take("duplicate", bool)),
    )


def _first_hit(results: Sequence[ReportedResult]) -> int | None:
    """Return the rank of the first relevant result, repeated ones not counted.

    0 where none is, None where that is not known for any.
    """
    ranked = [result for result in results if not result.duplicate]
    for rank, result in enumerate(ranked, 1):
        if result.relevant:
            return rank
    known = not ranked or any(result.relevant is not None for result in ranked)
    return 0 if known else None


def _no_hit(values: Mapping[str, float]) -> int | None:
    """Return 0 where the values of a query show that nothing relevant was retrieved, else None."""
    telling = [
        value for name, value in values.items() if re.split(r"[@(]", name)[0] in _HIT_METRICS
    ]
    return 0 if telling and not any(telling) else None


def _or(value: float | None, other: float) -> float:
    return other if value is None else value
