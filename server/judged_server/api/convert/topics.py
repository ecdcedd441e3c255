"""The topics of a request, one by one or in columns.

What the documents of a topic have to be is up to `metrics.trec`.

A large run holds as many ids as fill the memory caches many times over. Read topic by topic and
dropped again they stay in the cache, which is worth more than reading them once only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from judged.v1 import judge_service_pb2

from judged_server.domain import FloatArray, IntArray
from judged_server.errors import InvalidField
from judged_server.metrics.input.columnar_topics import JoinedTopics
from judged_server.metrics.input.qrels import Qrels
from judged_server.metrics.input.trec_topics import AnyTopic, check_unscored

_DOUBLE_BYTES = 8
_LARGEST_GRADE = (1 << 31) - 1


class QrelsTopic:
    """One topic of the qrels: an `AnyTopic` of `metrics.trec`."""

    __slots__ = ("_message", "query_id")

    def __init__(self, message: judge_service_pb2.TopicQrels) -> None:
        self._message = message
        self.query_id = message.query_id

    @property
    def document_ids(self) -> list[str]:
        """The documents that were judged."""
        # A slice takes a third less time than list().
        return self._message.document_ids[:]

    @property
    def values(self) -> list[int]:
        """Their grades."""
        return self._message.grades[:]


class RunTopic:
    """One topic of a run: an `AnyTopic` of `metrics.trec`."""

    __slots__ = ("_message", "query_id")

    def __init__(self, message: judge_service_pb2.TopicRun) -> None:
        self._message = message
        self.query_id = message.query_id

    @property
    def document_ids(self) -> list[str]:
        """The documents that were retrieved."""
        return self._message.document_ids[:]

    @property
    def values(self) -> list[float]:
        """Their scores, or nothing."""
        return self._message.scores[:]


def read_qrels(
    message: judge_service_pb2.TrecRankings | judge_service_pb2.CompareRunsRequest,
    prefix: str = "trec.",
) -> Qrels:
    """Return the qrels of a message whose path with its dot is `prefix`.

    Raises InvalidField at `qrels` for none, at `joined_qrels` for two forms, below
    the first for columns that do not fit together, at `qrels[i].grades[j]` for a grade in them that
    is no whole number, and what Qrels.of raises.
    """
    field = f"{prefix}qrels"
    topics: Sequence[AnyTopic]
    if message.HasField("joined_qrels"):
        if message.qrels:
            raise _two_forms(f"{prefix}joined_qrels", "qrels")
        topics = _joined_qrels(message.joined_qrels, prefix)
    else:
        topics = [QrelsTopic(topic) for topic in message.qrels]
    if not topics:
        raise InvalidField(field, "must hold at least one topic")
    return Qrels.of(topics, field)


def _joined_qrels(columns: judge_service_pb2.JoinedTopics, prefix: str) -> JoinedTopics:
    path = f"{prefix}joined_qrels"
    grades, counts = _values(columns, path), _counts(columns)
    topics = JoinedTopics.of(columns.query_ids[:], counts, columns.document_ids, grades, path)
    if not np.array_equal(np.clip(np.trunc(grades), -_LARGEST_GRADE - 1, _LARGEST_GRADE), grades):
        _refuse_grades(topics, f"{prefix}qrels")
    return topics


def read_run(message: judge_service_pb2.TrecRankings, field: str = "trec") -> Sequence[AnyTopic]:
    """Return the topics of the run.

    Raises InvalidField at `field.joined_run` for two forms, below it for columns that do not fit
    together, and at `field.run[i].document_ids` for more than MAX_UNSCORED documents in columns
    without scores.
    """
    if not message.HasField("joined_run"):
        return [RunTopic(topic) for topic in message.run]
    if message.run:
        raise _two_forms(f"{field}.joined_run", "run")
    columns, path = message.joined_run, f"{field}.joined_run"
    counts, scores = _counts(columns), _values(columns, path)
    ranked = not len(scores)
    if ranked and len(counts):
        longest = int(counts.argmax())
        check_unscored(int(counts[longest]), f"{field}.run[{longest}]")
    return JoinedTopics.of(
        columns.query_ids[:], counts, columns.document_ids, None if ranked else scores, path
    )


def _counts(columns: judge_service_pb2.JoinedTopics) -> IntArray:
    return np.array(columns.n_documents[:], np.int64)


def _values(columns: judge_service_pb2.JoinedTopics, path: str) -> FloatArray:
    _check_bytes(columns.values, f"{path}.values")
    return _doubles(columns.values)


def _doubles(raw: bytes) -> FloatArray:
    return np.frombuffer(raw, "<f8").astype(np.float64, copy=False)


def _check_bytes(raw: bytes, path: str) -> None:
    if len(raw) % _DOUBLE_BYTES:
        raise InvalidField(path, f"has {len(raw)} bytes; a number takes {_DOUBLE_BYTES}")


def _refuse_grades(topics: JoinedTopics, path: str) -> None:
    for i, topic in enumerate(topics):
        for j, grade in enumerate(topic.values):
            if not (float(grade).is_integer() and -_LARGEST_GRADE - 1 <= grade <= _LARGEST_GRADE):
                rule = f"must be a whole number from {-_LARGEST_GRADE - 1} to {_LARGEST_GRADE}"
                raise InvalidField(f"{path}[{i}].grades[{j}]", rule)


def _two_forms(path: str, other: str) -> InvalidField:
    return InvalidField(path, f"must be left unset where {other} is given")
