"""Between human labels, corrected means and their messages."""

from __future__ import annotations

from judged._statistics import read_estimate
from judged.correction import CorrectedEstimate, HumanLabels
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import statistics_pb2


def write_labels(labels: HumanLabels) -> pb.HumanLabels:
    """Return the message of human labels."""
    return pb.HumanLabels(query_ids=labels.query_ids, relevant=labels.relevant)


def read_corrected(message: statistics_pb2.CorrectedEstimate) -> CorrectedEstimate:
    """Return a corrected mean; estimates that are unset are None."""
    return CorrectedEstimate(
        corrected=read_estimate(message.corrected) if message.HasField("corrected") else None,
        naive=read_estimate(message.naive) if message.HasField("naive") else None,
        labels_only=read_estimate(message.labels_only) if message.HasField("labels_only") else None,
        n_labelled=message.n_labelled,
        n=message.n,
        power=message.power,
        warnings=tuple(message.warnings),
    )
