"""Intervals, slices and unjudged documents through ComputeMetrics, split or not."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping

import pytest
from judged import (
    AsyncClient,
    Client,
    IntervalMethod,
    IntervalOptions,
    InvalidArgument,
    MetricOptions,
    MetricTable,
    TrecRankings,
    Unjudged,
)

METRICS = ["ndcg@10", "ap", "recall@5", "mrr", "judged@5"]
RNG = random.Random(4)
DOCUMENTS = [f"d{i}" for i in range(30)]


def long(short: TrecRankings) -> TrecRankings:
    """Return the same with ids of documents so long that it takes several messages."""

    def named(document: str) -> str:
        return "x" * 4_000 + document

    return TrecRankings(
        {q: {named(d): grade for d, grade in grades.items()} for q, grades in short.qrels.items()},
        {
            q: {named(d): score for d, score in ranked.items()}
            if isinstance(ranked, Mapping)
            else [named(str(d)) for d in ranked]
            for q, ranked in short.run.items()
        },
    )


def trec(n: int) -> TrecRankings:
    qrels = {
        f"q{i}": {d: RNG.randint(-1, 2) for d in RNG.sample(DOCUMENTS, RNG.randint(0, 12))}
        for i in range(n)
    }
    run = {q: {d: RNG.random() for d in RNG.sample(DOCUMENTS, 8)} for q in qrels}
    del run["q1"]
    run["only in the run"] = {"d1": 1.0}
    return TrecRankings(qrels, run)


TREC = trec(80)
LONG = long(TREC)
METADATA = {f"q{i}": {"type": RNG.choice("xyz")} for i in range(0, 80, 2)}
METADATA["only in the run"] = {"type": "nobody"}


def same(ours: MetricTable, theirs: MetricTable) -> None:
    assert ours.counts == theirs.counts
    assert list(ours.query_ids) == list(theirs.query_ids)
    assert [(s.key, s.value) for s in ours.slices] == [(s.key, s.value) for s in theirs.slices]
    pairs = [(ours.metrics, theirs.metrics)]
    pairs += [(a.metrics, b.metrics) for a, b in zip(ours.slices, theirs.slices, strict=True)]
    for some, others in pairs:
        for a, b in zip(some, others, strict=True):
            assert (a.name, a.mean, a.n, a.signature) == (b.name, b.mean, b.n, b.signature)
            assert a.interval == b.interval
            assert list(a.per_query) == list(b.per_query)
            # Bounds of several parts are a weighted mean, which rounds once more.
            assert a.lower_bound == pytest.approx(b.lower_bound, abs=1e-15)
            assert a.upper_bound == pytest.approx(b.upper_bound, abs=1e-15)


@pytest.mark.parametrize("unjudged", [None, *Unjudged])
@pytest.mark.parametrize("method", IntervalMethod)
def test_split_requests_give_what_one_would(client, unjudged, method):
    options = MetricOptions(
        complete=method is IntervalMethod.T,
        per_query=method is IntervalMethod.BCA,
        interval=IntervalOptions(method, resamples=300, seed=2),
        slice_by=["type", "absent"],
        unjudged=unjudged,
    )
    whole = client.compute_metrics(METRICS, TREC, options, metadata=METADATA)
    assert [(part.key, part.value) for part in whole.slices] == [
        ("type", ""),
        ("type", "x"),
        ("type", "y"),
        ("type", "z"),
        ("absent", ""),
    ]
    assert all(metric.interval is not None for metric in whole.metrics)
    assert (whole["ap"].lower_bound is not None) == (unjudged is Unjudged.BOUNDS)
    same(client.compute_metrics(METRICS, LONG, options, metadata=METADATA), whole)


def test_errors_of_parts_name_the_topic_of_the_caller(client: Client, server_address: str):
    run = {q: TREC.run.get(q, {}) for q in reversed(list(TREC.qrels))}
    run["q70"] = ["d1", "d2", "d1"]
    broken = TrecRankings(TREC.qrels, run)
    options = MetricOptions(strict_duplicates=True)

    async def ask() -> None:
        async with AsyncClient(server_address) as other:
            await other.compute_metrics(["ap"], measured, options)

    for measured in (broken, long(broken)):
        for call in (
            lambda: client.compute_metrics(["ap"], measured, options),  # noqa: B023
            lambda: asyncio.run(ask()),
        ):
            with pytest.raises(InvalidArgument) as caught:
                call()
            assert caught.value.field == "trec.run[9].document_ids[2]"
