"""StreamEvaluate, which the clients call, has the numbers of Evaluate, however it is cut."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import grpc
import judged._batching.chunks
import pytest
from judged import (
    Client,
    EmbeddedRanking,
    EmbeddedRankings,
    Embeddings,
    Evaluation,
    IntervalMethod,
    IntervalOptions,
    InvalidArgument,
    Judge,
    JudgedError,
    Matching,
    MetricOptions,
    NoGold,
    QueryGroup,
    Span,
    Spans,
)
from judged._batching import group_pieces
from judged._convert.fields import read_fields
from judged._convert.groups import write_group
from judged._convert.judges import write_judge
from judged._convert.metrics import read_evaluation, write_options
from judged._convert.verdicts import read_verdicts
from judged._transport.status import Failure, to_error
from judged.evaluation import Dataset, Evaluator, Query, Retrieved
from judged.types import NegativeMatch
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

WORDS = [
    *("rag", "retrieval", "augmented", "generation", "improves", "llm", "vector", "databases"),
    *("store", "embeddings", "not", "never", "naïve", "Straße", "İstanbul", "\u212aelvin"),
    *("検索", "拡張", "生成", "поиск", "😀"),
]
FAMILIES = ["precision_exact@2", "hybrid_log_rank_exact(gamma=2)", "f1_similarity@3"]
METRICS = ["ndcg@10", "ap", "recall@2", "precision@3", "mrr", "f1@2", "hit_rate"]


def needs_model(client: Client) -> None:
    if any(judge.kind == "semantic" and judge.unavailable for judge in client.server_info().judges):
        pytest.skip("the server has no embedding model")


@pytest.fixture(scope="module")
def stub(server_address: str) -> Iterator[JudgeServiceStub]:
    with grpc.insecure_channel(server_address) as channel:
        yield JudgeServiceStub(channel)


def unary(
    stub: JudgeServiceStub,
    groups: list[QueryGroup],
    metrics: list[str],
    judge: Judge | str,
    options: MetricOptions = MetricOptions(),  # noqa: B008 - frozen
    *,
    include_verdicts: bool = False,
) -> Evaluation:
    """Evaluate in one message."""
    request = pb.EvaluateRequest(
        groups=[write_group(group) for group in groups],
        judge=write_judge(judge),
        metrics=metrics,
        options=write_options(options, "groups"),
        include_verdicts=include_verdicts,
    )
    reply = stub.Evaluate(request, timeout=60)
    found = read_evaluation(reply)
    verdicts = None
    if reply.HasField("verdicts"):
        verdicts = read_verdicts(reply.verdicts, found.judge)
    negatives = found.negatives
    if negatives is not None:
        matches = [read_fields(NegativeMatch, match) for match in reply.negatives.matches]
        negatives = replace(negatives, matches=matches)
    return replace(found, verdicts=verdicts, negatives=negatives)


def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut what is sent into many chunks, and groups into pieces, as with millions of contexts."""
    monkeypatch.setattr(judged._batching.chunks, "CHUNK_CONTEXTS", 7)
    monkeypatch.setattr(group_pieces, "CHUNK_CHARACTERS", 60)
    monkeypatch.setattr(group_pieces, "PART_CHARACTERS", 40)


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
                metadata={key: rng.choice("xyz") for key in ("type", "lang") if rng.random() < 0.8},
            )
        )
    return groups


