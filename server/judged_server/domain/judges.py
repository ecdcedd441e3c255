"""Judges as a request asks for them, and as a reply names them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from judged.values.calibrators import Calibrator, ErrorGuarantee

ParameterScalar = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a judge, or a metric: its default gives the type, the others the rule."""

    name: str
    default: ParameterScalar
    description: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def rule(self) -> str:
        """The rule in words, for error messages and GetServerInfo."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if isinstance(self.default, bool):
            return "true or false"
        kind = {int: "a whole number", float: "a number", str: "a name"}[type(self.default)]
        if self.minimum is not None and self.maximum is not None:
            return f"{kind} from {self.minimum:.15g} to {self.maximum:.15g}"
        if self.minimum is not None:
            return f"{kind}, at least {self.minimum:g}"
        return kind

    def check(self, value: ParameterScalar) -> ParameterScalar:
        """Return the value in the default's type. Raises ValueError where it breaks the rule."""
        wanted = type(self.default)
        if wanted is float and type(value) is int:
            value = float(value)
        fits = type(value) is wanted and (not self.choices or value in self.choices)
        if fits and isinstance(value, int | float) and not isinstance(value, bool):
            fits = (
                math.isfinite(value)
                and (self.minimum is None or value >= self.minimum)
                and (self.maximum is None or value <= self.maximum)
            )
        if not fits:
            raise ValueError(self.rule)
        return value

    def read(self, text: str) -> ParameterScalar:
        """Return the value that a word or a number stands for. Raises ValueError with the rule."""
        if isinstance(self.default, str):
            return self.check(text)
        # float() takes more than people write: "1_0", "\u0663".
        if "_" in text or not text.isascii():
            raise ValueError(self.rule)
        try:
            value = float(text)
        except ValueError:
            raise ValueError(self.rule) from None
        return self.check(value + 0.0)  # -0.0 becomes 0.0, which prints one way


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
