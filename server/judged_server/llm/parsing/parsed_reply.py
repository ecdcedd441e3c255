"""What one reply of a language model says, once it has been read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from judged.values.choices import ClaimVerdict, Status

from judged_server.llm.faults import Reason


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Scores in [0, 1] by dimension, in the rubric's order, and the model's own overall number."""

    scores: tuple[tuple[str, float], ...]
    reported_overall: float | None = None


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of a text, in its order."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClaimCheck:
    """What the contexts say of one claim, and where."""

    verdict: ClaimVerdict
    evidence: str


class ParsedReply(NamedTuple):
    """What one sample says.

    `yes` and `score` (in [0, 1]) mean something only when `status` is OK, and only for rubrics that
    ask for a verdict or a score; other rubrics put what was said into `content`. `reason` is set
    only when the status is not OK; `retryable` says of a failure whether asking again may help.
    """

    status: Status
    yes: bool = False
    score: float = 0.0
    reasoning: str = ""
    reason: Reason | None = None
    message: str = ""
    retryable: bool = False
    content: Dimensions | Claims | ClaimCheck | None = None


REFUSED = ParsedReply(
    Status.ABSTAINED, reason=Reason.REFUSED, message="the model refused to answer"
)
