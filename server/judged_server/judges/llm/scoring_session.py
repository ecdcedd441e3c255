"""The questions behind one score, and what is found by them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from judged_server.answers import DimensionScore, VerifiedClaim
from judged_server.domain import Source, Status, Usage, VerdictFault
from judged_server.judges.llm.contexts import CODES, raw_text
from judged_server.llm.caller import Answer, CallOptions, ModelCaller, nothing
from judged_server.llm.chat import ChatModel, ChatReply
from judged_server.llm.faults import Reason
from judged_server.llm.parsing.parsed_reply import ParsedReply
from judged_server.llm.question import Question
from judged_server.llm.rubrics import FieldValue, Rubric

MAX_RAW_REPLIES_BYTES = 1 << 20
"""The replies kept of one score, together; those that come later are left out."""


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
        for source in (Source.COMPUTED, Source.SHARED, Source.REPLAY, Source.CACHE):
            if source in self._sources:
                return source
        return Source.COMPUTED

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


def no_usage(model: ChatModel) -> Usage:
    """Return the usage of a score that nothing had to be asked for."""
    return nothing(model.card.prices)
