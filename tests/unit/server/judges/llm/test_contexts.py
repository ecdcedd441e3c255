from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.values.choices import Status
from judged.values.judges import Usage
from judged_server.domain import Group, ScoreColumns
from judged_server.judges.llm.judge import (
    number_contexts,
    to_columns,
)
from judged_server.judges.llm.scoring import (
    MAX_RAW_REPLY_BYTES,
    AskedRubric,
    SampleResult,
    Session,
    voted,
)
from judged_server.llm.caller import Answer
from judged_server.llm.chat import ChatReply, FinishReason, ParsedReply, Reason, TokenUsage

YES = ParsedReply(Status.OK, yes=True, score=1.0, reasoning="it says so")
NO = ParsedReply(Status.OK, yes=False, score=0.0, reasoning="it does not")
LATE = ParsedReply(Status.ERROR, reason=Reason.TIMEOUT, message="too late", retryable=True)
REFUSED = ParsedReply(Status.ABSTAINED, reason=Reason.REFUSED, message="it refused")


def reply(text: str) -> ChatReply:
    usage = TokenUsage(3, 4)
    return ChatReply(text, FinishReason.STOP, usage, "m-1", system_fingerprint="fp")


def vote(*answers: Answer) -> tuple[SampleResult, Session]:
    asked: AskedRubric = SimpleNamespace(nothing=Usage())
    made = Session(None, asked)
    made.answers.update(enumerate(answers))
    return voted([answer.parsed for answer in answers]), made


def vote_of(*parsed_replies: ParsedReply) -> tuple[SampleResult, Session]:
    took = Usage(1, 2, 3, 4, 0.5, 0.25)
    return vote(*(Answer(parsed, reply("a reply"), took) for parsed in parsed_replies))


def columns_of(
    votes: list[tuple[SampleResult, Session]], places: list[int], *, details: bool = False
) -> ScoreColumns:
    contexts = [("q", "e", "r")] * len(votes)
    return to_columns(contexts, votes, np.array(places), Usage(), details)


texts = st.text("ab", max_size=1)
groups = st.lists(
    st.builds(
        lambda query, expected, retrieved: Group("", query, expected, retrieved),
        texts,
        st.lists(texts, max_size=3),
        st.lists(texts, max_size=3),
    ),
    max_size=4,
)


class TestNumberContexts:
    @given(groups)
    def test_names_every_context_once_and_finds_it_again(self, some):
        contexts, places = number_contexts(some)
        assert len(set(contexts)) == len(contexts)
        assert [contexts[place] for place in places] == [
            (group.query, expected, retrieved)
            for group in some
            for retrieved in group.retrieved
            for expected in group.expected
        ]


class TestToColumns:
    def test_what_is_missing_has_its_fault_at_every_place(self):
        votes = [vote_of(LATE), vote_of(YES), vote_of(REFUSED), vote_of(YES, NO)]
        columns = columns_of(votes, [0, 1, 2, 3, 0])
        assert columns.statuses.tolist() == [2, 1, 3, 3, 2]
        assert columns.scores.tolist() == [0, 1, 0, 0, 0]
        assert [(fault.index, fault.reason, fault.retryable) for fault in columns.faults] == [
            (0, "TIMEOUT", True),
            (2, "REFUSED", False),
            (3, "NO_QUORUM", False),
            (4, "TIMEOUT", True),
        ]
        assert columns.faults[0].message == "too late"


class TestDetails:
    @pytest.mark.parametrize("text", ["é" * 40_000, "x" * 70_000, "\ud800"])
    def test_raw_replies_are_cut_between_characters(self, text):
        made = vote(Answer(YES, reply(text), Usage()))
        detail = columns_of([made], [0], details=True).details[0]
        raw = detail.samples[0].raw_reply.encode()
        assert MAX_RAW_REPLY_BYTES - 3 < len(raw) <= MAX_RAW_REPLY_BYTES or raw == b"?"
