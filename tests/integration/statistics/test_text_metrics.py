"""ComputeTextMetrics through both clients, in one message and in many."""

from __future__ import annotations

import math

import pytest
from judged import Client, DeadlineExceeded, IntervalOptions, InvalidArgument, TextItem

NAMES = ["bleu", "rouge1", "rouge2", "rougeL", "token_f1", "exact_match"]
ITEMS = [
    TextItem(
        f"Paris is capital {i} of France.", [f"The capital of France is {i}.", "Paris"][: 1 + i % 2]
    )
    for i in range(60)
]


LONG = [TextItem("Paris", ["Paris", *["London"] * 60_000])] * 2
"""Two items that no message holds together."""


def test_one_message_and_many_give_the_same(client: Client):
    interval = IntervalOptions(resamples=500)
    whole = client.compute_text_metrics(NAMES, ITEMS, per_item=True, interval=interval)
    assert [metric.name for metric in whole.metrics] == NAMES
    assert all(len(metric.values) == metric.n == 60 for metric in whole.metrics)
    assert len(whole["rougeL"].precision) == 60
    assert whole["bleu"].interval.lower < whole["bleu"].mean < whole["bleu"].interval.upper
    parts = client.compute_text_metrics(NAMES, [*LONG, *ITEMS], per_item=True, interval=interval)
    for one, other in zip(whole.metrics, parts.metrics, strict=True):
        assert list(other.values) == [*other.values[:2], *one.values]
        assert other.n == 62
        assert other.mean == pytest.approx(math.fsum(other.values) / 62)
        assert other.interval.lower < other.mean < other.interval.upper
    assert list(parts["exact_match"].values[:2]) == [1.0, 1.0]
    bad = [*LONG, *ITEMS, TextItem("a", [])]
    with pytest.raises(InvalidArgument) as caught:
        client.compute_text_metrics(NAMES, bad)
    assert caught.value.field == "items[62].references"


def test_long_work_ends_with_its_call(client: Client):
    """Two texts of 1 MiB take rougeL a minute; the server must not spend it on nobody."""
    texts = [" ".join("ab"[i * i % step % 2] for i in range(1 << 19)) for step in (97, 101)]
    with pytest.raises(DeadlineExceeded):
        client.compute_text_metrics(["rougeL"], [TextItem(texts[0], [texts[1]])], timeout=1)
    # As large as to wait for its turn in the thread that the first call held.
    many = [TextItem(f"word {i}", ["word"]) for i in range(2000)]
    assert client.compute_text_metrics(["rouge1"], many, timeout=40)["rouge1"].n == 2000
