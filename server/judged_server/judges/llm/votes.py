"""Scores by a vote: samples of one question that each say yes or no."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from judged_server.domain import TIE_TOLERANCE, Status
from judged_server.judges.llm.concurrency import fan_out
from judged_server.judges.llm.contexts import count
from judged_server.judges.llm.scoring_session import SampleResult, ScoringSession, fault, fault_of
from judged_server.llm.faults import Reason
from judged_server.llm.parsing.parsed_reply import ParsedReply
from judged_server.llm.rubrics import FieldValue, Rubric

NO_QUORUM = "the samples tie, or fewer than half of them are votes; ask for more, or an odd number"


async def find_by_vote(
    session: ScoringSession,
    rubric: Rubric,
    fields: Mapping[str, FieldValue],
    samples: int,
    min_score: float,
) -> SampleResult:
    """Return the vote of all samples; a score that meets the threshold is a yes."""
    parsed_replies = await ask_samples(session, rubric, fields, samples)
    if rubric.form == "score":
        parsed_replies = by_threshold(parsed_replies, min_score, lambda parsed: parsed.score)
    return voted(parsed_replies)


async def ask_samples(
    session: ScoringSession, rubric: Rubric, fields: Mapping[str, FieldValue], samples: int
) -> list[ParsedReply]:
    """Return what each sample says, in order."""
    parsed_replies: dict[int, ParsedReply] = {}

    async def ask(number: int) -> None:
        parsed_replies[number] = await session.ask(rubric, fields, number, place=number)

    if samples == 1:
        await ask(0)
    else:
        await fan_out(ask, range(samples), samples)
    return [parsed_replies[number] for number in range(samples)]


def by_threshold(
    parsed_replies: list[ParsedReply], min_score: float, score: Callable[[ParsedReply], float]
) -> list[ParsedReply]:
    """Return the parsed replies scored by `score`, with a yes where that meets the threshold."""
    return [
        _by_threshold(parsed, min_score, score(parsed)) if parsed.status is Status.OK else parsed
        for parsed in parsed_replies
    ]


def _by_threshold(parsed: ParsedReply, min_score: float, score: float) -> ParsedReply:
    return parsed._replace(score=score, yes=score + TIE_TOLERANCE >= min_score)


def voted(parsed_replies: list[ParsedReply]) -> SampleResult:
    """Return what the parsed replies come to together."""
    vote = count(parsed_replies)
    if vote.status is not Status.OK:
        reason = vote.reason or Reason.NO_QUORUM
        missing = fault(reason, NO_QUORUM)
        if vote.decisive is not None:
            missing = fault_of(parsed_replies[vote.decisive])
        return SampleResult(vote.status, fault=missing)
    reasoning = "" if vote.decisive is None else parsed_replies[vote.decisive].reasoning
    return SampleResult(Status.OK, vote.score, vote.yes, vote.agreement, reasoning)
