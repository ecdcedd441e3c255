"""Between the public values of `agreement` and the messages of Calibrate."""

from __future__ import annotations

from collections.abc import Sequence

from judged import errors
from judged._codec import read_fields, write_fields
from judged._inputs import need_kind
from judged.errors import WrongType
from judged.v1 import statistics_service_pb2, verdicts_pb2
from judged.values.calibration import (
    CalibrateOptions,
    Calibration,
    LabelledScores,
    Reliability,
)
from judged.values.calibrators import Calibrator
from judged.values.intervals import IntervalOptions
from judged.values.judges import JudgeIdentity


def write_calibrate(
    items: LabelledScores, options: CalibrateOptions, interval: IntervalOptions | None
) -> statistics_service_pb2.CalibrateRequest:
    """Return the message. Raises InvalidArgument when there is not one label entry a score."""
    need_kind(items, "items", LabelledScores, "LabelledScores")
    for i, label in enumerate(items.labels):
        if label is not None and label not in (0, 1):
            raise WrongType.of_field(f"labels[{i}]", "must be True, False or None")
    if len(items.labels) != len(items.scores):
        raise errors.InvalidArgument.of_field(
            "labels", f"has {len(items.labels)} entries for {len(items.scores)} scores"
        )
    inclusion = items.inclusion_probabilities
    if len(inclusion) not in {0, len(items.scores)}:
        raise errors.InvalidArgument.of_field(
            "inclusion_probabilities",
            f"has {len(inclusion)} entries for {len(items.scores)} scores",
        )
    labelled = [i for i, label in enumerate(items.labels) if label is not None]
    return write_fields(
        statistics_service_pb2.CalibrateRequest,
        options,
        scores=items.scores,
        labelled=labelled,
        labels=[bool(items.labels[i]) for i in labelled],
        clusters=numbers_of(items.clusters),
        inclusion_probabilities=[inclusion[i] for i in labelled] if len(inclusion) else (),
        interval=interval,
        judge=write_identity(options.judge),
    )


def write_identity(judge: JudgeIdentity | None) -> verdicts_pb2.JudgeIdentity | None:
    """Return the message of a judge's identity, as replies have it."""
    if judge is not None:
        need_kind(judge, "judge", JudgeIdentity, "the JudgeIdentity of verdicts")
    return None if judge is None else write_fields(verdicts_pb2.JudgeIdentity, judge)


def numbers_of(names: Sequence[str]) -> list[int]:
    """Return a number for each name, the same for the same."""
    numbers: dict[str, int] = {}
    return [numbers.setdefault(name, len(numbers)) for name in names]


def read_calibration(message: statistics_service_pb2.CalibrateResponse) -> Calibration:
    """Return the reply of Calibrate."""
    reliability = None
    if message.HasField("reliability"):
        made = read_fields(Calibrator, message.reliability.calibrator, made=message.signature)
        reliability = read_fields(Reliability, message.reliability, calibrator=made)
    return read_fields(Calibration, message, reliability=reliability)
