"""Several samples in, one verdict out.

A valid sample is a yes or a no; a sample that failed or abstained is no vote. The score is the mean
over the valid samples, the agreement the share of the larger side, so that a unanimous "no" has the
agreement 1. A tie, or fewer valid samples than half of those asked for, is no verdict. Nor is there
one while the cache alone was to answer and lacks a sample: asking for it may turn the vote.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from judged_server.domain import Status
from judged_server.llm.faults import Reason
from judged_server.llm.parsing.parsed_reply import ParsedReply


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


def count(parsed_replies: Sequence[ParsedReply]) -> Vote:
    """Return the vote of all samples that were asked for, of which there is at least one.

    Without a valid sample the first failure counts; if nothing failed, the first abstention.
    Raises ValueError when there are no samples.
    """
    if not parsed_replies:
        raise ValueError("a vote needs at least one sample")
    first = parsed_replies[0]
    if len(parsed_replies) == 1 and first.status is Status.OK:  # the usual case
        return Vote(Status.OK, first.score, first.yes, 1.0, decisive=0)
    valid = [parsed for parsed in parsed_replies if parsed.status is Status.OK]
    if len(valid) < len(parsed_replies):
        for place, parsed in enumerate(parsed_replies):
            if parsed.reason is Reason.NOT_CACHED:
                return Vote(Status.ERROR, reason=parsed.reason, decisive=place)
    if not valid:
        return _without_votes(parsed_replies)
    yes_votes = sum(parsed.yes for parsed in valid)
    noes = len(valid) - yes_votes
    if yes_votes == noes or 2 * len(valid) < len(parsed_replies):
        return Vote(Status.ABSTAINED, reason=Reason.NO_QUORUM)
    yes = yes_votes > noes
    return Vote(
        Status.OK,
        score=sum(parsed.score for parsed in valid) / len(valid),
        yes=yes,
        agreement=max(yes_votes, noes) / len(valid),
        decisive=next(
            place
            for place, parsed in enumerate(parsed_replies)
            if parsed.status is Status.OK and parsed.yes == yes
        ),
    )


def _without_votes(parsed_replies: Sequence[ParsedReply]) -> Vote:
    for status in (Status.ERROR, Status.ABSTAINED, Status.NOT_ASSESSABLE):
        for place, parsed in enumerate(parsed_replies):
            if parsed.status is status:
                return Vote(status, reason=parsed.reason, decisive=place)
    raise ValueError("a sample that is not OK has the status ERROR, ABSTAINED or NOT_ASSESSABLE")
