"""The contexts that a language model is asked, their votes, and the columns these make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from judged.values.choices import Flag, Source, Status
from judged.values.judges import Usage
from judged.values.verdicts import VerdictSample

from judged_server.domain import (
    ByteArray,
    IntArray,
    QueryGroup,
    ScoreColumns,
    VerdictDetail,
    VerdictFault,
)
from judged_server.judges.llm.scoring import (
    NO_QUORUM,
    Answers,
    Vote,
    count,
    raw_text,
)
from judged_server.llm.caller import Answer
from judged_server.llm.chat import ParsedReply, Reason
from judged_server.llm.question import holds_reserved


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


class ContextVotes(Answers):
    """The samples of one context."""

    __slots__ = ("_parsed",)

    def __init__(self, samples: int, nothing: Usage, keep_replies: bool) -> None:
        """Expect as many samples; `nothing` is the usage of no call at all."""
        super().__init__(nothing, keep_replies)
        self._parsed: list[ParsedReply | None] = [None] * samples

    def put(self, number: int, answer: Answer) -> None:
        """Note a sample by its number; the reply is kept for details only."""
        self._parsed[number] = answer.parsed
        self.note(number, answer)

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
        decisive = vote.status is Status.OK and vote.decisive is not None
        in_order = (self.replies.get(number) for number in range(len(parsed_replies)))
        answered = next((reply for reply in in_order if reply is not None), None)
        return VerdictDetail(
            index,
            parsed_replies[vote.decisive or 0].reasoning if decisive else "",
            tuple(
                VerdictSample(
                    parsed.status,
                    parsed.yes,
                    parsed.score,
                    parsed.reason or "",
                    parsed.reasoning,
                    raw_text(self.replies.get(number)),
                    fallback=self.fallbacks.get(number, ""),
                )
                for number, parsed in enumerate(parsed_replies)
            ),
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
    fallback = [bool(context_votes.fallbacks) for context_votes in all_votes]
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
        return VerdictFault(index, reason, NO_QUORUM)
    parsed = context_votes.parsed_replies[vote.decisive]
    return VerdictFault(index, reason, parsed.message, parsed.retryable)
