"""The contexts that a language model is asked, their votes, and the columns these make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from judged_server.domain import (
    ByteArray,
    Flag,
    IntArray,
    QueryGroup,
    ScoreColumns,
    Source,
    Status,
    Usage,
    VerdictDetail,
    VerdictFault,
    VerdictSample,
)
from judged_server.llm.caller import Answer
from judged_server.llm.chat import ChatReply
from judged_server.llm.faults import Reason
from judged_server.llm.parsing.parsed_reply import ParsedReply
from judged_server.llm.rubrics import holds_reserved

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

_NO_QUORUM = "the samples tie, or fewer than half of them are votes; ask for more, or an odd number"


class TextContext(NamedTuple):
    """The texts of one context, by the names that rubrics use."""

    query: str
    expected_text: str
    retrieved_text: str

    @property
    def fields(self) -> dict[str, str]:
        """The texts by their names."""
        query, expected, retrieved = self
        return {"query": query, "expected_text": expected, "retrieved_text": retrieved}


class ContextVotes:
    """The samples of one context, and what they took."""

    __slots__ = ("_fallbacks", "_parsed", "_replies", "_sources", "keeps", "usage")

    def __init__(self, samples: int, nothing: Usage, keep_replies: bool) -> None:
        """Expect as many samples; `nothing` is the usage of no call at all."""
        self._parsed: list[ParsedReply | None] = [None] * samples
        self._replies: list[ChatReply | None] = [None] * samples if keep_replies else []
        self.keeps = keep_replies
        self._sources: set[Source] = set()
        self._fallbacks: dict[int, str] | None = None
        self.usage = nothing

    def put(self, number: int, answer: Answer) -> None:
        """Note a sample by its number; the reply is kept for details only."""
        self._parsed[number] = answer.parsed
        self._sources.add(answer.source)
        self.usage += answer.usage
        if self.keeps:
            self._replies[number] = answer.reply
        if answer.fallback:
            self._fallbacks = {**(self._fallbacks or {}), number: answer.fallback}

    @property
    def by_fallback(self) -> bool:
        """Whether another model than the one that was asked gave a sample."""
        return self._fallbacks is not None

    @property
    def source(self) -> Source:
        """Where the verdict came from: computed, unless every sample was had without a call."""
        if Source.COMPUTED in self._sources:  # the usual case
            return Source.COMPUTED
        if self._sources == {Source.CACHE}:
            return Source.CACHE
        if self._sources <= {Source.CACHE, Source.SHARED} and self._sources:
            return Source.SHARED
        return Source.COMPUTED

    @property
    def parsed_replies(self) -> list[ParsedReply]:
        """All samples, in order. Raises RuntimeError when one was not put."""
        parsed_replies = [parsed for parsed in self._parsed if parsed is not None]
        if len(parsed_replies) < len(self._parsed):
            raise RuntimeError("a sample is missing")
        return parsed_replies

    def detail(self, index: int, vote: Vote) -> VerdictDetail | None:
        """Return how the verdict at `index` came about; None unless replies were kept."""
        if not self.keeps:
            return None
        parsed_replies = self.parsed_replies
        answered = next((reply for reply in self._replies if reply is not None), None)
        decisive = vote.status is Status.OK and vote.decisive is not None
        named = self._fallbacks or {}
        fallbacks = [named.get(number, "") for number in range(len(parsed_replies))]
        return VerdictDetail(
            index,
            parsed_replies[vote.decisive or 0].reasoning if decisive else "",
            tuple(map(_sample, parsed_replies, self._replies, fallbacks)),
            self.usage,
            answered.model if answered else "",
            answered.system_fingerprint if answered else "",
        )


def number_contexts(
    groups: Sequence[QueryGroup], *, with_expected: bool = True
) -> tuple[list[TextContext], IntArray]:
    """Return the distinct contexts as they come, and for each context of the groups its number.

    Without `with_expected`, for rubrics that don't show it, the expected text tells none apart, and
    is empty.
    """
    numbers: dict[TextContext, int] = {}
    places = [
        numbers.setdefault(
            TextContext(group.query, expected if with_expected else "", retrieved), len(numbers)
        )
        for group in groups
        for retrieved in group.retrieved
        for expected in group.expected
    ]
    return list(numbers), np.array(places, np.int64)


def flags_of(
    contexts: Sequence[TextContext], all_votes: Sequence[ContextVotes], places: IntArray
) -> ByteArray | None:
    """Return what is to be said of each context: its texts, its model. None without any flag."""
    reserved = [any(map(holds_reserved, context)) for context in contexts]
    fallback = [context_votes.by_fallback for context_votes in all_votes]
    if not (any(reserved) or any(fallback)):
        return None
    bits = zip(reserved, fallback, strict=True)
    flags = [one * Flag.RESERVED_TOKENS | other * Flag.FALLBACK for one, other in bits]
    return np.array(flags, np.uint8)[places]


def to_columns(all_votes: Sequence[ContextVotes], places: IntArray, nothing: Usage) -> ScoreColumns:
    """Return the votes as columns; `places` says whose vote each context gets.

    `nothing` is the usage of no call at all: with a cost, or without when there is no price.
    """
    votes = [count(context_votes.parsed_replies) for context_votes in all_votes]
    numbers = places.tolist()
    failed = [index for index, number in enumerate(numbers) if votes[number].status != Status.OK]
    sources = [context_votes.source for context_votes in all_votes]
    found = any(source is not Source.COMPUTED for source in sources)
    keeps = any(context_votes.keeps for context_votes in all_votes)

    def column(values: list[Any], kind: type[Any]) -> Any:  # noqa: ANN401 - as the type says
        each = np.array(values, kind)
        # Without a context that comes twice, the numbers are the places.
        return each if len(values) == len(numbers) else each[places]

    return ScoreColumns(
        column([vote.score for vote in votes], np.float64),
        column([vote.status for vote in votes], np.uint8) if failed else None,
        faults=tuple(
            _fault(index, votes[number], all_votes[number])
            for index in failed
            for number in [numbers[index]]
        ),
        majorities=column([vote.yes for vote in votes], np.bool_),
        agreements=column([vote.agreement for vote in votes], np.float64),
        details=tuple(
            detail
            for index, number in enumerate(numbers if keeps else ())
            if (detail := all_votes[number].detail(index, votes[number])) is not None
        ),
        usage=sum((context_votes.usage for context_votes in all_votes), nothing),
        sources=column(sources, np.uint8) if found else None,
    )


def _fault(index: int, vote: Vote, context_votes: ContextVotes) -> VerdictFault:
    reason = vote.reason or Reason.NO_QUORUM
    if vote.decisive is None:
        return VerdictFault(index, CODES[reason], reason, _NO_QUORUM)
    parsed = context_votes.parsed_replies[vote.decisive]
    return VerdictFault(index, CODES[reason], reason, parsed.message, parsed.retryable)


def _sample(parsed: ParsedReply, reply: ChatReply | None, fallback: str) -> VerdictSample:
    return VerdictSample(
        parsed.status,
        parsed.yes,
        parsed.score,
        parsed.reason or "",
        parsed.reasoning,
        raw_text(reply),
        fallback=fallback,
    )


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
