"""Reads what an evaluation gives back: the table, the judge, and what was found of negatives."""

from __future__ import annotations

from judged._convert.judges import read_identity
from judged._convert.metrics import read_table
from judged._convert.verdicts import read_verdict_counts, usage_of
from judged.types.evaluation import Evaluation, NegativeMatch, NegativeReport
from judged.v1 import judge_service_pb2 as pb


def read_evaluation(message: pb.EvaluateResponse) -> Evaluation:
    """Return an evaluation; verdicts, matches and values of queries came before it."""
    return Evaluation(
        read_table(message.table),
        read_identity(message.judge) if message.HasField("judge") else None,
        None,
        _read_negatives(message.negatives) if message.HasField("negatives") else None,
        usage_of(message),
    )


def _read_negatives(message: pb.NegativeReport) -> NegativeReport:
    counts = read_verdict_counts(message.counts)
    return NegativeReport(message.queries, message.queries_hit, [], counts)


def read_match(message: pb.NegativeMatch) -> NegativeMatch:
    """Return a retrieved text that matches a negative reference."""
    return NegativeMatch(
        message.query_id, message.retrieved, message.negative, message.document_id, message.score
    )
