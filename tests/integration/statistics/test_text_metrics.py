"""ComputeTextMetrics through both clients, in one message and in many."""

from __future__ import annotations

import pytest
from judged import AsyncClient, Client, DeadlineExceeded, IntervalOptions, InvalidArgument, TextItem
from judged._convert import text_metrics

NAMES = ["bleu", "rouge1", "rouge2", "rougeL", "token_f1", "exact_match"]
ITEMS = [
    TextItem(
        f"Paris is capital {i} of France.", [f"The capital of France is {i}.", "Paris"][: 1 + i % 2]
    )
    for i in range(60)
]


def test_one_message_and_many_give_the_same(client: Client, monkeypatch):
    interval = IntervalOptions(resamples=500)
    whole = client.compute_text_metrics(NAMES, ITEMS, per_item=True, interval=interval)
    assert [metric.name for metric in whole.metrics] == NAMES
    assert all(len(metric.values) == metric.n == 60 for metric in whole.metrics)
    assert len(whole["rougeL"].precision) == 60
    assert whole["bleu"].interval.lower < whole["bleu"].mean < whole["bleu"].interval.upper
    monkeypatch.setattr(text_metrics, "PART_REFERENCES", 7)
    parts = client.compute_text_metrics(NAMES, ITEMS, per_item=True, interval=interval)
    assert parts == whole
    bad = [*ITEMS, TextItem("a", [])]
    with pytest.raises(InvalidArgument) as caught:
        client.compute_text_metrics(NAMES, bad)
    assert caught.value.field == "items[60].references"


async def test_both_clients_agree(client: Client, server_address: str, monkeypatch):
    whole = client.compute_text_metrics(NAMES, ITEMS)
    monkeypatch.setattr(text_metrics, "PART_REFERENCES", 30)
    async with AsyncClient(server_address) as other:
        assert await other.compute_text_metrics(NAMES, ITEMS) == whole


def test_the_server_lists_its_text_metrics(client: Client):
    listed = client.server_info().text_metrics
    assert [metric.name for metric in listed] == NAMES
    assert all(metric.description and metric.reference for metric in listed)


def test_long_work_ends_with_its_call(client: Client):
    """Two texts of 1 MiB take rougeL a minute; the server must not spend it on nobody."""
    texts = [" ".join("ab"[i * i % step % 2] for i in range(1 << 19)) for step in (97, 101)]
    with pytest.raises(DeadlineExceeded):
        client.compute_text_metrics(["rougeL"], [TextItem(texts[0], [texts[1]])], timeout=1)
    # As large as to wait for its turn in the thread that the first call held.
    many = [TextItem(f"word {i}", ["word"]) for i in range(2000)]
    assert client.compute_text_metrics(["rouge1"], many, timeout=40)["rouge1"].n == 2000
