"""A judge with a calibration: the same scores, with probabilities beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from judged_server.domain import (
    CacheMode,
    Calibrator,
    JudgeIdentity,
    QueryGroup,
    ScoreColumns,
    Status,
)
from judged_server.errors import InvalidField
from judged_server.judges.base import Caller, Judge
from judged_server.llm.question import PlannedCall
from judged_server.statistics.calibration import Platt


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


@dataclass(frozen=True)
class CalibratedJudge:
    """Another judge, whose verdicts get the probabilities of a calibration."""

    inner: Judge
    calibrator: Calibrator

    @classmethod
    def of(cls, inner: Judge, calibrator: Calibrator, field: str) -> CalibratedJudge:
        """Return the judge. Raises InvalidField for a calibration of another one."""
        check_fits(calibrator, inner.identity, field)
        return cls(inner, calibrator)

    @property
    def identity(self) -> JudgeIdentity:
        """Which judge this is; the hash of the calibration is in the fingerprint."""
        return self.inner.identity.calibrated(self.calibrator)

    @property
    def wants_embeddings(self) -> bool:
        """Whether groups must bring the caller's vectors."""
        return self.inner.wants_embeddings

    @property
    def wants_spans(self) -> bool:
        """Whether groups must bring spans."""
        return self.inner.wants_spans

    @property
    def priced(self) -> bool:
        """Whether the prices of all models that it may ask are known."""
        return self.inner.priced

    @property
    def unavailable(self) -> str:
        """Why it can't judge here now, "" when it can."""
        return self.inner.unavailable

    def check_api_keys(self, cache: CacheMode) -> None:
        """Raise ModelNotConfigured when it may have to ask a model whose key is missing."""
        self.inner.check_api_keys(cache)

    def planned_calls(self, groups: Sequence[QueryGroup]) -> Iterable[PlannedCall]:
        """Return all that `judge` would ask language models about the groups."""
        return self.inner.planned_calls(groups)

    async def judge(self, groups: Sequence[QueryGroup], caller: Caller) -> ScoreColumns:
        """Return the other judge's scores, with probabilities; 0 where there is no score."""
        columns = await self.inner.judge(groups, caller)
        platt = Platt(self.calibrator.slope, self.calibrator.intercept)
        probabilities = platt.probabilities(columns.scores)
        if columns.statuses is not None:
            probabilities = np.where(columns.statuses == Status.OK, probabilities, 0.0)
        return replace(columns, probabilities=probabilities)
