"""Several samples in, one verdict out.

Owns the rule of the vote. A valid sample is a yes or a no; a sample that failed or abstained is no
vote. The score is the mean over the valid samples, the agreement the share of the larger side, so
that a unanimous "no" has the agreement 1. A tie, or fewer valid samples than half of those asked
for, is no verdict. Nor is there one while the cache alone was to answer and lacks a sample: asking
for it may turn the vote. Leaves the bar to whoever reads the vote: a verdict is relevant when the
bar is met *and* most valid samples said yes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from judged_server.domain import Status
from judged_server.llm.faults import Reason
from judged_server.llm.parsing.parsed_reply import Opinion


class Vote(NamedTuple):
    """What all samples say together.

    `score`, `agreement` (both in [0, 1]) and `yes` (a strict majority) mean something only when
    `status` is OK. `decisive` is the place of the sample whose reasoning, or whose failure, stands
    for the vote; None when no single one does.
    """

    status: Status
    score: float = 0.0
    yes: bool = False
    agreement: float = 0.0
    reason: Reason | None = None
    decisive: int | None = None


def count(opinions: Sequence[Opinion]) -> Vote:
    """Return the vote of all samples that were asked for, of which there is at least one.

    Without a valid sample the first failure counts; if nothing failed, the first abstention.
    Raises ValueError when there are no samples.
    """
    if not opinions:
        raise ValueError("a vote needs at least one sample")
    first = opinions[0]
    if len(opinions) == 1 and first.status is Status.OK:  # the usual case
        return Vote(Status.OK, first.score, first.yes, 1.0, decisive=0)
    valid = [opinion for opinion in opinions if opinion.status is Status.OK]
    if len(valid) < len(opinions):
        for place, opinion in enumerate(opinions):
            if opinion.reason is Reason.NOT_CACHED:
                return Vote(Status.ERROR, reason=opinion.reason, decisive=place)
    if not valid:
        return _without_votes(opinions)
    ayes = sum(opinion.yes for opinion in valid)
    noes = len(valid) - ayes
    if ayes == noes or 2 * len(valid) < len(opinions):
        return Vote(Status.ABSTAINED, reason=Reason.NO_QUORUM)
    yes = ayes > noes
    return Vote(
        Status.OK,
        score=sum(opinion.score for opinion in valid) / len(valid),
        yes=yes,
        agreement=max(ayes, noes) / len(valid),
        decisive=next(
            place
            for place, opinion in enumerate(opinions)
            if opinion.status is Status.OK and opinion.yes == yes
        ),
    )


def _without_votes(opinions: Sequence[Opinion]) -> Vote:
    for status in (Status.ERROR, Status.ABSTAINED, Status.NOT_ASSESSABLE):
        for place, opinion in enumerate(opinions):
            if opinion.status is status:
                return Vote(status, reason=opinion.reason, decisive=place)
    raise ValueError("a sample that is not OK has the status ERROR, ABSTAINED or NOT_ASSESSABLE")
