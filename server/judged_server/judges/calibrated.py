"""A judge with a calibration, and the calibrations that an operator offers by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from judged.errors import InvalidArgument
from judged.values.calibrators import Calibrator
from judged.values.judges import JudgeIdentity

from judged_server.domain import QueryGroup, ScoreColumns
from judged_server.errors import InvalidField
from judged_server.judges.base import Caller, ComposedJudge, Judge
from judged_server.settings import SettingsError
from judged_server.statistics.calibration.reliability import Platt


def find_calibrator(
    wanted: Calibrator | str, known: Mapping[str, Calibrator], field: str
) -> Calibrator:
    """Return the calibration that a request brings or names. Raises InvalidField."""
    if not isinstance(wanted, str):
        return wanted
    found = known.get(wanted)
    if found is None:
        names = ", ".join(known) or "none; its operator sets calibrations_dir"
        rule = f"no calibration is called {wanted[:80]!r}; this server has {names}"
        raise InvalidField(f"{field}.name", rule)
    return found


def check_fits(calibrator: Calibrator, identity: JudgeIdentity, field: str) -> None:
    """Raise InvalidField for a calibration of another judge."""
    if calibrator.scoring_key != identity.scoring_key:
        rule = (
            f"was made for another judge than {identity.signature}, or for another version of it; "
            "ask for the judge and parameters that it was made with, or calibrate this one"
        )
        raise InvalidField(field, rule)


class CalibratedJudge(ComposedJudge):
    """Another judge, whose verdicts get the probabilities of a calibration."""

    def __init__(self, inner: Judge, calibrator: Calibrator, field: str) -> None:
        """Raise InvalidField, at `field` of the request, for a calibration of another judge."""
        check_fits(calibrator, inner.identity, field)
        super().__init__([inner])
        self.inner = inner
        self.calibrator = calibrator
        self.identity = inner.identity.calibrated(calibrator)

    async def judge(self, groups: Sequence[QueryGroup], caller: Caller) -> ScoreColumns:
        """Return the other judge's scores, with probabilities; 0 where there is no score."""
        columns = await self.inner.judge(groups, caller)
        platt = Platt(self.calibrator.slope, self.calibrator.intercept)
        probabilities = np.where(columns.ok, platt.probabilities(columns.scores), 0.0)
        return replace(columns, probabilities=probabilities)


SUFFIX = ".calibration.json"


def load_calibrations(folder: Path) -> Mapping[str, Calibrator]:
    """Return the calibrations of NAME.calibration.json by name. Raises SettingsError."""
    paths = sorted(folder.glob(f"*{SUFFIX}"))
    if not paths:
        raise SettingsError(
            f"calibrations_dir: {folder} has no file NAME{SUFFIX}; make one with "
            f"`judged calibrate LABELS.jsonl --judge KIND -o NAME{SUFFIX}`"
        )
    try:
        return {path.name.removesuffix(SUFFIX): Calibrator.load(path) for path in paths}
    except (OSError, InvalidArgument) as error:
        raise SettingsError(f"calibrations_dir: {error}") from None
