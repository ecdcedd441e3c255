"""Scores by a vote: samples of one question that each say yes or no.

Owns the samples of rubrics whose reply is a verdict or a score. Leaves the rule of the vote to
`llm.voting`, the bar of the whole to `answers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from judged_server.domain import TIE_TOLERANCE, Status
from judged_server.judges.llm.concurrency import fan_out
from judged_server.judges.llm.scoring_session import Enquiry, Finding, fault, fault_of
from judged_server.judges.llm.tally import count
from judged_server.llm.faults import Reason
from judged_server.llm.parsing.parsed_reply import Opinion
from judged_server.llm.rubrics import FieldValue, Rubric

NO_QUORUM = "the samples tie, or fewer than half of them are votes; ask for more, or an odd number"


async def find_by_vote(
    enquiry: Enquiry,
    rubric: Rubric,
    fields: Mapping[str, FieldValue],
    samples: int,
    min_score: float,
) -> Finding:
    """Return the vote of all samples; a reply that is a score is a yes when it meets the bar."""
    opinions = await ask_samples(enquiry, rubric, fields, samples)
    if rubric.form == "score":
        opinions = by_bar(opinions, min_score, lambda opinion: opinion.score)
    return voted(opinions)


async def ask_samples(
    enquiry: Enquiry, rubric: Rubric, fields: Mapping[str, FieldValue], samples: int
) -> list[Opinion]:
    """Return what each sample says, in order."""
    opinions: dict[int, Opinion] = {}

    async def ask(number: int) -> None:
        opinions[number] = await enquiry.ask(rubric, fields, number, place=number)

    if samples == 1:
        await ask(0)
    else:
        await fan_out(ask, range(samples), samples)
    return [opinions[number] for number in range(samples)]


def by_bar(
    opinions: list[Opinion], min_score: float, score: Callable[[Opinion], float]
) -> list[Opinion]:
    """Return the opinions with `score` of each as its score, and a yes where that meets the bar."""
    return [
        _by_bar(opinion, min_score, score(opinion)) if opinion.status is Status.OK else opinion
        for opinion in opinions
    ]


def _by_bar(opinion: Opinion, min_score: float, score: float) -> Opinion:
    return opinion._replace(score=score, yes=score + TIE_TOLERANCE >= min_score)


def voted(opinions: list[Opinion]) -> Finding:
    """Return what the opinions come to together."""
    vote = count(opinions)
    if vote.status is not Status.OK:
        reason = vote.reason or Reason.NO_QUORUM
        missing = fault(reason, NO_QUORUM)
        if vote.decisive is not None:
            missing = fault_of(opinions[vote.decisive])
        return Finding(vote.status, fault=missing)
    reasoning = "" if vote.decisive is None else opinions[vote.decisive].reasoning
    return Finding(Status.OK, vote.score, vote.yes, vote.agreement, reasoning)
