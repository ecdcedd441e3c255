"""ComputeTextMetrics through both clients, in one message and in many."""

from __future__ import annotations

import pytest
from judged import Client, DeadlineExceeded, InvalidArgument, TextItem

LONG = [TextItem("Paris", ["Paris", *["London"] * 60_000])] * 2
"""Two items that no message holds together."""


def test_an_item_of_a_later_message_is_named_by_its_place_in_the_whole(client: Client):
    with pytest.raises(InvalidArgument) as caught:
        client.compute_text_metrics(["bleu"], [*LONG, TextItem("a", [])])
    assert caught.value.field == "items[2].references"


def test_long_work_ends_with_its_call(client: Client):
    """Two texts of 1 MiB take rougeL a minute; the server must not spend it on nobody."""
    texts = [" ".join("ab"[i * i % step % 2] for i in range(1 << 19)) for step in (97, 101)]
    with pytest.raises(DeadlineExceeded):
        client.compute_text_metrics(["rougeL"], [TextItem(texts[0], [texts[1]])], timeout=1)
    # As large as to wait for its turn in the thread that the first call held.
    many = [TextItem(f"word {i}", ["word"]) for i in range(2000)]
    assert client.compute_text_metrics(["rouge1"], many, timeout=40)["rouge1"].n == 2000
