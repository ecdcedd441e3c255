"""The evaluator of the client and the Evaluate call give the same numbers."""

from __future__ import annotations

import random

import judged._chunks
import pytest
from judged import (
    Client,
    InvalidArgument,
    Judge,
    JudgedError,
    Matching,
    MetricOptions,
    NoGold,
    QueryGroup,
)
from judged.evaluation import Dataset, Evaluator, Query, Retrieved, _measuring

WORDS = [
    *("rag", "retrieval", "augmented", "generation", "improves", "llm", "vector", "databases"),
    *("store", "embeddings", "not", "never", "naïve", "Straße", "İstanbul", "\u212aelvin"),
    *("検索", "拡張", "生成", "поиск", "😀"),
]
METRICS = ["ndcg@10", "ap", "recall@2", "precision@3", "mrr", "f1@2", "hit_rate"]


def random_groups(rng: random.Random, n: int) -> list[QueryGroup]:
    """Groups with repeats, ids, documents in several pieces, and nothing at all on either side."""

    def text() -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(0, 8)))

    groups = []
    for number in range(n):
        retrieved = [text() for _ in range(rng.randint(0, 6))]
        by_id = rng.random() < 0.3
        ids = [f"d{rng.randint(0, 4)}" for _ in retrieved] if by_id or rng.random() < 0.7 else []
        if ids and len(ids) > 2 and rng.random() < 0.5:
            retrieved[2], ids[2] = retrieved[0], ids[0]
        groups.append(
            QueryGroup(
                query=text(),
                expected=() if by_id else [text() for _ in range(rng.randint(0, 4))],
                retrieved=retrieved,
                query_id=f"q{number}",
                document_ids=ids,
                relevant_document_ids=[f"d{rng.randint(0, 6)}" for _ in range(3)] if by_id else (),
            )
        )
    return groups


