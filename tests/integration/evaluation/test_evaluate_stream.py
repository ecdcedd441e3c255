"""StreamEvaluate, which the clients call, has the numbers of Evaluate, however it is cut."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import grpc
import pytest
from judged import (
    Client,
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
from judged._transport.call import to_error
from judged.evaluation import Evaluator
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

from tests.integration.evaluation.evaluate_calls import needs_model, small_chunks, unary

WORDS = [
    "rag",
    "retrieval",
    "augmented",
    "generation",
    "improves",
    "llm",
    "vector",
    "databases",
    "store",
    "embeddings",
    "not",
    "never",
    "naïve",
    "Straße",
    "İstanbul",
    "\u212aelvin",
    "検索",
    "拡張",
    "生成",
    "поиск",
    "😀",
]
FAMILIES = ["precision_exact@2", "hybrid_log_rank_exact(gamma=2)", "f1_similarity@3"]
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
                metadata={key: rng.choice("xyz") for key in ("type", "lang") if rng.random() < 0.8},
            )
        )
    return groups


@pytest.mark.parametrize("seed", range(12))
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


@pytest.mark.parametrize("seed", range(6))
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


@pytest.mark.parametrize("seed", range(8))
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


REFUSED = [
    ([QueryGroup("q", ["e"], ["r"])], ["ap"], Judge("exact"), MetricOptions()),
    ([QueryGroup("q", ["e"], ["r"], "q")] * 2, ["ap"], Judge("exact"), MetricOptions()),
    (
        [QueryGroup("q", ["e"], ["r", "r"], "q", ["a", "a"])],
        ["ap"],
        Judge("exact"),
        MetricOptions(strict_duplicates=True),
    ),
    ([QueryGroup("q", ["e"], ["r"], "q")], ["nope"], Judge("exact"), MetricOptions()),
    ([QueryGroup("q", ["e"], ["r"], "q")], ["ap"], Judge("exact", "nope"), MetricOptions()),
    (
        [QueryGroup("q", ["e"], ["r"], "q"), QueryGroup("q", ["x" * (1 << 21)], ["r"], "r")],
        ["ap"],
        Judge("exact"),
        MetricOptions(),
    ),
    (
        [QueryGroup(query_id="q", spans=Spans([Span("f", 0, 1)], [Span("f", 0, 1)]))],
        ["ap", "f1_exact"],
        Judge("span"),
        MetricOptions(),
    ),
    (
        [QueryGroup(query_id="q", spans=Spans([Span("f", 0, 1)], [Span("f", 1, 1)]))],
        ["ap"],
        Judge("span"),
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
        theirs = to_error(theirs, client.target)
    with pytest.raises(JudgedError) as ours:
        Evaluator(client).evaluate_groups(groups, metrics, judge, options)
    assert type(ours.value) is type(theirs)
    if isinstance(ours.value, InvalidArgument) and isinstance(theirs, InvalidArgument):
        assert ours.value.field == theirs.field
