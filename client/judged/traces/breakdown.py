"""What a score is made of beside its number: dimensions, claims, remarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from judged.evaluation.datasets.files import Record
from judged.traces.keys import named, refuse_unknown, share
from judged.values import AnswerScore, ClaimVerdict, DimensionScore, VerifiedClaim


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The parts of a score; those that its rubric does not have are empty."""

    dimensions: Sequence[DimensionScore] = ()
    reported_overall: float | None = None
    claims: Sequence[VerifiedClaim] = ()
    warnings: Sequence[str] = ()

    @classmethod
    def of(cls, score: AnswerScore) -> Breakdown | None:
        """Return the parts of a score, None when it has none."""
        parts = cls(
            list(score.dimensions),
            score.reported_overall,
            list(score.claims),
            list(score.warnings),
        )
        empty = not (parts.dimensions or parts.claims or parts.warnings)
        return None if empty and parts.reported_overall is None else parts


def write_breakdown(parts: Breakdown) -> dict[str, Any]:
    """Return the JSON object of a breakdown."""
    return {
        "dimensions": [asdict(dimension) for dimension in parts.dimensions],
        "reported_overall": parts.reported_overall,
        "claims": [
            {"claim": c.claim, "verdict": c.verdict.name, "evidence": c.evidence}
            for c in parts.claims
        ],
        "warnings": list(parts.warnings),
    }


def read_breakdown(record: Record) -> Breakdown:
    """Return the breakdown of an object. Raises FileError."""
    refuse_unknown(record, {"dimensions", "reported_overall", "claims", "warnings"})
    return Breakdown(
        [_dimension(inner) for inner in record.records("dimensions")],
        record.optional_number("reported_overall"),
        [_claim(inner) for inner in record.records("claims")],
        record.texts("warnings"),
    )


def _dimension(record: Record) -> DimensionScore:
    refuse_unknown(record, {"name", "score", "weight"})
    weight = share(record, "weight", needed=True)
    return DimensionScore(record.text("name"), share(record, "score"), weight or 0.0)


def _claim(record: Record) -> VerifiedClaim:
    refuse_unknown(record, {"claim", "verdict", "evidence"})
    verdict = named(record, "verdict", ClaimVerdict)
    return VerifiedClaim(record.text("claim"), verdict, record.text("evidence"))
