"""A session that tests hold up, make fail and look into, and waits for what an engine does.

Its vectors follow from the letters of a text, read through the tiny model's vocabulary.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import numpy as np
from judged_server.domain import Float32Array, IntArray
from judged_server.embedding.base import ModelCard
from judged_server.embedding.embedder import ModelEmbedder

from tests.fakes.models.tiny_model import HIDDEN, VOCABULARY, WINDOW

CARD = ModelCard("fake", HIDDEN, WINDOW, "a" * 64, "b" * 64, "mean", True, "fp32", "Fake")


class Panic(BaseException):
    """What a panic in Rust looks like: no Exception."""


class FakeSession:
    """A vector by the first letter of each row; can wait or fail."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.started: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Semaphore(0)
        self.fail_on: str | None = None
        self.error: BaseException = RuntimeError("a bug")
        self.runtime = "fake 1"
        self.workers = 1
        self.batch_tokens = 0

    def run(self, token_ids: IntArray, mask: IntArray) -> Float32Array:
        letters = [self._letters(row, kept) for row, kept in zip(token_ids, mask, strict=True)]
        self.started.append(letters)
        self.begun.release()
        self.gate.wait(30)
        self.batches.append(letters)
        vectors = np.zeros((len(token_ids), HIDDEN), np.float32)
        for row, text in enumerate(letters):
            if self.fail_on is not None and self.fail_on in text:
                raise self.error
            vectors[row, sum(text.encode()) % HIDDEN] = 1
        return vectors

    def _letters(self, row: IntArray, kept: IntArray) -> str:
        tokens = [VOCABULARY[i] for i in row[kept.astype(bool)]]
        return "".join(token.removeprefix("##") for token in tokens if token[0] != "[")


async def begun(session: FakeSession) -> None:
    assert await asyncio.to_thread(session.begun.acquire, timeout=30)


async def until(fact: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not fact():  # noqa: ASYNC110 - the queue has no event for tests
            await asyncio.sleep(0.001)


async def queued(embedder: ModelEmbedder, tokens: int = 1) -> None:
    """Return once that many tokens wait behind the batches that run."""
    await until(lambda: embedder._queue._waiting_tokens >= tokens)
