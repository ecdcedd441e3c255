"""The queue of writes: nobody waits, what waits is bounded, the end writes the rest."""

import threading

from judged_server.store.write_queue import WriteQueue


def test_closing_writes_what_waits_in_order_and_in_parts():
    written: list[list[str]] = []
    queue = WriteQueue(written.append, len, 6, "texts")
    for text in ("aaa", "bb", "c", "dddddddd", "e"):
        queue.put([text])
    queue.close()
    assert [text for batch in written for text in batch] == ["aaa", "bb", "c", "dddddddd", "e"]
    assert all(sum(map(len, batch)) <= 6 or len(batch) == 1 for batch in written)
    queue.put(["late"])
    assert queue.closed


def test_more_than_the_bound_is_not_written_and_nobody_waits():
    gate, begun, written = threading.Event(), threading.Event(), []

    def write(batch):
        begun.set()
        gate.wait(30)
        written.extend(batch)

    queue = WriteQueue(write, len, 1, "texts", max_waiting_bytes=3)
    queue.put(["a"])
    assert begun.wait(30)
    assert queue.put(["b", "c"]) is not None
    assert queue.put(["d"]) is None
    gate.set()
    queue.close()
    assert written == ["a", "b", "c"]
