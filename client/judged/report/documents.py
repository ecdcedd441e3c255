"""Result documents read into what a report shows: those of evaluations and of `judged metrics`.

docs/evaluator.md describes them. A field that is missing is one the report does not show; one of
the wrong type is an error that names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from judged._files import FileError, Record
from judged.errors import InvalidArgument
from judged.report.content import (
    Difference,
    MetricMean,
    ReportedQuery,
    ReportedResult,
    Run,
    SliceMeans,
)

_THRESHOLD = re.compile(r"\|min_score:([0-9.eE+-]+)")
_HIT_METRICS = ("hit_rate", "mrr", "recall", "precision", "ndcg", "ap", "f1")
"""Metrics that are 0 only where no relevant document is retrieved, within their cutoff."""


class NoResultDocument(InvalidArgument, ValueError):
    """What was to be shown is no result document; the message names what is wrong in it."""

    __module__ = "judged.report"


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except FileError as error:
        raise NoResultDocument.of_field(error.name, error.problem) from None


def read_run(document: object, name: str = "") -> Run:
    """Return the run of a result document. Raises NoResultDocument."""
    with _reading():
        root = Record(document, "document", None, "")
        if root.get("metrics") is None or root.get("per_query") is None:
            raise root.error(
                'has no "metrics" and "per_query"; write one with judged evaluate --json FILE, '
                "judged metrics --json FILE or a result's to_json",
            )
        signature = root.optional_text("signature")
        judge, counts, usage = (_part(root, part) for part in ("judge", "counts", "usage"))
        threshold = judge.optional_number("min_score")
        if threshold is None and signature and (found := _THRESHOLD.search(signature)):
            threshold = float(found[1])
        return Run(
            name=name or root.optional_text("name") or "result",
            metrics=_metrics(root),
            queries=_queries(root),
            slices=[
                part.read(SliceMeans, metrics=_metrics(part)) for part in root.records("slices")
            ],
            counts=_whole_numbers(counts),
            verdicts=_whole_numbers(_part(counts, "verdicts")),
            signatures={"judge": signature or "none: matched by document id, or measured by qrels"},
            threshold=threshold,
            usage={key: usage.optional_number(key) for key in usage.fields} or None,
            warnings=[str(warning) for warning in root.items("warnings")],
        )


def read_differences(comparisons: Sequence[Mapping[str, Any]]) -> list[Difference]:
    """Return what `judged compare --json` says of one run beside the baseline.

    `comparisons` are its rows, or RunComparison.to_dict() of each.
    """
    with _reading():
        made = []
        for row in _rows(comparisons):
            difference = _part(row, "difference")
            interval = _part(difference, "interval")
            p = _part(row, "permutation").optional_number("p_holm")
            made.append(
                row.read(
                    Difference,
                    difference=difference.optional_number("value"),
                    lower=interval.optional_number("lower"),
                    upper=interval.optional_number("upper"),
                    confidence=interval.optional_number("confidence") or 0.95,
                    p=1.0 if p is None else p,
                    effect=row.optional_number("effect_size"),
                )
            )
        return made


def read_comparison_warnings(comparisons: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what is to be minded of differences, each once a metric."""
    told: dict[str, None] = {}
    with _reading():
        for row in _rows(comparisons):
            # An interval without width is what the comparison's own warning is about already.
            interval = _part(_part(row, "difference"), "interval")
            said = row.items("warnings") or interval.items("warnings")
            metric = row.optional_text("metric")
            told |= {f"difference of {metric}: {warning}": None for warning in said}
    return list(told)


def read_gates(document: object) -> list[tuple[bool, str]]:
    """Return the gates of a document: whether each was passed, and the sentence about it."""
    with _reading():
        return [
            (bool(gate.optional_label("passed")), gate.optional_text("message") or "a gate")
            for gate in Record(document, "document", None, "").records("gates")
        ]


def _rows(comparisons: Sequence[Mapping[str, Any]]) -> list[Record]:
    return [
        Record(row, "document", None, f"comparisons[{at}]") for at, row in enumerate(comparisons)
    ]


def _part(record: Record, name: str) -> Record:
    """Return an object in a field, one without fields where it is missing."""
    value = record.get(name)
    return record.inner({} if value is None else value, name)


def _whole_numbers(record: Record) -> dict[str, int]:
    return {name: value for name, value in record.fields.items() if type(value) is int}


def _metrics(holder: Record) -> list[MetricMean]:
    named = _part(holder, "metrics")
    made = []
    for name in named.fields:
        metric = _part(named, name)
        interval = _part(metric, "interval")
        ends = {end: interval.optional_number(end) for end in ("lower", "upper", "confidence")}
        made.append(metric.read(MetricMean, name=name, **ends))
    return made


def _queries(root: Record) -> list[ReportedQuery]:
    per_query = _part(root, "per_query")
    if root.get("queries") is None:
        found = {query_id: _values(per_query, query_id) for query_id in per_query.fields}
        return [
            ReportedQuery(query_id, values, first_hit=_no_hit(values))
            for query_id, values in found.items()
        ]
    return [_query(query, per_query) for query in root.records("queries")]


def _values(per_query: Record, query_id: str) -> dict[str, float]:
    values = _part(per_query, query_id)
    numbers = {name: values.optional_number(name) for name in values.fields}
    return {name: value for name, value in numbers.items() if value is not None}


def _query(query: Record, per_query: Record) -> ReportedQuery:
    results = [result.read(ReportedResult) for result in query.records("retrieved")]
    return query.read(
        ReportedQuery,
        values=_values(per_query, query.text("query_id")),
        expected=query.texts("expected") or query.texts("relevant_document_ids"),
        results=results,
        first_hit=_first_hit(results),
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
