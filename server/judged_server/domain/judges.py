"""Judges as a request asks for them, and as a reply names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from judged.values.calibrators import Calibrator, ErrorGuarantee

ParameterScalar = bool | int | float | str


@dataclass(frozen=True, slots=True)
class JudgeSpec:
    """What a request asks for: a kind, and whatever it overrides. Unset means the default.

    `calibration` may be the name of one that the server has. `guarantee` is of a cascade.
    """

    kind: str = ""
    profile: str = ""
    min_score: float | None = None
    parameters: Mapping[str, ParameterScalar] = field(default_factory=dict)
    members: tuple[PanelMember, ...] = ()
    calibration: Calibrator | str | None = None
    guarantee: ErrorGuarantee | None = None


@dataclass(frozen=True, slots=True)
class PanelMember:
    """A judge of a panel, as a request asks for it; `weight` None stands for 1."""

    judge: JudgeSpec
    weight: float | None = None
