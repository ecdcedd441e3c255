"""How a language model came to its verdicts, and what asking it took.

How they are read from a reply is in `_details`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from judged.statuses import Status


@dataclass(frozen=True, slots=True)
class Usage:
    """What calls to language models took: `calls` were answered, `attempts` were made.

    `cost` is in the currency of the server's prices, None where a price is not configured.
    `latency_s` is summed over the calls. `cached` samples came from the verdict cache, `shared`
    ones from the call of another caller who asked the same at that moment.
    """

    calls: int = 0
    attempts: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    latency_s: float = 0.0
    cached: int = 0
    shared: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Return both together."""
        known = self.cost is not None and other.cost is not None
        return Usage(
            self.calls + other.calls,
            self.attempts + other.attempts,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            (self.cost or 0.0) + (other.cost or 0.0) if known else None,
            self.latency_s + other.latency_s,
            self.cached + other.cached,
            self.shared + other.shared,
        )


@dataclass(frozen=True, slots=True)
class VerdictSample:
    """One answer of a language model. `relevant` and `score` are None unless it is a vote.

    Of a panel it is the verdict of one member, whose signature is `judge`. `fallback` names the
    model that answered in place of the one that was asked, "" when that one did.
    """

    status: Status
    relevant: bool | None
    score: float | None
    reason: str
    reasoning: str
    raw_reply: str
    judge: str = ""
    fallback: str = ""


@dataclass(frozen=True, slots=True)
class VerdictDetail:
    """How a language model came to one verdict.

    `rationale` is the reasoning of the first sample that agrees with the verdict. `model` and
    `system_fingerprint` are what its provider says has answered.
    """

    rationale: str
    samples: Sequence[VerdictSample]
    usage: Usage
    model: str
    system_fingerprint: str