@pytest.mark.parametrize("seed", range(24))
def test_random_groups(
    client: Client, stub: JudgeServiceStub, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    if seed % 2:
        small_chunks(monkeypatch)
    groups = random_groups(rng, rng.randint(1, 60))
    options = MetricOptions(
        matching=rng.choice([None, Matching.GREEDY_FIRST, Matching.MAXIMUM]),
        no_gold=rng.choice([None, NoGold.SKIP, NoGold.ZERO]),
        per_query=rng.random() < 0.5,
        interval=rng.choice([None, IntervalOptions(rng.choice(list(IntervalMethod)), 0.9, 200)]),
        slice_by=rng.choice([(), ("type",), ("lang", "type")]),
    )
    judge = Judge("token_overlap", rng.choice(["classic", "unicode"]), rng.choice([None, 0.3]))
    ours = Evaluator(client).evaluate_groups(groups, METRICS, judge, options)
    theirs = unary(stub, groups, METRICS, judge, options, include_verdicts=True)
    assert ours.table == theirs.table
    assert ours.judge == theirs.judge
    assert (ours.verdicts is None) == (theirs.verdicts is None)
    if ours.verdicts is not None and theirs.verdicts is not None:
        assert list(ours.verdicts) == list(theirs.verdicts)
        assert list(ours.verdicts.offsets) == list(theirs.verdicts.offsets)


class ReadAgain:
    """Groups that are read each time, as from a file."""

    def __init__(self, groups: list[QueryGroup]) -> None:
        self.groups = groups

    def __iter__(self) -> Iterator[QueryGroup]:
        return iter(self.groups)


@pytest.mark.parametrize("seed", range(8))
def test_groups_that_are_not_held_give_the_same(
    client: Client, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    if seed % 2:
        small_chunks(monkeypatch)
    groups = random_groups(rng, rng.randint(1, 60))
    options = MetricOptions(per_query=True, slice_by=["type"])
    held, read = (
        client.evaluate(given, METRICS, "token_overlap", options, include_verdicts=True)
        for given in (groups, ReadAgain(groups))
    )
    assert held.table.to_dict() == read.table.to_dict()
    assert (held.judge, held.negatives, held.usage) == (read.judge, read.negatives, read.usage)
    assert (held.verdicts is None) == (read.verdicts is None)
    if held.verdicts is not None and read.verdicts is not None:
        assert list(read.verdicts) == list(held.verdicts)
        assert list(read.verdicts.offsets) == list(held.verdicts.offsets)
        assert read.verdicts.to_rows() == held.verdicts.to_rows()
        assert list(read.verdicts.groups) == list(held.verdicts.groups)
        assert len(read.verdicts.groups) == len(groups)
        assert read.verdicts.groups[-1] == held.verdicts.groups[-1]


def golden_groups(rng: random.Random, n: int) -> list[QueryGroup]:
    """Random groups whose results often equal an expected or a negative text."""
    groups = []
    for group in random_groups(rng, n):
        known = [*group.expected, "never store vector"]
        retrieved = [rng.choice(known) if rng.random() < 0.4 else t for t in group.retrieved]
        negatives = rng.sample(["never store vector", "", "llm"], rng.randint(0, 2))
        metadata = {"topic": rng.choice("ab")} if rng.random() < 0.8 else {}
        groups.append(replace(group, retrieved=retrieved, negatives=negatives, metadata=metadata))
    return groups


@pytest.mark.parametrize("seed", range(16))
def test_negatives_and_families(
    client: Client, stub: JudgeServiceStub, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    needs_model(client)
    rng = random.Random(seed)
    if seed % 2:
        small_chunks(monkeypatch)
    groups = golden_groups(rng, rng.randint(1, 20))
    metrics = rng.sample([*METRICS, *FAMILIES], 6)
    options = MetricOptions(
        matching=rng.choice([None, Matching.MAXIMUM]),
        no_gold=rng.choice([None, NoGold.ZERO]),
        per_query=rng.random() < 0.5,
        slice_by=rng.choice([(), ["topic"]]),
    )
    ours = Evaluator(client).evaluate_groups(groups, metrics, "exact", options)
    theirs = unary(stub, groups, metrics, "exact", options)
    assert ours.table == theirs.table
    assert ours.negatives == theirs.negatives
    assert ours.judge == theirs.judge


def test_families_alone_leave_the_judge_alone(client: Client, stub: JudgeServiceStub) -> None:
    groups = [QueryGroup("q", ["a", "b"], ["b", "x"], "1")]
    ours = Evaluator(client).evaluate_groups(
        groups, ["f1_exact", "recall_exact@1"], "token_overlap"
    )
    assert ours == unary(stub, groups, ["f1_exact", "recall_exact@1"], "token_overlap")
    assert (ours.judge, ours.verdicts) == (None, None)


def test_spans(client: Client, stub: JudgeServiceStub, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(5)

    def span() -> Span:
        start = rng.randint(0, 30)
        return Span(rng.choice("ab"), start, start + rng.randint(1, 20))

    groups = [
        QueryGroup(
            query_id=str(number),
            spans=Spans(
                [span() for _ in range(rng.randint(0, 6))],
                [span() for _ in range(rng.randint(0, 40))],
            ),
        )
        for number in range(30)
    ]
    judge = Judge("span", min_score=0.3)
    theirs = unary(stub, groups, METRICS, judge, include_verdicts=True)
    whole = client.judge(groups, judge)
    small_chunks(monkeypatch)
    assert list(client.judge(groups, judge)) == list(whole)
    ours = Evaluator(client).evaluate_groups(groups, METRICS, judge)
    assert ours.table == theirs.table
    assert ours.verdicts is not None
    assert list(ours.verdicts) == list(whole)
    assert sum(whole.relevant) > 20


def test_the_same_document_in_two_spans_is_no_repeat(
    client: Client, stub: JudgeServiceStub
) -> None:
    parts = [Span("f", 0, 4), Span("f", 4, 8), Span("f", 0, 4)]
    group = QueryGroup(
        query_id="1", spans=Spans([Span("f", 4, 8)], parts), document_ids=["d", "d", "d"]
    )
    ours = Evaluator(client).evaluate_groups([group], ["mrr"], "span")
    assert ours.table == unary(stub, [group], ["mrr"], "span").table
    assert (ours.table["mrr"].mean, ours.table.counts.duplicates) == (0.5, 1)


def test_your_own_vectors(client: Client, stub: JudgeServiceStub) -> None:
    groups = [
        QueryGroup(
            query_id=name,
            embeddings=Embeddings.from_rows([[1, 0], [0, 1]], [[1, 0.1], [0.7, 0.7], [1, 0]]),
        )
        for name in "ab"
    ]
    metrics = ["recall_similarity", "precision", "f1_similarity@2"]
    judge = Judge("semantic", parameters={"model": "caller"})
    options = MetricOptions(per_query=True)
    ours = Evaluator(client).evaluate_groups(groups, metrics, judge, options)
    assert ours.table == unary(stub, groups, metrics, judge, options).table
    rankings = [EmbeddedRanking(g.query_id, g.embeddings) for g in groups if g.embeddings]
    embedded = client.compute_metrics(metrics, EmbeddedRankings(rankings), options)
    assert embedded["recall_similarity"] == ours.table["recall_similarity"]
    assert embedded["f1_similarity@2"] == ours.table["f1_similarity@2"]


def test_a_query_unsettled_under_one_judge_is_in_no_mean(
    client: Client, stub: JudgeServiceStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_model(client)
    too_long = "words and more words " * 200
    groups = [
        QueryGroup("q", ["vector store"], ["a vector store", too_long], "1", metadata={"k": "a"}),
        QueryGroup("q", ["a", too_long], [too_long, "a"], "2", metadata={"k": "b"}),
        QueryGroup("q", ["vector store"], ["vector store"], "3"),
    ]
    judge = Judge("semantic", parameters={"long_text": "reject"})
    metrics = ["mrr", "precision_exact", "f1_similarity"]
    options = MetricOptions(per_query=True, slice_by=["k"])
    theirs = unary(stub, groups, metrics, judge, options)
    assert theirs.table.query_ids == ["1", "3"]
    assert theirs.table.counts.skipped_unsettled == 1
    assert theirs.table["precision_exact"].mean == 0.5
    assert theirs.table["precision_exact"].upper_bound == pytest.approx(2 / 3)
    for _ in range(2):
        ours = Evaluator(client).evaluate_groups(groups, metrics, judge, options)
        assert ours.table == theirs.table
        small_chunks(monkeypatch)


@pytest.mark.parametrize("cut", [False, True])
def test_missing_verdicts(
    client: Client, stub: JudgeServiceStub, monkeypatch: pytest.MonkeyPatch, cut: bool
) -> None:
    needs_model(client)
    if cut:
        small_chunks(monkeypatch)
    too_long = "words and more words " * 200
    groups = [
        QueryGroup("q", ["vector store"], ["a vector store", too_long], "settled"),
        QueryGroup("q", ["vector store"], [too_long, "a vector store"], "unsettled"),
        QueryGroup("q", ["vector store"], ["the vector store"], "whole"),
        QueryGroup("q", (), ["x"], "by id", ["d"], ["d"]),
    ]
    judge = Judge("semantic", parameters={"long_text": "reject"})
    options = MetricOptions(per_query=True)
    ours = Evaluator(client).evaluate_groups(groups, ["mrr", "recall@1"], judge, options)
    theirs = unary(stub, groups, ["mrr", "recall@1"], judge, options, include_verdicts=True)
    assert ours.table.counts == theirs.table.counts
    assert ours.table.counts.verdicts is not None
    assert ours.table.counts.verdicts.error == 2
    assert ours.table.counts.skipped_unsettled == 1
    assert ours.table == theirs.table


@pytest.mark.parametrize("cut", [False, True])
def test_slices_have_bounds_where_verdicts_miss(
    client: Client, stub: JudgeServiceStub, monkeypatch: pytest.MonkeyPatch, cut: bool
) -> None:
    if any(judge.kind == "semantic" and judge.unavailable for judge in client.server_info().judges):
        pytest.skip("the server has no embedding model")
    if cut:
        small_chunks(monkeypatch)
    too_long = "words and more words " * 200
    texts = {
        "settled": (["a vector store", too_long], "x"),
        "open": ([too_long, "a vector store"], "x"),
        "alone": ([too_long, "a vector store"], "y"),
        "whole": (["the vector store"], "z"),
        "other": (["something else"], "z"),
    }
    groups = [
        QueryGroup("q", ["vector store"], found, name, metadata={"part": part})
        for name, (found, part) in texts.items()
    ]
    groups.append(QueryGroup("q", [], ["x"], "nothing", metadata={"part": "no gold"}))
    judge = Judge("semantic", parameters={"long_text": "reject"})
    options = MetricOptions(interval=IntervalOptions(resamples=100), slice_by=["part", "absent"])
    ours = Evaluator(client).evaluate_groups(groups, ["mrr", "recall@1"], judge, options).table
    theirs = unary(stub, groups, ["mrr", "recall@1"], judge, options).table
    assert [(part.key, part.value) for part in theirs.slices] == [
        ("part", "x"),
        ("part", "y"),
        ("part", "z"),
        ("absent", ""),
    ]
    alone, whole = theirs.slices[1]["mrr"], theirs.slices[2]["mrr"]
    assert (alone.mean, alone.n, alone.interval) == (None, 0, None)
    assert alone.lower_bound is not None
    assert alone.upper_bound is not None
    assert 0 < alone.lower_bound < alone.upper_bound == 1
    assert whole.lower_bound == whole.mean == whole.upper_bound
    assert whole.interval is not None
    assert ours == theirs


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
    ([QueryGroup("q", ["e"], ["r"], "q")], ["ap", "f1_exact@0"], Judge("exact"), MetricOptions()),
    ([QueryGroup("q", ["e"], ["r"], "q")], ["f1_exact"] * 2, Judge("exact"), MetricOptions()),
    (
        [QueryGroup(query_id="q", spans=Spans([Span("f", 0, 1)], [Span("f", 0, 1)]))],
        ["ap", "f1_exact"],
        Judge("span"),
        MetricOptions(),
    ),
    (
        [
            QueryGroup(
                query_id="q", spans=Spans([Span("f", 0, 1)], [Span("f", 0, 1)]), negatives=["n"]
            )
        ],
        ["ap"],
        Judge("span"),
        MetricOptions(),
    ),
    (
        [QueryGroup(query_id="q", spans=Spans([Span("f", 0, 1)], [Span("f", 1, 1)]))],
        ["ap"],
        Judge("span"),
        MetricOptions(),
    ),
    (
        [QueryGroup(query_id="q", spans=Spans([Span("f", 0, 1)], [Span("f", 0, 1)]))],
        ["ap"],
        Judge("exact"),
        MetricOptions(),
    ),
]


@pytest.mark.parametrize(("groups", "metrics", "judge", "options"), REFUSED)
def test_refuses_the_same_with_the_same_error(
    client: Client,
    stub: JudgeServiceStub,
    groups: list[QueryGroup],
    metrics: list[str],
    judge: Judge,
    options: MetricOptions,
) -> None:
    with pytest.raises((grpc.RpcError, JudgedError)) as refusal:
        unary(stub, groups, metrics, judge, options)
    theirs = refusal.value
    if not isinstance(theirs, JudgedError):
        theirs = to_error(cast("Failure", theirs), client.target)
    with pytest.raises(JudgedError) as ours:
        Evaluator(client).evaluate_groups(groups, metrics, judge, options)
    assert type(ours.value) is type(theirs)
    if isinstance(ours.value, InvalidArgument) and isinstance(theirs, InvalidArgument):
        assert ours.value.field == theirs.field


def test_a_retriever(client: Client) -> None:
    class Shelf:
        texts = ("vector databases store embeddings", "rag combines retrieval with generation")

        def retrieve(self, query: str, k: int) -> list[Retrieved]:
            return [Retrieved(f"d{i}", 1.0 - i, text) for i, text in enumerate(self.texts)][:k]

    dataset = Dataset([Query("q0", "rag", ["rag combines retrieval with generation"])])
    found = Evaluator(client).evaluate(Shelf(), dataset, ["mrr", "recall@1"], "exact", 2)
    assert [metric.mean for metric in found.table.metrics] == [0.5, 0.0]


def test_a_text_that_can_not_be_sent_is_named_by_its_place(client: Client, monkeypatch):
    monkeypatch.setattr(judged._batching.chunks, "CHUNK_CONTEXTS", 2)
    groups = [QueryGroup("q", ["a"], ["b", "c"], str(i)) for i in range(5)]
    groups[3] = QueryGroup("q", ["a"], ["b", "half \ud800"], "3")
    with pytest.raises(InvalidArgument, match="lone surrogate") as caught:
        Evaluator(client).evaluate_groups(groups, ["ap"])
    assert caught.value.field == "groups[3].retrieved[1]"
