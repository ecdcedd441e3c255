"""Counts verdicts by status, as the server does for its replies."""

from __future__ import annotations

from judged.types import Flag, Status, VerdictCounts, Verdicts


def count_verdicts(verdicts: Verdicts | None) -> VerdictCounts:
    """Return how many verdicts have each status, and remarks worth knowing."""
    if verdicts is None:
        return VerdictCounts()
    # A list counts an integer a thousand times faster than it counts members of an IntEnum.
    statuses = list(verdicts.status)
    return VerdictCounts(
        ok=statuses.count(int(Status.OK)),
        error=statuses.count(int(Status.ERROR)),
        abstained=statuses.count(int(Status.ABSTAINED)),
        not_assessable=statuses.count(int(Status.NOT_ASSESSABLE)),
        relevant=list(verdicts.relevant).count(True),
        flagged_no_tokens=verdicts.count(Flag.NO_TOKENS),
        flagged_truncated=verdicts.count(Flag.TRUNCATED),
        flagged_reserved_tokens=verdicts.count(Flag.RESERVED_TOKENS),
        flagged_fallback=verdicts.count(Flag.FALLBACK),
    )
