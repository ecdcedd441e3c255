"""Judgements and runs as messages.

Owns the choice between the two forms that the contract has for ids and for scores: joined and
packed where that is possible, since the server then makes no text of each id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import error as struct_error
from struct import pack

from judged.types import TrecRankings
from judged.v1 import judge_service_pb2 as pb


def write_trec(message: pb.TrecRankings, relevance: TrecRankings) -> None:
    """Fill in the message of judgements and a run."""
    for query_id, grades in relevance.qrels.items():
        judged = message.qrels.add(query_id=query_id)
        if not _join(judged, grades):
            judged.document_ids.extend(grades)
        judged.grades.extend(grades.values())
    for query_id, ranked in relevance.run.items():
        retrieved = message.run.add(query_id=query_id)
        if not _join(retrieved, ranked):
            retrieved.document_ids.extend(ranked)
        if isinstance(ranked, Mapping):
            _write_scores(retrieved, ranked)


def _join(message: pb.TopicQrels | pb.TopicRun, ids: Mapping[str, float] | Sequence[str]) -> bool:
    """Fill in joined ids; return whether these ids can be joined and told apart again."""
    if isinstance(ids, str):
        return False
    try:
        joined = "\n".join(ids)
        if joined.count("\n") != len(ids) - 1 or not joined:
            return False
        message.joined_document_ids = joined
    except (TypeError, UnicodeEncodeError):
        return False  # the other form says what is wrong with which
    return True


def _write_scores(message: pb.TopicRun, ranked: Mapping[str, float]) -> None:
    scores = ranked.values()
    try:
        message.score_bytes = pack(f"<{len(scores)}d", *scores)
    except (struct_error, OverflowError):
        message.scores.extend(scores)
