from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.values.scores import AnswerItem
from judged_server.domain import VerdictFault
from judged_server.judges.llm.answers import RenderedText, show, within
from judged_server.llm.rubrics.rubric import load_builtin

RUBRICS = load_builtin()
ITEM = AnswerItem("1", "q", "a", ["r1", "r2"], ["c1", "c2"])


def lacking(rubric: str, item: AnswerItem) -> str:
    found = show(RUBRICS[rubric], item, 100)
    assert isinstance(found, VerdictFault)
    return f"{found.reason}: {found.message}"


class TestShow:
    @pytest.mark.parametrize(
        ("rubric", "fields"),
        [
            ("helpfulness", {"query": "q", "answer": "a"}),
            ("answer_match", {"query": "q", "references": ("r1", "r2"), "answer": "a"}),
            ("context_relevance", {"query": "q", "contexts": ("c1", "c2")}),
            ("faithfulness", {"query": "q", "answer": "a", "contexts": ("c1", "c2")}),
        ],
    )
    def test_shows_what_the_rubric_names(self, rubric: str, fields: dict[str, object]):
        assert show(RUBRICS[rubric], ITEM, 100) == RenderedText(fields, has_contexts=True)

    @pytest.mark.parametrize("answer", [":", " ... ", "```\n```", "…", "。", "\u200b", "=", "|-|"])
    def test_punctuation_is_no_answer(self, answer: str):
        said = lacking("helpfulness", AnswerItem("1", "q", answer))
        assert said == "EMPTY_ANSWER: the answer holds nothing but punctuation"

    @pytest.mark.parametrize("answer", ["a", "7", "π", "是", "👍", "∞", "✓", "€", ": b", "ก็"])
    def test_whatever_says_something_is(self, answer: str):
        assert isinstance(
            show(RUBRICS["helpfulness"], AnswerItem("1", "q", answer), 9), RenderedText
        )


class TestWithin:
    def test_never_cuts_a_character_in_two(self):
        assert within(["äöü"], 5) == ["äö"]
        assert within(["😀"], 3) == []

    def test_says_so_when_something_is_left_out(self):
        item = AnswerItem("1", "q", "a", (), ["x" * 8, "y"])
        found = show(RUBRICS["context_relevance"], item, 2)
        assert isinstance(found, RenderedText)
        assert found.fields["contexts"] == ["x" * 8]
        assert found.warnings == (
            "the contexts were truncated to max_context_tokens (2): 1 of 2 were shown",
        )

    @given(
        st.lists(st.text(st.characters(exclude_categories=()), max_size=12), max_size=6),
        st.integers(0, 60),
    )
    def test_is_the_longest_beginning_that_fits(self, texts: list[str], budget: int):
        kept = within(texts, budget)
        # A lone surrogate, which no request can carry, counts as the one byte it is replaced by.
        sizes = [len(text.encode(errors="replace")) for text in texts]
        if sum(sizes) <= budget:
            assert kept is texts
            return
        assert sum(len(text.encode(errors="replace")) for text in kept) <= budget
        whole = [text for text, one in zip(texts, kept, strict=False) if text == one]
        assert len(whole) >= len(kept) - 1
        joined, all_of_it = "".join(kept), "".join(texts).encode(errors="replace")
        assert all_of_it.startswith(joined.encode(errors="replace"))
        assert len(joined.encode(errors="replace")) > budget - 4
