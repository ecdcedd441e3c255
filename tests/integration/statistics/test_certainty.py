"""Intervals, slices and unjudged documents through ComputeMetrics, split or not."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping

import pytest
from judged import (
    AsyncClient,
    Client,
    DeadlineExceeded,
    GainRanking,
    GainRankings,
    IntervalMethod,
    IntervalOptions,
    InvalidArgument,
    MetricOptions,
    MetricTable,
    PerQueryValues,
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


@pytest.mark.parametrize("unjudged", [None, *Unjudged])
@pytest.mark.parametrize("per_query", [False, True])
def test_split_requests_that_ask_for_means_give_what_one_would(client, unjudged, per_query):
    options = MetricOptions(unjudged=unjudged, per_query=per_query, complete=per_query)
    whole = client.compute_metrics(METRICS, TREC, options)
    same(client.compute_metrics(METRICS, LONG, options), whole)


def test_both_clients_give_the_same(server_address, client):
    ids = ["x" * 100_000 + str(i) for i in range(20)]  # two messages
    gains = GainRankings([GainRanking(query_id, [1.0, 0.0], [1.0] * 3) for query_id in ids])
    metadata = {query_id: {"k": str(i % 3)} for i, query_id in enumerate(ids)}
    options = MetricOptions(interval=IntervalOptions(), slice_by=["k"])

    async def ask() -> MetricTable:
        async with AsyncClient(server_address) as other:
            return await other.compute_metrics(["ap"], gains, options, metadata=metadata)

    table = client.compute_metrics(["ap"], gains, options, metadata=metadata)
    assert asyncio.run(ask()) == table
    assert "all 20 values are equal" in " ".join(table["ap"].interval.warnings)


@pytest.mark.parametrize("measured", [TREC, LONG], ids=["one message", "many"])
def test_metadata_of_an_unknown_query_is_refused(client, measured):
    with pytest.raises(InvalidArgument) as caught:
        client.compute_metrics(["ap"], measured, metadata={"q0": {}, "nobody": {"k": "v"}})
    assert caught.value.field == "metadata[1].query_id"


def test_text_that_can_not_be_sent_is_named(client):
    for metadata, path in (
        ({"q0": {"k": "\ud800"}}, 'metadata[0].metadata["k"]'),
        ({"\ud800": {}}, "metadata[0].query_id"),
    ):
        with pytest.raises(InvalidArgument) as caught:
            client.compute_metrics(["ap"], TREC, metadata=metadata)
        assert caught.value.field == path
    with pytest.raises(InvalidArgument) as caught:
        client.compute_metrics(["ap"], TREC, MetricOptions(slice_by="type"))
    assert caught.value.field == "options.slice_by"


def test_the_server_answers_while_it_resamples(client: Client, server_address: str):
    """20,000 queries, 2,000 times: on the event loop nothing else would be answered meanwhile."""
    n = 20_000
    values = PerQueryValues(
        [str(i) for i in range(n)], [[RNG.random() for _ in range(n)] for _ in range(4)]
    )
    options = MetricOptions(interval=IntervalOptions(resamples=2_000))

    async def ask() -> int:
        answered = 0
        async with AsyncClient(server_address) as other:
            work = asyncio.create_task(
                other.compute_metrics(["ap", "mrr", "recall", "f1"], values, options)
            )
            await asyncio.sleep(0)
            while not work.done():
                await other.server_info()
                answered += 1
            table = await work
        assert table["ap"].interval is not None
        return answered

    assert asyncio.run(ask()) > 10


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


def test_one_deadline_holds_for_all_parts(client: Client):
    with pytest.raises(DeadlineExceeded):
        client.compute_metrics(["ap"], LONG, timeout=0.001)
