"""The topics of a request, whose columns are read as they are asked for.

Owns the reading of TopicQrels and TopicRun, and that ids and scores come in one form. What the
columns have to be is up to `metrics.trec`.

A large run holds as many ids as fill the memory caches many times over. Read topic by topic and
dropped again they stay in the cache, which is worth more than reading them once only.
"""

from __future__ import annotations

from collections.abc import Iterable

from judged.v1 import judge_service_pb2

from judged_server.errors import InvalidField
from judged_server.metrics.joined_ids import split_ids
from judged_server.metrics.trec_topics import unpacked

_DOUBLE_BYTES = 8


class QrelsTopic:
    """One topic of the qrels: an `AnyTopic` of `metrics.trec`."""

    __slots__ = ("_message", "joined_ids", "query_id")
    documents = None
    packed_values = None

    def __init__(self, message: judge_service_pb2.TopicQrels) -> None:
        self._message = message
        self.query_id = message.query_id
        # Without any ids both forms are the same, and the joined one is the faster.
        joined = message.joined_document_ids
        self.joined_ids = joined if joined or not message.document_ids else None

    @property
    def document_ids(self) -> list[str]:
        """The documents that were judged."""
        if self.joined_ids is not None:
            return split_ids(self.joined_ids)
        return self._message.document_ids[:]  # a slice takes a third less time than list()

    @property
    def values(self) -> list[int]:
        """Their grades."""
        return self._message.grades[:]


class RunTopic:
    """One topic of a run: an `AnyTopic` of `metrics.trec`."""

    __slots__ = ("_message", "joined_ids", "query_id")
    documents = None

    def __init__(self, message: judge_service_pb2.TopicRun) -> None:
        self._message = message
        self.query_id = message.query_id
        # Without any ids both forms are the same, and the joined one is the faster.
        joined = message.joined_document_ids
        self.joined_ids = joined if joined or not message.document_ids else None

    @property
    def document_ids(self) -> list[str]:
        """The documents that were retrieved."""
        if self.joined_ids is not None:
            return split_ids(self.joined_ids)
        return self._message.document_ids[:]

    @property
    def packed_values(self) -> bytes | None:
        """Their scores as little-endian doubles, where they came so."""
        return self._message.score_bytes or None

    @property
    def values(self) -> list[float]:
        """Their scores, or nothing."""
        raw = self._message.score_bytes
        return unpacked(raw).tolist() if raw else self._message.scores[:]


def read_qrels(
    messages: Iterable[judge_service_pb2.TopicQrels], field: str = "trec.qrels"
) -> list[QrelsTopic]:
    """Return the topics of the qrels. Raises InvalidField at `field[i]` for ids in two forms."""
    topics = []
    for i, message in enumerate(messages):
        topic = QrelsTopic(message)
        topics.append(topic)
        if topic.joined_ids and message.document_ids:
            raise _two_forms(f"{field}[{i}]")
    return topics


def read_run(
    messages: Iterable[judge_service_pb2.TopicRun], field: str = "trec.run"
) -> list[RunTopic]:
    """Return the topics of a run.

    Raises InvalidField at `field[i]` for ids or scores in two forms, and for score_bytes that are
    no whole number of doubles.
    """
    topics = []
    for i, message in enumerate(messages):
        topic = RunTopic(message)
        topics.append(topic)
        if topic.joined_ids and message.document_ids:
            raise _two_forms(f"{field}[{i}]")
        raw = topic.packed_values
        if raw is not None:
            if message.scores:
                rule = "must be left empty where scores are given"
                raise InvalidField(f"{field}[{i}].score_bytes", rule)
            if len(raw) % _DOUBLE_BYTES:
                rule = f"has {len(raw)} bytes; a score takes {_DOUBLE_BYTES}"
                raise InvalidField(f"{field}[{i}].score_bytes", rule)
    return topics


def _two_forms(path: str) -> InvalidField:
    rule = "must be left empty where document_ids are given"
    return InvalidField(f"{path}.joined_document_ids", rule)
