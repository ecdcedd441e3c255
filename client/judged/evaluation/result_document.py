"""The JSON document of an evaluation's result, version 1: written from it and read back into it.

docs/evaluator.md says what each field means. Fields are only ever added under one version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from judged._files import Record, read_object
from judged._views import plain
from judged.evaluation.query_result import QueryResult, RetrievedResult
from judged.values import (
    Interval,
    JudgeIdentity,
    MetricCounts,
    MetricResult,
    MetricSlice,
    MetricTable,
    NegativeMatch,
    NegativeReport,
    VerdictCounts,
)

FORMAT = "judged.evaluation"
VERSION = 1

Value = TypeVar("Value")


def write_head(
    name: str,
    k: int | None,
    table: MetricTable,
    judge: JudgeIdentity | None,
    warnings: Sequence[str],
) -> dict[str, Any]:
    """Return what every document begins with."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": name,
        "k": k,
        **table.to_dict(),
        "signature": None if judge is None else judge.signature,
        "judge": plain(judge),
        "warnings": list(warnings),
    }


def write_query(query: QueryResult) -> dict[str, Any]:
    """Return the entry of a query."""
    return {
        "query_id": query.query_id,
        "query": query.query,
        "expected": list(query.expected),
        "relevant_document_ids": list(query.relevant_document_ids),
        "negatives": list(query.negatives),
        "metadata": dict(query.metadata),
        "failure": query.failure,
        "retrieved": [_write_retrieved(result) for result in query.retrieved],
    }


def _write_retrieved(result: RetrievedResult) -> dict[str, Any]:
    written = {name: getattr(result, name) for name in RetrievedResult.__slots__}
    return written | {"matches": list(result.matches)}


def read_root(path: Path | str) -> Record:
    """Return the document of a file. Raises FileError for what is none of this version."""
    root = read_object(path)
    if root.get("format") != FORMAT:
        raise root.error(
            f'has no "format": "{FORMAT}"; it is not what EvaluationResult.to_json writes'
        )
    version = root.get("version")
    if version != VERSION:
        raise root.error(f"has version {version!r}, and this judged reads {VERSION}")
    return root


def read_table(root: Record) -> MetricTable:
    """Return the metrics of a document. Raises FileError."""
    named = root.record("metrics")
    per_query = root.record("per_query")
    if named is None or per_query is None:
        raise root.error('has no "metrics" and "per_query"')
    query_ids = list(per_query.fields)
    values = {query_id: per_query.record(query_id) for query_id in query_ids}
    metrics = [
        _read_metric(named, name, [_number(of_query, name) for of_query in values.values()])
        for name in named.fields
    ]
    slices = [
        MetricSlice(
            part.text("key"),
            str(part.get("value") or ""),
            [_read_metric(inner, name, []) for name in inner.fields],
        )
        for part in root.records("slices")
        if (inner := part.record("metrics")) is not None
    ]
    counts = root.record("counts")
    return MetricTable(metrics, query_ids, _read_counts(counts), slices)


def _number(record: Record | None, name: str) -> float:
    value = None if record is None else record.optional_number(name)
    if record is not None and value is None:
        raise record.error(f"has no value of {name!r}")
    return value or 0.0


def _read_metric(named: Record, name: str, column: list[float]) -> MetricResult:
    record = named.record(name)
    if record is None:
        raise named.error(f"has no {name!r}")
    interval = record.record("interval")
    return MetricResult(
        name,
        record.optional_number("mean"),
        record.position("n"),
        record.optional_number("lower_bound"),
        record.optional_number("upper_bound"),
        record.text("signature"),
        column,
        None if interval is None else read_flat(Interval, interval),
    )


def _read_counts(record: Record | None) -> MetricCounts:
    if record is None:
        return MetricCounts()
    verdicts = record.record("verdicts")
    known = None if verdicts is None else read_flat(VerdictCounts, verdicts)
    return replace(read_flat(MetricCounts, record), verdicts=known)


def read_negatives(record: Record) -> NegativeReport:
    """Return what a document tells of negative answers. Raises FileError."""
    matches = [read_flat(NegativeMatch, match) for match in record.records("matches")]
    counts = record.record("counts")
    return NegativeReport(
        record.position("queries"),
        record.position("queries_hit"),
        matches,
        VerdictCounts() if counts is None else read_flat(VerdictCounts, counts),
    )


def read_flat(kind: type[Value], record: Record) -> Value:
    """Return a value of a type whose fields stand in the record under their own names."""
    known = {part.name for part in fields(kind)}  # type: ignore[arg-type]  # all are dataclasses
    held = {name: value for name, value in record.fields.items() if name in known}
    lists = {name: tuple(value) for name, value in held.items() if isinstance(value, list)}
    try:
        return kind(**{**held, **lists})
    except TypeError:
        raise record.error(f"lacks a field of {kind.__name__}; the file was changed") from None


def read_query(record: Record) -> QueryResult:
    """Return the entry of a query. Raises FileError."""
    return QueryResult(
        record.identifier("query_id"),
        record.text("query"),
        record.texts("expected"),
        record.identifiers("relevant_document_ids"),
        record.texts("negatives"),
        record.labels("metadata"),
        [_read_retrieved(result) for result in record.records("retrieved")],
        record.optional_text("failure"),
    )


def _read_retrieved(record: Record) -> RetrievedResult:
    return RetrievedResult(
        rank=record.position("rank"),
        document_id=record.text("document_id"),
        text=record.optional_text("text"),
        relevant=record.optional_label("relevant"),
        score=record.optional_number("score"),
        status=record.optional_text("status"),
        error=record.optional_text("error"),
        matches=tuple(int(str(match)) for match in record.items("matches")),
        duplicate=bool(record.optional_label("duplicate")),
        retriever_score=record.optional_number("retriever_score"),
        probability=record.optional_number("probability"),
        agreement=record.optional_number("agreement"),
    )
