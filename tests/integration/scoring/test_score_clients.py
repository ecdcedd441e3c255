"""Answers scored by the clients: a real server, a scripted provider."""

from __future__ import annotations

import pytest
from judged import (
    AnswerItem,
    AsyncClient,
    Client,
    InvalidArgument,
    Judge,
    NotFound,
    QueryGroup,
    ScoredAnswers,
)


def items(n: int, context: str = "c") -> list[AnswerItem]:
    """Answers of which every third is bad, every fifth refused and every seventh empty."""
    words = {0: "false", 1: "fine", 2: "good"}
    texts = [
        "" if i % 7 == 6 else "refuse" if i % 5 == 4 else f"{words[i % 3]} {i}" for i in range(n)
    ]
    return [AnswerItem(f"i{i}", "q", text, ["r"], [context]) for i, text in enumerate(texts)]


def values(found: ScoredAnswers) -> list[tuple[object, ...]]:
    return [(s.item_id, s.rubric, s.status, s.score, s.passed) for s in found]


class TestClients:
    RUBRICS = ("answer_relevance", "answer_match")

    async def test_parts_give_what_one_call_gives(self, target: str):
        many = items(40, "c" * 140_000)  # a message holds seven of them
        with Client(target) as client:
            whole = client.score_answers(items(40), self.RUBRICS)
            seen: list[tuple[int, int]] = []
            parts = client.score_answers(many, self.RUBRICS, progress=lambda *now: seen.append(now))
            streamed = list(client.stream_scores(many, self.RUBRICS))
        async with AsyncClient(target) as client:
            from_tasks = await client.score_answers(many, self.RUBRICS)
        assert values(whole) == values(parts) == values(from_tasks)
        assert sorted(values(whole)) == sorted((*v,) for v in values(streamed))
        assert whole.rubrics == parts.rubrics == from_tasks.rubrics
        assert seen == [(n, 80) for n in range(1, 81)]
        relevance = whole.summary("answer_relevance")
        counts = relevance.counts
        assert (counts.ok, counts.abstained, counts.not_assessable, counts.error) == (28, 7, 5, 0)
        good = [s.score for s in whole if s.rubric == "answer_relevance" and s.score is not None]
        assert relevance.mean == pytest.approx(sum(good) / 28)
        assert parts.usage.cached == 56  # what was refused is never kept

    def test_an_error_names_the_item_of_the_whole(self, client: Client):
        some = [*items(5, "c" * 500_000), AnswerItem("", "q", "a")]
        with pytest.raises(InvalidArgument, match=r"^items\[5\]\.item_id"):
            client.score_answers(some, ["answer_relevance"])

    async def test_a_version_is_pinned(self, target: str, client: Client):
        pinned, other = ["helpfulness@1", "answer_relevance"], ["helpfulness@2"]
        found = client.score_answers(items(3), pinned)
        assert [summary.rubric for summary in found.rubrics] == ["helpfulness", "answer_relevance"]
        alone = client.score_answers(items(3), ["helpfulness", "answer_relevance"])
        assert values(found) == values(alone)
        with pytest.raises(NotFound, match="it has helpfulness@1"):
            client.score_answers(items(1), other)
        async with AsyncClient(target) as other_client:
            assert values(await other_client.score_answers(items(3), pinned)) == values(found)
            with pytest.raises(NotFound, match="it has helpfulness@1"):
                await other_client.score_answers(items(1), other)
        group, by = [QueryGroup("q", ["e"], ["r"])], {"rubric": "retrieval_match@1"}
        assert client.estimate(group, Judge("llm", parameters=by)).calls == 1
        with pytest.raises(InvalidArgument, match="retrieval_match@1"):
            client.estimate(group, Judge("llm", parameters={"rubric": "retrieval_match@2"}))
