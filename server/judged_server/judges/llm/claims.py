"""Scores by claims: those of a text are listed once, and each is checked in a call of its own.

A check that fails is no verdict: it never counts as a claim without support, and the score is then
missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from judged.values.choices import ClaimVerdict, Status

from judged_server.domain import VerdictFault
from judged_server.domain.answers import VerifiedClaim
from judged_server.judges.llm.scoring_session import (
    NO_QUORUM,
    SampleResult,
    ScoringSession,
    fault,
    fault_of,
)
from judged_server.llm.chat import ClaimCheck, Claims, ParsedReply, Reason
from judged_server.llm.parsing.json_reply import MAX_CLAIM_CHARACTERS
from judged_server.llm.rubrics.rubric import MAX_CLAIMS, FieldValue, Rubric
from judged_server.scheduling.concurrency import fan_out

_Asked = tuple[Rubric, Mapping[str, FieldValue]]

CHECKED_AT_ONCE = 8
"""Checks of one score that are under way at once."""

_CLAIM_LETTERS_A_TOKEN = 8
"""Letters that weigh as much as a token of a reply can: two letters count as one token, and a token
of a usual text holds four bytes."""


@dataclass(frozen=True, slots=True)
class _Checked:
    """What the samples of one claim's check come to; `fault` is set unless the status is OK."""

    status: Status
    claim: VerifiedClaim | None = None
    agreement: float = 0.0
    fault: VerdictFault | None = None


async def find_claims(
    session: ScoringSession, rubric: Rubric, fields: Mapping[str, FieldValue], samples: int
) -> SampleResult:
    """Return the share of supported claims; without any claim there is none to assess.

    Claims are listed by one sample, and each check has as many as were asked for; a claim is what
    more than half of the valid ones say. Where checks have no outcome, the first failure stands for
    the score, and the claims that were checked are told all the same.
    """
    extraction, verification = rubric.steps
    listed = await session.ask(extraction, _of(extraction, fields), 0, place=0)
    if listed.status is not Status.OK:
        return SampleResult(listed.status, fault=fault_of(listed))
    if not isinstance(listed.content, Claims):
        raise TypeError("a list of claims has none")
    texts = listed.content.texts
    if not texts:
        missing = fault(Reason.NO_CLAIMS, "the text makes no claim")
        return SampleResult(Status.NOT_ASSESSABLE, reasoning=listed.reasoning, fault=missing)
    rendered = _of(verification, fields)
    parsed_replies: dict[tuple[int, int], ParsedReply] = {}

    async def check(job: tuple[int, int]) -> None:
        claim, number = job
        parsed_replies[job] = await session.ask(
            verification, {**rendered, "claim": texts[claim]}, number, 1 + claim * samples + number
        )

    jobs = [(claim, number) for claim in range(len(texts)) for number in range(samples)]
    await fan_out(check, jobs, min(CHECKED_AT_ONCE, len(jobs)))
    checked = [
        _decide(text, [parsed_replies[claim, number] for number in range(samples)])
        for claim, text in enumerate(texts)
    ]
    return _together(checked, listed.reasoning)


def most_asked(
    rubric: Rubric, fields: Mapping[str, FieldValue], max_tokens: int
) -> tuple[_Asked, _Asked]:
    """Return what `find_claims` asks first, and what it asks of a claim that is as long as any.

    All claims together are no longer than the reply of `max_tokens` that lists them, so that each
    of as many as there can be stands for its share of that.
    """
    extraction, verification = rubric.steps
    share = -(-_CLAIM_LETTERS_A_TOKEN * max_tokens // MAX_CLAIMS)
    claim = "x" * min(MAX_CLAIM_CHARACTERS, share)
    return (
        (extraction, _of(extraction, fields)),
        (verification, {**_of(verification, fields), "claim": claim}),
    )


def _of(step: Rubric, fields: Mapping[str, FieldValue]) -> dict[str, FieldValue]:
    """Return what a step shows of the fields of its rubric."""
    return {name: fields[name] for name in step.fields if name in fields}


def _decide(claim: str, parsed_replies: Sequence[ParsedReply]) -> _Checked:
    valid = [parsed for parsed in parsed_replies if parsed.status is Status.OK]
    lacks = next((each for each in parsed_replies if each.reason is Reason.NOT_CACHED), None)
    if lacks is not None or not valid:
        first = lacks or next(
            (each for each in parsed_replies if each.status is Status.ERROR),
            parsed_replies[0],
        )
        return _Checked(first.status, fault=fault_of(first))
    checks = [parsed.content for parsed in valid]
    tally = Counter(check.verdict for check in checks if isinstance(check, ClaimCheck))
    if tally.total() < len(valid):
        raise TypeError("the check of a claim has no verdict")
    verdict, votes = tally.most_common(1)[0]
    if 2 * votes <= len(valid) or 2 * len(valid) < len(parsed_replies):
        return _Checked(Status.ABSTAINED, fault=fault(Reason.NO_QUORUM, NO_QUORUM))
    evidence = next(
        check.evidence
        for check in checks
        if isinstance(check, ClaimCheck) and check.verdict is verdict
    )
    return _Checked(Status.OK, VerifiedClaim(claim, verdict, evidence), votes / len(valid))


def _together(checked: Sequence[_Checked], reasoning: str) -> SampleResult:
    claims = tuple(each.claim for each in checked if each.claim is not None)
    for status in (Status.ERROR, Status.ABSTAINED, Status.NOT_ASSESSABLE):
        for each in checked:
            if each.status is status:
                return SampleResult(status, reasoning=reasoning, fault=each.fault, claims=claims)
    supported = sum(claim.verdict is ClaimVerdict.SUPPORTED for claim in claims)
    return SampleResult(
        Status.OK,
        score=supported / len(claims),
        agreement=sum(each.agreement for each in checked) / len(checked),
        reasoning=reasoning,
        claims=claims,
    )
