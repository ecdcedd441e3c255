"""Judgements and runs as messages.

Owns the choice between the two forms that the contract has for ids and for scores: joined and
packed where that is possible, since the server then makes no text of each id.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from struct import error as struct_error
from struct import pack
from typing import NamedTuple, SupportsFloat

from judged.errors import InvalidArgument
from judged.runs import RetrievedDocuments, ScoredDocuments, TrecRankings
from judged.v1 import judge_service_pb2 as pb

_TEXT_BYTES = 3
"""What a string costs on the wire beside its characters."""
_LITTLE_ENDIAN = "" if sys.byteorder == "little" else "<"
"""The contract's order of bytes; packing in the machine's own takes a quarter less time."""


_UNFIT = (UnicodeEncodeError, TypeError, ValueError)
"""What protobuf and struct raise for values that a message can't hold."""


class Joined(NamedTuple):
    """The documents of a query, whose ids are one text already; it is empty where they can't be.

    May stand for the documents of judgements or of a run on their way to a message; of judgements
    the scores are the grades.
    """

    document_ids: Collection[str]
    scores: Collection[float]
    text: str

    @property
    def size(self) -> int:
        """What the documents take on the wire, in bytes, about."""
        characters = len(self.text) or sum(len(str(name)) for name in self.document_ids)
        return characters + (_TEXT_BYTES + 8) * len(self.document_ids)


def joined(documents: RetrievedDocuments) -> Joined:
    """Return documents with their ids joined, if they can be joined and told apart again."""
    if isinstance(documents, Joined):
        return documents
    ids: Collection[str]
    scores: Collection[float] = ()
    if isinstance(documents, ScoredDocuments):
        ids, scores = documents
    elif type(documents) is dict or isinstance(documents, Mapping):  # the first is the faster
        ids, scores = documents.keys(), documents.values()
    else:
        ids = documents
    try:
        text = "" if isinstance(ids, str) else "\n".join(ids)
    except TypeError:
        text = ""  # the other form says what is wrong with which
    if text.count("\n") != len(ids) - 1:
        text = ""
    return Joined(ids, scores, text)


def write_trec(message: pb.TrecRankings, relevance: TrecRankings) -> None:
    """Fill in the message of judgements and a run. Raises InvalidArgument for what can't be sent.

    What a topic's columns have to be beyond that is up to the server.
    """
    for i, (query_id, grades) in enumerate(relevance.qrels.items()):
        documents = joined(grades)
        try:
            judged = message.qrels.add(query_id=query_id)
            _write_ids(judged, documents)
            judged.grades.extend(documents.scores)  # type: ignore[arg-type]  # the error names them
        except _UNFIT as problem:
            raise _unfit(f"trec.qrels[{i}]", query_id, documents, "grades", problem) from None
    for i, (query_id, ranked) in enumerate(relevance.run.items()):
        documents = joined(ranked)
        try:
            retrieved = message.run.add(query_id=query_id)
            _write_ids(retrieved, documents)
            if len(documents.scores):
                _write_scores(retrieved, documents.scores)
        except _UNFIT as problem:
            raise _unfit(f"trec.run[{i}]", query_id, documents, "scores", problem) from None


def _write_ids(message: pb.TopicQrels | pb.TopicRun, documents: Joined) -> None:
    if isinstance(documents.document_ids, str):
        raise TypeError("must be a list of ids, not one text")
    if documents.text:
        message.joined_document_ids = documents.text
    else:
        message.document_ids.extend(documents.document_ids)


def _write_scores(message: pb.TopicRun, scores: Collection[float]) -> None:
    try:
        message.score_bytes = pack(f"{_LITTLE_ENDIAN}{len(scores)}d", *scores)
    except (struct_error, OverflowError):
        message.scores.extend(scores)


def _unfit(
    path: str, query_id: object, documents: Joined, column: str, problem: Exception
) -> InvalidArgument:
    """Return an error that names the first thing of a topic that no message can hold."""
    names: list[tuple[str, object]] = [(f"{path}.query_id", query_id)]
    if not isinstance(documents.document_ids, str):
        names += [(f"{path}.document_ids[{j}]", n) for j, n in enumerate(documents.document_ids)]
    for field, name in names:
        if not isinstance(name, str):
            return InvalidArgument.of_field(field, f"must be text, not {type(name).__name__}")
        try:
            name.encode()
        except UnicodeEncodeError as error:
            rule = f"holds a lone surrogate at character {error.start}, which UTF-8 can't carry"
            return InvalidArgument.of_field(field, rule)
    for j, value in enumerate(documents.scores):
        if not isinstance(value, SupportsFloat):
            rule = f"must be a number, not {type(value).__name__}"
            return InvalidArgument.of_field(f"{path}.{column}[{j}]", rule)
    return InvalidArgument.of_field(path, str(problem))
