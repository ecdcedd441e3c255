"""Judgements and runs as messages."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress
from struct import error as struct_error
from struct import pack
from typing import Any, NamedTuple

from google.protobuf.message import Message

from judged._codec import write_at
from judged._inputs import all_texts, join_ids, need_id, need_ids
from judged.errors import InvalidArgument
from judged.v1 import metrics_pb2
from judged.values.rankings import RetrievedDocuments, ScoredDocuments, TrecRankings

_TEXT_BYTES = 3
"""What a string costs on the wire beside its characters."""
_LITTLE_ENDIAN = "" if sys.byteorder == "little" else "<"
"""The contract's order of bytes; packing in the machine's own takes a quarter less time."""


class Joined(NamedTuple):
    """The documents of a query, whose ids are one text already; None where they can't be.

    May stand for the documents of judgements or of a run on their way to a message; of judgements
    the scores are the grades.
    """

    document_ids: Collection[str]
    scores: Collection[float]
    text: str | None

    @property
    def size(self) -> int:
        """What the documents take on the wire, in bytes, about."""
        characters = len(self.text or "") or sum(len(str(name)) for name in self.document_ids)
        return characters + (_TEXT_BYTES + 8) * len(self.document_ids)


def joined(documents: RetrievedDocuments) -> Joined:
    """Return documents with their ids as texts and joined, if they are ids."""
    if isinstance(documents, Joined):
        return documents
    ids: Collection[str]
    scores: Collection[float] = ()
    if isinstance(documents, ScoredDocuments):
        ids, scores = documents
    elif isinstance(documents, Mapping):
        ids, scores = documents.keys(), documents.values()
    else:
        ids = documents
    if isinstance(ids, str):
        return Joined(ids, scores, None)  # the other form says what is wrong with it
    ids, text = join_ids(ids)
    return Joined(ids, scores, text)


def write_trec(relevance: TrecRankings) -> metrics_pb2.TrecRankings:
    """Return the message of judgements and a run. Raises InvalidArgument for what can't be sent.

    What a topic's columns have to be beyond that is up to the server.
    """
    message: Any = metrics_pb2.TrecRankings()
    for name, given, kind, column in (
        ("qrels", relevance.qrels, metrics_pb2.TopicQrels, "grades"),
        ("run", relevance.run, metrics_pb2.TopicRun, "scores"),
    ):
        topics, columns = list(map(joined, given.values())), f"{name}_columns"
        if name == "run":
            topics = _all_scored(topics)
        if given and not _write_columns(getattr(message, columns), given, topics, column):
            message.ClearField(columns)
            getattr(message, name).extend(_topics(f"trec.{name}", kind, column, given, topics))
    return message  # type: ignore[no-any-return]  # of any field


def _topics(
    path: str,
    kind: type[Message],
    column: str,
    query_ids: Iterable[object],
    topics: Sequence[Joined],
) -> Iterator[Message]:
    """Yield messages of topics one by one; what none can hold is named by its place."""
    for i, (query_id, documents) in enumerate(zip(query_ids, topics, strict=True)):
        topic = f"{path}[{i}]"
        if isinstance(documents.document_ids, str):
            raise InvalidArgument.of_field(topic, "must be a list of ids, not one text")
        ids = {
            "query_id": need_id(query_id, f"{topic}.query_id"),
            "document_ids": need_ids(documents.document_ids, f"{topic}.document_ids"),
        }
        yield write_at(topic, kind, **ids, **{column: documents.scores})


def _all_scored(run: list[Joined]) -> list[Joined]:
    """Return topics that all have scores, or none: the places where only some had any."""
    if not any(len(topic.scores) for topic in run):
        return run
    return [
        topic
        if len(topic.scores)
        else topic._replace(scores=range(0, -len(topic.document_ids), -1))
        for topic in run
    ]


def _write_columns(
    message: metrics_pb2.TopicColumns,
    query_ids: Collection[str],
    topics: Sequence[Joined],
    column: str,
) -> bool:
    """Fill in topics; return whether that could be done. What is in the message if not is void.

    Judgements can't go without grades, as a run may without scores.
    """
    counts = [len(topic.document_ids) for topic in topics]
    texts = [topic.text for topic in topics]
    n_scores = [len(topic.scores) for topic in topics]
    scored = any(n_scores) or column == "grades"
    if None in texts or not all_texts(query_ids) or (scored and n_scores != counts):
        return False
    with_ids = compress(texts, counts)
    text = "\n".join(with_ids)  # type: ignore[arg-type]  # none of them is None
    n = sum(counts)
    if text.count("\n") != max(n - 1, 0):
        return False  # an id holds a line feed
    try:
        message.query_ids.extend(query_ids)
        message.n_documents.extend(counts)
        message.document_ids = text
        if scored:
            scores = chain.from_iterable(topic.scores for topic in topics)
            message.values = pack(f"{_LITTLE_ENDIAN}{n}d", *scores)
    except (TypeError, ValueError, struct_error, OverflowError):
        return False
    return True
