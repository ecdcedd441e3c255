"""Reads what an evaluation gives back: the table, the judge, and what was found of negatives."""

from __future__ import annotations

from judged._convert.fields import read_fields
from judged._convert.verdicts import usage_of
from judged.types.evaluation import Evaluation, NegativeMatch
from judged.v1 import judge_service_pb2 as pb


def read_evaluation(message: pb.EvaluateResponse) -> Evaluation:
    """Return an evaluation; verdicts, matches and values of queries came before it."""
    return read_fields(Evaluation, message, verdicts=None, usage=usage_of(message))


def read_match(message: pb.NegativeMatch) -> NegativeMatch:
    """Return a retrieved text that matches a negative reference."""
    return read_fields(NegativeMatch, message)
