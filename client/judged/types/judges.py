"""Which judge is asked, and which one answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from judged._inputs import as_list, set_fields

Scalar = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Judge:
    """A judge and what you override of it. The empty one is the server's default.

    `members` are the judges of a `panel`; a string is a kind.
    """

    kind: str = ""
    profile: str = ""
    min_score: float | None = None
    parameters: Mapping[str, Scalar] = field(default_factory=dict)
    members: Sequence[PanelMember | Judge | str] = ()

    def __post_init__(self) -> None:
        set_fields(self, members=as_list(self.members))


@dataclass(frozen=True, slots=True)
class PanelMember:
    """A judge of a panel; its weight counts in the profile `weighted`, None stands for 1."""

    judge: Judge | str
    weight: float | None = None


@dataclass(frozen=True, slots=True)
class JudgeIdentity:
    """Which judge ran, precisely enough to repeat it."""

    kind: str
    profile: str
    min_score: float
    signature: str
    scoring_key: str
    fingerprint: str