@pytest.mark.parametrize("seed", range(24))
def test_random_groups(client: Client, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = random.Random(seed)
    if seed % 2:  # many chunks and many parts, as with millions of contexts
        monkeypatch.setattr(judged._chunks, "CHUNK_CONTEXTS", 7)
        monkeypatch.setattr(_measuring, "PART_BYTES", 100)
    groups = random_groups(rng, rng.randint(1, 60))
    options = MetricOptions(
        matching=rng.choice([None, Matching.GREEDY_FIRST, Matching.MAXIMUM]),
        no_gold=rng.choice([None, NoGold.SKIP, NoGold.ZERO]),
        per_query=rng.random() < 0.5,
    )
    judge = Judge("token_overlap", rng.choice(["classic", "unicode"]), rng.choice([None, 0.3]))
    ours = Evaluator(client).evaluate(groups, METRICS, judge, options)
    theirs = client.evaluate(groups, METRICS, judge, options, include_verdicts=True)
    assert ours.table == theirs.table
    assert ours.judge == theirs.judge
    assert (ours.verdicts is None) == (theirs.verdicts is None)
    if ours.verdicts is not None and theirs.verdicts is not None:
        assert list(ours.verdicts) == list(theirs.verdicts)
        assert list(ours.verdicts.offsets) == list(theirs.verdicts.offsets)


@pytest.mark.parametrize("part_bytes", [8 << 20, 40])
def test_missing_verdicts(client: Client, monkeypatch: pytest.MonkeyPatch, part_bytes: int) -> None:
    if any(judge.kind == "semantic" and judge.unavailable for judge in client.server_info().judges):
        pytest.skip("the server has no embedding model")
    monkeypatch.setattr(_measuring, "PART_BYTES", part_bytes)
    too_long = "words and more words " * 200
    groups = [
        QueryGroup("q", ["vector store"], ["a vector store", too_long], "settled"),
        QueryGroup("q", ["vector store"], [too_long, "a vector store"], "unsettled"),
        QueryGroup("q", ["vector store"], ["the vector store"], "whole"),
        QueryGroup("q", (), ["x"], "by id", ["d"], ["d"]),
    ]
    judge = Judge("semantic", parameters={"long_text": "reject"})
    options = MetricOptions(per_query=True)
    ours = Evaluator(client).evaluate(groups, ["mrr", "recall@1"], judge, options)
    theirs = client.evaluate(groups, ["mrr", "recall@1"], judge, options, include_verdicts=True)
    assert ours.table.counts == theirs.table.counts
    assert ours.table.counts.verdicts is not None
    assert ours.table.counts.verdicts.error == 2
    assert ours.table.counts.skipped_unsettled == 1
    for a, b in zip(ours.table.metrics, theirs.table.metrics, strict=True):
        # Bounds of several parts are a weighted mean, which rounds once more.
        assert a.lower_bound == pytest.approx(b.lower_bound, abs=1e-15)
        assert a.upper_bound == pytest.approx(b.upper_bound, abs=1e-15)
        assert (a.name, a.mean, a.n, a.signature) == (b.name, b.mean, b.n, b.signature)
        assert list(a.per_query) == list(b.per_query)


REFUSED = [
    ([], ["ap"], Judge("exact"), MetricOptions()),
    ([QueryGroup("q", ["e"], ["r"])], ["ap"], Judge("exact"), MetricOptions()),
    ([QueryGroup("q", ["e"], ["r"], "q")] * 2, ["ap"], Judge("exact"), MetricOptions()),
    ([QueryGroup("q", ["e"], ["r"], "q", ["a", "b"])], ["ap"], Judge("exact"), MetricOptions()),
    (
        [QueryGroup("q", ["e"], ["r"], "q", ["a"], ["a"])],
        ["ap"],
        Judge("exact"),
        MetricOptions(),
    ),
    (
        [QueryGroup("q", ["e"], ["r", "r"], "q", ["a", "a"])],
        ["ap"],
        Judge("exact"),
        MetricOptions(strict_duplicates=True),
    ),
    ([QueryGroup("q", ["e"], ["r"], "q")], ["nope"], Judge("exact"), MetricOptions()),
    ([QueryGroup("q", ["e"], ["r"], "q")], ["ap"], Judge("nope"), MetricOptions()),
    ([QueryGroup("q", ["e"], ["r"], "q")], ["ap"], Judge("exact", "nope"), MetricOptions()),
    (
        [QueryGroup("q", ["e"], ["r"], "q")],
        ["ap"],
        Judge("exact"),
        MetricOptions(matching=Matching.ANY),
    ),
    (
        [QueryGroup("q", ["e"], ["r"], "q"), QueryGroup("q", ["x" * (1 << 21)], ["r"], "r")],
        ["ap"],
        Judge("exact"),
        MetricOptions(),
    ),
    ([QueryGroup("q", ["e"], ["\ud800"], "q")], ["ap"], Judge("exact"), MetricOptions()),
]


@pytest.mark.parametrize(("groups", "metrics", "judge", "options"), REFUSED)
def test_refuses_the_same_with_the_same_error(
    client: Client,
    groups: list[QueryGroup],
    metrics: list[str],
    judge: Judge,
    options: MetricOptions,
) -> None:
    with pytest.raises(JudgedError) as theirs:
        client.evaluate(groups, metrics, judge, options)
    with pytest.raises(JudgedError) as ours:
        Evaluator(client).evaluate(groups, metrics, judge, options)
    assert type(ours.value) is type(theirs.value)
    if isinstance(ours.value, InvalidArgument) and isinstance(theirs.value, InvalidArgument):
        # A stream opens with a message of its own, which the path of its judge begins with.
        assert ours.value.field.removeprefix("start.") == theirs.value.field


def test_a_retriever(client: Client) -> None:
    class Shelf:
        texts = ("vector databases store embeddings", "rag combines retrieval with generation")

        def retrieve(self, query: str, k: int) -> list[Retrieved]:
            return [Retrieved(f"d{i}", 1.0 - i, text) for i, text in enumerate(self.texts)][:k]

    dataset = Dataset([Query("q0", "rag", ["rag combines retrieval with generation"])])
    found = Evaluator(client).evaluate_retriever(Shelf(), dataset, ["mrr", "recall@1"], 2, "exact")
    assert [metric.mean for metric in found.table.metrics] == [0.5, 0.0]


def test_a_text_that_can_not_be_sent_is_named_by_its_place(client: Client, monkeypatch):
    monkeypatch.setattr(judged._chunks, "CHUNK_CONTEXTS", 2)
    groups = [QueryGroup("q", ["a"], ["b", "c"], str(i)) for i in range(5)]
    groups[3] = QueryGroup("q", ["a"], ["b", "half \ud800"], "3")
    with pytest.raises(InvalidArgument, match="lone surrogate") as caught:
        Evaluator(client).evaluate(groups, ["ap"])
    assert caught.value.field == "groups[3].retrieved[1]"
