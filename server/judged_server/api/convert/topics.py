"""The topics of a request, one by one or in columns."""

from __future__ import annotations

import numpy as np
from judged.v1 import metrics_pb2, statistics_service_pb2

from judged_server.domain import FloatArray
from judged_server.errors import InvalidField
from judged_server.metrics.input.rankings import refuse_first
from judged_server.metrics.input.trec import Qrels, Topics

_DOUBLE_BYTES = 8
_LARGEST_GRADE = (1 << 31) - 1


def read_qrels(
    message: metrics_pb2.TrecRankings | statistics_service_pb2.CompareRunsRequest,
    prefix: str = "trec.",
    *,
    may_be_empty: bool = False,
) -> Qrels:
    """Return the qrels of a message whose path with its dot is `prefix`.

    Raises InvalidField at `qrels` for none unless there may be none, at `qrels_columns` for two
    forms, below the first for columns that do not fit together, at `qrels[i].grades[j]` for a
    grade in them that is no whole number, and what Qrels.of raises.
    """
    field, path = f"{prefix}qrels", f"{prefix}qrels_columns"
    if message.HasField("qrels_columns"):
        if message.qrels:
            raise _two_forms(path, "qrels")
        columns = message.qrels_columns
        topics = _read_columns(columns, _values(columns, path), (field, path), "grades")
        grades = topics.values
        whole = np.clip(np.trunc(grades), -_LARGEST_GRADE - 1, _LARGEST_GRADE) == grades
        rule = f"must be a whole number from {-_LARGEST_GRADE - 1} to {_LARGEST_GRADE}"
        refuse_first(~whole, topics.offsets, field, "grades", rule)
    else:
        rows = [(t.query_id, t.document_ids, t.grades) for t in message.qrels]
        topics = Topics.of_rows(rows, field, "grades")
    if not len(topics) and not may_be_empty:
        raise InvalidField(field, "must hold at least one topic")
    return Qrels.of(topics)


def read_run(
    message: metrics_pb2.TrecRankings,
    field: str = "trec.run",
    columns_field: str = "trec.run_columns",
) -> Topics:
    """Return the topics of the run, whose two forms errors name by these paths.

    Raises InvalidField at `columns_field` for two forms, and as Topics do.
    """
    if not message.HasField("run_columns"):
        rows = [(t.query_id, t.document_ids, t.scores) for t in message.run]
        return Topics.of_rows(rows, field, "scores")
    if message.run:
        raise _two_forms(columns_field, field.rpartition(".")[2])
    columns = message.run_columns
    scores = _values(columns, columns_field)
    paths = field, columns_field
    return _read_columns(columns, scores if len(scores) else None, paths, "scores")


def _read_columns(
    columns: metrics_pb2.TopicColumns,
    values: FloatArray | None,
    paths: tuple[str, str],
    column: str,
) -> Topics:
    counts = np.array(columns.n_documents[:], np.int64)
    query_ids, ids = columns.query_ids[:], columns.document_ids
    return Topics.of_columns(query_ids, counts, ids, values, paths, column)


def _values(columns: metrics_pb2.TopicColumns, path: str) -> FloatArray:
    raw = columns.values
    if len(raw) % _DOUBLE_BYTES:
        raise InvalidField(
            f"{path}.values", f"has {len(raw)} bytes; a number takes {_DOUBLE_BYTES}"
        )
    return np.frombuffer(raw, "<f8").astype(np.float64, copy=False)


def _two_forms(path: str, other: str) -> InvalidField:
    return InvalidField(path, f"must be left unset where {other} is given")
