"""Bad calibrations: of judges, and of what is to be calibrated."""

from __future__ import annotations

from functools import partial

from judged.v1 import groups_pb2, verdicts_pb2
from judged.v1 import judge_service_pb2 as pb

from tests.integration.bad_input.case import NAN, Case
from tests.integration.bad_input.judging import batch
from tests.integration.bad_input.statistics.agreement import calibrate


def calibrated(**calibrator: object) -> pb.BatchJudgeRequest:
    given = {"scoring_key": "0" * 64, "slope": 1.0, **calibrator}
    calibration = groups_pb2.JudgeCalibration(calibrator=groups_pb2.Calibrator(**given))
    return batch(kind="exact", calibration=calibration)


def named(name: str) -> pb.BatchJudgeRequest:
    return batch(kind="exact", calibration=groups_pb2.JudgeCalibration(name=name))


_CALIBRATOR = "judge.calibration.calibrator"

CASES = [
    Case(
        "judge.calibration", lambda: batch(kind="exact", calibration=groups_pb2.JudgeCalibration())
    ),
    Case("judge.calibration.name", lambda: named("unknown")),
    Case("judge.calibration", calibrated, field="Calibrator.scoring_key"),
    *[
        Case(f"{_CALIBRATOR}.slope", partial(calibrated, slope=slope))
        for slope in (0.0, -1.0, NAN, float("inf"))
    ],
    Case(f"{_CALIBRATOR}.intercept", lambda: calibrated(intercept=NAN)),
    Case(f"{_CALIBRATOR}.min_score", lambda: calibrated(min_score=1.1)),
    Case(f"{_CALIBRATOR}.accept", lambda: calibrated(accept=NAN)),
    Case(f"{_CALIBRATOR}.reject", lambda: calibrated(reject=-0.1)),
    Case(
        _CALIBRATOR, lambda: calibrated(not_fitted="too few labels"), field="Calibrator.not_fitted"
    ),
    Case("max_share", lambda: calibrate(max_share=NAN)),
    Case("judge.scoring_key", lambda: calibrate(judge=verdicts_pb2.JudgeIdentity(kind="exact"))),
    Case("criterion", lambda: calibrate(criterion=9)),
]

HARMLESS = {
    "JudgeCalibration.calibrator": "see its fields",
    "VerdictColumns.stage": "callers may send back what they got; it is not read",
    **{
        f"JudgeIdentity.{field.name}": "what a reply had, sent back; scoring_key is in a case"
        for field in verdicts_pb2.JudgeIdentity.DESCRIPTOR.fields
    },
}
