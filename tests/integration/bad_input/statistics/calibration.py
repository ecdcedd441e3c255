"""Bad calibrations: of judges, and of what is to be calibrated."""

from __future__ import annotations

from functools import partial

from judged.v1 import groups_pb2, verdicts_pb2
from judged.v1 import judge_service_pb2 as pb

from tests.integration.bad_input.case import NAN, case
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
    case(
        "JudgeSpec.calibration",
        "judge.calibration",
        lambda: batch(kind="exact", calibration=groups_pb2.JudgeCalibration()),
    ),
    case("JudgeCalibration.name", "judge.calibration.name", lambda: named("unknown")),
    case("Calibrator.scoring_key", "judge.calibration", calibrated),
    *[
        case("Calibrator.slope", f"{_CALIBRATOR}.slope", partial(calibrated, slope=slope))
        for slope in (0.0, -1.0, NAN, float("inf"))
    ],
    case("Calibrator.intercept", f"{_CALIBRATOR}.intercept", lambda: calibrated(intercept=NAN)),
    case("Calibrator.min_score", f"{_CALIBRATOR}.min_score", lambda: calibrated(min_score=1.1)),
    case("Calibrator.accept", f"{_CALIBRATOR}.accept", lambda: calibrated(accept=NAN)),
    case("Calibrator.reject", f"{_CALIBRATOR}.reject", lambda: calibrated(reject=-0.1)),
    case("Calibrator.not_fitted", _CALIBRATOR, lambda: calibrated(not_fitted="too few labels")),
    case("CalibrateRequest.max_share", "max_share", lambda: calibrate(max_share=NAN)),
    case(
        "CalibrateRequest.judge",
        "judge.scoring_key",
        lambda: calibrate(judge=verdicts_pb2.JudgeIdentity(kind="exact")),
    ),
    case("CalibrateRequest.criterion", "criterion", lambda: calibrate(criterion=9)),
]

HARMLESS = {
    "JudgeCalibration.calibrator": "see its fields",
    "VerdictColumns.stage": "callers may send back what they got; it is not read",
    **{
        f"JudgeIdentity.{field.name}": "what a reply had, sent back; scoring_key is in a case"
        for field in verdicts_pb2.JudgeIdentity.DESCRIPTOR.fields
    },
}
