from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.values.choices import Status
from judged_server.llm.chat import (
    ChatReply,
    FinishReason,
    ParsedReply,
    Reason,
    TokenLogprob,
    TokenUsage,
)
from judged_server.llm.parsing import probability_of_yes, weighed

Top = dict[str, float]
"""Tokens with their probabilities."""


def place(token: str, top: Top | None = None) -> TokenLogprob:
    shares = (top or {token: 1.0}).items()
    return TokenLogprob(token, tuple((word, math.log(share)) for word, share in shares))


def reply(*places: TokenLogprob, text: str | None = None) -> ChatReply:
    said = "".join(each.token for each in places) if text is None else text
    return ChatReply(said, FinishReason.STOP, TokenUsage(), "m", logprobs=places)


YES, NO = ParsedReply(Status.OK, yes=True, score=1.0), ParsedReply(Status.OK, yes=False, score=0.0)


class TestPlain:
    @pytest.mark.parametrize(
        ("token", "top", "expected"),
        [
            ("YES", {"YES": 0.6, "NO": 0.2}, 0.75),
            ("YES", {"YES": 0.5, "Yes": 0.1, " yes": 0.1, "NO": 0.2, "No": 0.1}, 0.7),
            ("NO", {"NO": 0.9, "YES": 0.1}, 0.1),
            ("Y", {"Y": 0.3, "N": 0.6, "M": 0.1}, 1 / 3),
            ("NO", {"YES": 0.8, "NO": 0.2}, 0.8),  # it was drawn, but a yes was likelier
            ("YES", {"YES": 0.4, "Maybe": 0.5}, 1.0),
            ("**YES**", {"**YES**": 0.2, "**NO**": 0.6}, 0.25),
            ("YES", {"YES": 0.5, "Nothing": 0.4, "Not": 0.1}, 1.0),
        ],
    )
    def test_is_the_share_of_the_yeses(self, token: str, top: Top, expected: float):
        rest = {"Y": "ES"}.get(token, "")
        spoken = reply(place(token, top), *([place(rest)] if rest else []))
        assert probability_of_yes(spoken, "Y" in token) == pytest.approx(expected)

    def test_the_last_line_counts_whatever_is_said_before(self):
        before = [place(token) for token in ("Is it so? ", "yes", ", no", ".\n", "VERDICT:")]
        spoken = reply(*before, place(" NO", {" NO": 0.3, " YES": 0.1}))
        assert probability_of_yes(spoken, False) == pytest.approx(0.25)

    def test_reasoning_is_passed_over(self):
        before = [place(token) for token in ("<think>", "YES", "</think>\n")]
        spoken = reply(*before, place("NO", {"NO": 0.3, "YES": 0.1}))
        assert probability_of_yes(spoken, False) == pytest.approx(0.25)


class TestStructured:
    TOKENS = ('{"', "reasoning", '":"', 'he said \\"verdict\\": \\"no\\"', '","', "verdict", '":"')

    def spoken(self, token: str, top: Top, *rest: str) -> ChatReply:
        return reply(*map(place, self.TOKENS), place(token, top), *map(place, rest))

    def test_the_value_of_the_key_counts_whatever_the_reasoning_quotes(self):
        spoken = self.spoken("yes", {"yes": 0.6, "no": 0.3, "maybe": 0.1}, '"}')
        assert probability_of_yes(spoken, True) == pytest.approx(2 / 3)

    def test_the_case_does_not_matter_and_a_space_does(self):
        spoken = self.spoken("no", {"no": 0.4, "YES": 0.3, " yes": 0.2, "yes": 0.1}, '"}')
        assert probability_of_yes(spoken, False) == pytest.approx(0.5)

    def test_a_fence_that_the_provider_took_off_is_passed_over(self):
        """As llama.cpp replies: tokens before a grammar has held them, and with the fence."""
        tokens = [place(token) for token in ("```", "json", "\n", '{"reasoning": "", ')]
        tokens += [place('"ver'), place('dict":'), place(' "')]
        tokens.append(place("yes", {"Yes": 0.2, "No": 0.1, "True": 0.1, "yes": 0.1}))
        tokens += [place('"}'), place("\n```"), place("")]
        spoken = reply(*tokens, text='{"reasoning": "", "verdict": "yes"}')
        assert probability_of_yes(spoken, True) == pytest.approx(0.75)


class TestMissing:
    @pytest.mark.parametrize(
        "spoken",
        [
            reply(text="YES"),
            reply(place("YES"), text="NO"),
            reply(place("It is relevant", {"It is relevant": 1.0}), text="It is relevant"),
            reply(TokenLogprob("YES", ())),
            reply(place("Is it YES? "), place("YES"), text="YES"),
            reply(place("YES", {"Maybe": 0.9})),
            reply(place("NO", {"NO": 1.0})),  # read as a yes by some other word of it
        ],
    )
    def test_abstains(self, spoken: ChatReply):
        found = weighed(YES, spoken)
        assert (found.status, found.reason) == (Status.ABSTAINED, Reason.UNPARSABLE)
        assert "log-probabilities" in found.message


@given(
    st.lists(
        st.tuples(
            st.text(max_size=6), st.lists(st.tuples(st.text(max_size=6), st.floats(-1e4, 1)))
        ),
        max_size=8,
    ),
    st.text(max_size=40),
    st.booleans(),
)
def test_no_reply_raises_or_leaves_the_unit_interval(
    tokens: list[tuple[str, list[tuple[str, float]]]], text: str, says_yes: bool
):
    places = tuple(TokenLogprob(token, tuple(top)) for token, top in tokens)
    said = "".join(token for token, _ in tokens)
    for spoken in (reply(*places, text=text), reply(*places, text=said)):
        probability = probability_of_yes(spoken, says_yes)
        assert probability is None or 0 <= probability <= 1
