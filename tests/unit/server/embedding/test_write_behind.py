"""Write-behind: nobody waits, what waits is bounded, the end writes the rest."""

import hashlib
import threading

import numpy as np
import pytest
from judged_server.embedding import vector_cache
from judged_server.embedding.vector_cache import VectorRows, VectorStore, WriteBehind

CAP = 16 << 20


def _keys(numbers):
    return [hashlib.sha256(str(number).encode()).digest() for number in numbers]


def _rows(numbers):
    return VectorRows(
        np.arange(len(numbers)),
        np.array([[number, 1] for number in numbers], np.float32),
        np.ones(len(numbers), np.int64),
        np.zeros(len(numbers), np.uint8),
    )


@pytest.fixture
def store(tmp_path):
    return VectorStore(tmp_path / "vectors", CAP, 0)


async def test_closing_writes_what_waits(store, tmp_path):
    behind = WriteBehind(store)
    behind.put(_keys(range(9)), _rows(range(9)))
    behind.close()
    again = WriteBehind(VectorStore(tmp_path / "vectors", CAP, 0))
    (rows,) = await again.get(_keys([5, 99, 3]), 2)
    assert sorted(zip(rows.texts.tolist(), rows.vectors[:, 0].tolist(), strict=True)) == [
        (0, 5.0),
        (2, 3.0),
    ]
    again.close()


async def test_many_keys_are_read_in_parts(store, tmp_path, monkeypatch):
    monkeypatch.setattr(vector_cache, "READ_KEYS", 4)
    behind = WriteBehind(store)
    behind.put(_keys(range(10)), _rows(range(10)))
    behind.close()
    again = WriteBehind(VectorStore(tmp_path / "vectors", CAP, 0))
    parts = await again.get(_keys(range(10)), 2)
    assert len(parts) == 3
    found = {t: v for part in parts for t, v in zip(part.texts.tolist(), part.vectors[:, 0])}  # noqa: B905
    assert found == {number: float(number) for number in range(10)}
    again.close()


def test_more_than_the_bound_is_not_stored_and_nobody_waits(store, monkeypatch):
    gate, begun = threading.Event(), threading.Event()
    written = []

    def put(entries):
        begun.set()
        gate.wait(30)
        written.extend(entries)
        return True

    monkeypatch.setattr(store, "put", put)
    behind = WriteBehind(store, max_waiting_bytes=8 * 10)
    behind.put(_keys([0]), _rows([0]))
    assert begun.wait(30)
    behind.put(_keys(range(1, 11)), _rows(range(1, 11)))
    behind.put(_keys([11]), _rows([11]))
    gate.set()
    behind.close()
    assert [entry.key for entry in written] == _keys(range(11))


def test_a_store_that_raises_does_not_end_the_writer(store, monkeypatch, caplog):
    real, failed = store.put, threading.Event()

    def put(entries):
        if not failed.is_set():
            failed.set()
            raise RuntimeError("a bug")
        return real(entries)

    monkeypatch.setattr(store, "put", put)
    behind = WriteBehind(store)
    behind.put(_keys([1]), _rows([1]))
    assert failed.wait(30)
    behind.put(_keys([2]), _rows([2]))
    behind.close()
    assert "not stored" in caplog.text


async def test_a_closed_one_finds_nothing_and_keeps_nothing(store):
    behind = WriteBehind(store)
    behind.close()
    behind.put(_keys([1]), _rows([1]))
    assert await behind.get(_keys([1]), 2) == []
