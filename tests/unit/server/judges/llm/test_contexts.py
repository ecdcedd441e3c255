from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.values.choices import Flag, Status
from judged.values.judges import Usage
from judged_server.domain import QueryGroup
from judged_server.judges.llm.judge import (
    ContextVotes,
    TextContext,
    flags_of,
    number_contexts,
    to_columns,
)
from judged_server.judges.llm.scoring import MAX_RAW_REPLY_BYTES
from judged_server.llm.caller import Answer
from judged_server.llm.chat import ChatReply, FinishReason, ParsedReply, Reason, TokenUsage

YES = ParsedReply(Status.OK, yes=True, score=1.0, reasoning="it says so")
NO = ParsedReply(Status.OK, yes=False, score=0.0, reasoning="it does not")
LATE = ParsedReply(Status.ERROR, reason=Reason.TIMEOUT, message="too late", retryable=True)
REFUSED = ParsedReply(Status.ABSTAINED, reason=Reason.REFUSED, message="it refused")


def reply(text: str) -> ChatReply:
    usage = TokenUsage(3, 4)
    return ChatReply(text, FinishReason.STOP, usage, "m-1", system_fingerprint="fp")


def context_votes(*parsed_replies: ParsedReply, replies: bool = False) -> ContextVotes:
    made = ContextVotes(len(parsed_replies), Usage(), replies)
    for number, parsed in enumerate(parsed_replies):
        took = Usage(1, 2, 3, 4, 0.5, 0.25)
        made.put(number, Answer(parsed, reply(f"reply {number}"), took))
    return made


texts = st.text("ab", max_size=1)
groups = st.lists(
    st.builds(
        lambda query, expected, retrieved: QueryGroup("", query, expected, retrieved),
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
            TextContext(group.query, expected, retrieved)
            for group in some
            for retrieved in group.retrieved
            for expected in group.expected
        ]


class TestToColumns:
    def test_spreads_votes_over_the_contexts_that_share_them(self):
        all_votes = [context_votes(YES, YES, NO), context_votes(NO)]
        columns = to_columns(all_votes, np.array([1, 0, 1]), Usage())
        assert columns.scores.tolist() == pytest.approx([0, 2 / 3, 0])
        assert columns.agreements is not None
        assert columns.agreements.tolist() == pytest.approx([1, 2 / 3, 1])
        assert columns.statuses is None
        assert columns.usage == Usage(4, 8, 12, 16, 2.0, 1.0)
        assert columns.details == ()

    def test_what_is_missing_has_its_fault_at_every_place(self):
        all_votes = [
            context_votes(LATE),
            context_votes(YES),
            context_votes(REFUSED),
            context_votes(YES, NO),
        ]
        columns = to_columns(all_votes, np.array([0, 1, 2, 3, 0]), Usage())
        assert columns.statuses is not None
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
        made = ContextVotes(1, Usage(), keep_replies=True)
        made.put(0, Answer(YES, reply(text), Usage()))
        (detail,) = to_columns([made], np.array([0]), Usage()).details
        raw = detail.samples[0].raw_reply.encode()
        assert MAX_RAW_REPLY_BYTES - 3 < len(raw) <= MAX_RAW_REPLY_BYTES or raw == b"?"


class TestFlags:
    def test_say_where_another_model_answered(self):
        contexts, places = number_contexts([QueryGroup("", "q", ["e"], ["[INST]", "r", "r", "s"])])
        all_votes = [ContextVotes(2, Usage(), keep_replies=True) for _ in contexts]
        for made, fallbacks in zip(
            all_votes, (["", "spare"], ["", "spare"], ["", ""]), strict=True
        ):
            for number, fallback in enumerate(fallbacks):
                made.put(number, Answer(YES, reply("yes"), Usage(), fallback=fallback))
        found = flags_of(contexts, all_votes, places)
        assert found is not None
        both = Flag.RESERVED_TOKENS | Flag.FALLBACK
        assert found.tolist() == [both, Flag.FALLBACK, Flag.FALLBACK, Flag.NONE]
        details = to_columns(all_votes, places, Usage()).details
        named = [[sample.fallback for sample in detail.samples] for detail in details]
        assert named == [["", "spare"]] * 3 + [["", ""]]
