"""The questions behind one score, what is found by them, and the vote of several samples."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from judged.values.choices import Source, Status

from judged_server.domain import TIE_TOLERANCE, VerdictFault
from judged_server.domain.answers import DimensionScore, VerifiedClaim
from judged_server.llm.caller import Answer, CallOptions, ModelCaller, nothing
from judged_server.llm.chat import ChatModel, ChatReply, ParsedReply, Reason
from judged_server.llm.question import Question
from judged_server.llm.rubrics.rubric import FieldValue, Rubric
from judged_server.scheduling.concurrency import fan_out

MAX_RAW_REPLIES_BYTES = 1 << 20
"""The replies kept of one score, together; those that come later are left out."""
MAX_RAW_REPLY_BYTES = 64 << 10

CODES = {
    Reason.TIMEOUT: 4,
    Reason.RATE_LIMITED: 8,
    Reason.PROVIDER_UNREACHABLE: 14,
    Reason.PROVIDER_ERROR: 14,
    Reason.PROVIDER_REFUSED_KEY: 9,
    Reason.BREAKER_OPEN: 14,
    Reason.REFUSED: 2,
    Reason.UNPARSABLE: 2,
    Reason.SCHEMA: 13,
    Reason.REPLY_TRUNCATED: 13,
    Reason.NO_QUORUM: 2,
    Reason.NOT_CACHED: 9,
    Reason.BUDGET: 8,
    Reason.EMPTY_ANSWER: 9,
    Reason.NO_CONTEXT: 9,
    Reason.NO_CLAIMS: 9,
    Reason.MARKER_REPEATED: 2,
}
"""gRPC's codes: DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNAVAILABLE, FAILED_PRECONDITION, INTERNAL;
UNKNOWN for a model that answered, but not with a verdict."""


@dataclass(frozen=True, slots=True)
class Asking:
    """How the questions of a call are asked: by whom, on which terms, how many at once."""

    model_caller: ModelCaller
    call_options: CallOptions
    places: asyncio.Semaphore
    keep_replies: bool = False


class ScoringSession:
    """Asks the questions of one score; `usage` is what they took so far."""

    def __init__(
        self, asking: Asking, model: ChatModel, *, temperature: float, max_tokens: int
    ) -> None:
        self._asking = asking
        self._model = model
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._replies: dict[int, ChatReply | None] = {}
        self._sources: set[Source] = set()
        self._fallbacks: set[str] = set()
        self.usage = nothing(model.card.prices)
        self.model = self.system_fingerprint = ""

    async def ask(
        self, rubric: Rubric, fields: Mapping[str, FieldValue], number: int, place: int
    ) -> ParsedReply:
        """Return what sample `number` says; `place` is where its reply stands among all."""
        question = Question(rubric, fields, number, self._temperature, self._max_tokens)
        asking = self._asking
        async with asking.places:
            answer = await asking.model_caller.ask(self._model, question, asking.call_options)
        self._note(answer, place)
        return answer.parsed

    def _note(self, answer: Answer, place: int) -> None:
        self.usage += answer.usage
        self._sources.add(answer.source)
        if answer.reply is not None:
            self.model = self.model or answer.reply.model
            self.system_fingerprint = self.system_fingerprint or answer.reply.system_fingerprint
            if answer.fallback:
                self._fallbacks.add(answer.fallback)
        if self._asking.keep_replies:
            self._replies[place] = answer.reply

    @property
    def source(self) -> Source:
        """COMPUTED when a question was put for this score, else CACHE, or SHARED where one was."""
        return source_of(self._sources)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What people should know of those who answered."""
        if not self._fallbacks:
            return ()
        return (f"answered by a fallback: {', '.join(sorted(self._fallbacks))}",)

    def raw_replies(self) -> tuple[str, ...]:
        """Return the replies in their order, each within its bound, and all within theirs."""
        kept: list[str] = []
        left = MAX_RAW_REPLIES_BYTES
        for place in sorted(self._replies):
            raw = raw_text(self._replies[place])
            left -= len(raw.encode())
            kept.append(raw if left >= 0 else "")
        return tuple(kept)


def source_of(sources: Collection[Source]) -> Source:
    """Return where a verdict came from: computed, unless every sample was had without a call."""
    if Source.COMPUTED in sources or not sources:
        return Source.COMPUTED
    return Source.SHARED if Source.SHARED in sources else Source.CACHE


def raw_text(reply: ChatReply | None) -> str:
    """Return a reply as it came, or as much of it as may be sent on.

    UTF-8 can't carry lone surrogates: each becomes a question mark.
    """
    text = (reply.text or reply.refusal or "") if reply is not None else ""
    raw = text.encode(errors="replace")
    return raw[:MAX_RAW_REPLY_BYTES].decode(errors="ignore")


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


@dataclass(frozen=True, slots=True)
class SampleResult:
    """What is known once all questions of a score are answered; `yes` is the majority's word."""

    status: Status
    score: float = 0.0
    yes: bool = True
    agreement: float = 1.0
    reasoning: str = ""
    fault: VerdictFault | None = None
    dimensions: tuple[DimensionScore, ...] = ()
    reported_overall: float | None = None
    claims: tuple[VerifiedClaim, ...] = ()
    warnings: tuple[str, ...] = ()


def fault(reason: Reason, message: str, *, retryable: bool = False) -> VerdictFault:
    """Return why a score is missing, with the code that fits the reason."""
    return VerdictFault(0, CODES[reason], reason, message, retryable)


def fault_of(parsed: ParsedReply) -> VerdictFault:
    """Return why a parsed reply that is not OK makes a score missing."""
    reason = parsed.reason or Reason.UNPARSABLE
    return fault(reason, parsed.message, retryable=parsed.retryable)


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
    if rubric.form in {"score", "grade"}:
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
