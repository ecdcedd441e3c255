"""The topics of a request, one by one or in columns.

What the documents of a topic have to be is up to `metrics.trec`.

A large run holds as many ids as fill the memory caches many times over. Read topic by topic and
dropped again they stay in the cache: in lists that are made once, a run of 300,000 documents takes
1.28 times the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from judged.v1 import metrics_pb2, statistics_service_pb2

from judged_server.domain import FloatArray, IntArray
from judged_server.errors import InvalidField
from judged_server.metrics.input.columnar_topics import ColumnarTopics
from judged_server.metrics.input.qrels import Qrels
from judged_server.metrics.input.trec_topics import AnyTopic, check_unscored

_DOUBLE_BYTES = 8
_LARGEST_GRADE = (1 << 31) - 1


class RowTopic:
    """One topic of the qrels or of a run, whose lists are made each time they are asked for."""

    __slots__ = ("_document_ids", "_values", "query_id")

    def __init__(self, query_id: str, document_ids: Sequence[str], values: Sequence[float]) -> None:
        self.query_id = query_id
        self._document_ids = document_ids
        self._values = values

    @property
    def document_ids(self) -> Sequence[str]:
        """The documents that were judged, or retrieved."""
        # A slice takes a third less time than list().
        return self._document_ids[:]

    @property
    def values(self) -> Sequence[float]:
        """Their grades, or their scores if there are any."""
        return self._values[:]


def read_qrels(
    message: metrics_pb2.TrecRankings | statistics_service_pb2.CompareRunsRequest,
    prefix: str = "trec.",
) -> Qrels:
    """Return the qrels of a message whose path with its dot is `prefix`.

    Raises InvalidField at `qrels` for none, at `qrels_columns` for two forms, below
    the first for columns that do not fit together, at `qrels[i].grades[j]` for a grade in them that
    is no whole number, and what Qrels.of raises.
    """
    field = f"{prefix}qrels"
    topics: Sequence[AnyTopic]
    if message.HasField("qrels_columns"):
        if message.qrels:
            raise _two_forms(f"{prefix}qrels_columns", "qrels")
        topics = _qrels_columns(message.qrels_columns, prefix)
    else:
        topics = [RowTopic(t.query_id, t.document_ids, t.grades) for t in message.qrels]
    if not topics:
        raise InvalidField(field, "must hold at least one topic")
    return Qrels.of(topics, field)


def _qrels_columns(columns: metrics_pb2.TopicColumns, prefix: str) -> ColumnarTopics:
    path = f"{prefix}qrels_columns"
    grades, counts = _values(columns, path), _counts(columns)
    topics = ColumnarTopics.of(columns.query_ids[:], counts, columns.document_ids, grades, path)
    if not np.array_equal(np.clip(np.trunc(grades), -_LARGEST_GRADE - 1, _LARGEST_GRADE), grades):
        _refuse_grades(topics, f"{prefix}qrels")
    return topics


def read_run(
    message: metrics_pb2.TrecRankings,
    field: str = "trec.run",
    columns_field: str = "trec.run_columns",
) -> Sequence[AnyTopic]:
    """Return the topics of the run, whose two forms errors name by these paths.

    Raises InvalidField at `columns_field` for two forms, below it for columns that do not fit
    together, and at `field[i].document_ids` for more than MAX_UNSCORED documents in columns
    without scores.
    """
    if not message.HasField("run_columns"):
        return [RowTopic(t.query_id, t.document_ids, t.scores) for t in message.run]
    if message.run:
        raise _two_forms(columns_field, field.rpartition(".")[2])
    columns, path = message.run_columns, columns_field
    counts, scores = _counts(columns), _values(columns, path)
    ranked = not len(scores)
    if ranked and len(counts):
        longest = int(counts.argmax())
        check_unscored(int(counts[longest]), f"{field}[{longest}]")
    return ColumnarTopics.of(
        columns.query_ids[:], counts, columns.document_ids, None if ranked else scores, path
    )


def _counts(columns: metrics_pb2.TopicColumns) -> IntArray:
    return np.array(columns.n_documents[:], np.int64)


def _values(columns: metrics_pb2.TopicColumns, path: str) -> FloatArray:
    raw = columns.values
    if len(raw) % _DOUBLE_BYTES:
        raise InvalidField(
            f"{path}.values", f"has {len(raw)} bytes; a number takes {_DOUBLE_BYTES}"
        )
    return np.frombuffer(raw, "<f8").astype(np.float64, copy=False)


def _refuse_grades(topics: ColumnarTopics, path: str) -> None:
    for i, topic in enumerate(topics):
        for j, grade in enumerate(topic.values):
            if not (float(grade).is_integer() and -_LARGEST_GRADE - 1 <= grade <= _LARGEST_GRADE):
                rule = f"must be a whole number from {-_LARGEST_GRADE - 1} to {_LARGEST_GRADE}"
                raise InvalidField(f"{path}[{i}].grades[{j}]", rule)


def _two_forms(path: str, other: str) -> InvalidField:
    return InvalidField(path, f"must be left unset where {other} is given")
