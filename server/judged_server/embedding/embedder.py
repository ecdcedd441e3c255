"""An embedder: texts in, vectors out, from the cache where it has them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from judged_server import recorder, tracing
from judged_server.embedding.base import LONG_TEXT_POLICIES, WINDOW_MAX, Embedded, ModelCard
from judged_server.embedding.batching import (
    Call,
    Fault,
    InflightText,
    ReportUnhealthy,
    Workers,
    WorkQueue,
)
from judged_server.embedding.runtime.session import Session
from judged_server.embedding.tokenizer import WindowTokenizer
from judged_server.embedding.vector_cache import TextVectors, VectorCache, VectorKeys
from judged_server.errors import ModelDamaged
from judged_server.scheduling.admission import MAX_DELAY_S, Admission, Resource
from judged_server.scheduling.concurrency import ITEM_BYTES, run_by_size
from judged_server.tenant import SENDER, TENANT

MAX_QUEUED_TOKENS = 1_000_000
"""About 100 seconds of work for two cores; more is refused with a delay."""
MODEL = Resource("the embedding model", 5_000.0, MAX_QUEUED_TOKENS, 4_096)
"""5,000 tokens a second are half of what two cores reach."""

_CHARS_A_TOKEN = 3.5


class ModelEmbedder:
    """A loaded model with its worker threads; implements base.Embedder."""

    def __init__(
        self,
        card: ModelCard,
        tokenizer: WindowTokenizer,
        session: Session,
        cache: VectorCache,
        max_queued_tokens: int = MAX_QUEUED_TOKENS,
        report_unhealthy: ReportUnhealthy = lambda _: None,
        batch_tokens: int = 0,
        max_delay_s: float = MAX_DELAY_S,
    ) -> None:
        """Take over a session and a cache of the card's dimensions; what runs is as it says."""
        facts = session.facts
        self._card = replace(
            card, precision=facts.precision, execution_provider=facts.execution_provider
        )
        self._keys = VectorKeys(self._card, facts.runtime)
        self._cache = cache
        resource = replace(MODEL, most=max_queued_tokens)
        self._admission: Admission[Call] = Admission(resource, max_delay_s)
        self._queue = WorkQueue(card.dimensions, self._admission, batch_tokens)
        self._workers = Workers(
            card.name, self._queue, tokenizer, session, self._keep, report_unhealthy
        )
        self._workers.start()

    @property
    def card(self) -> ModelCard:
        """Which model this is, and what really runs it."""
        return self._card

    @property
    def queued_tokens(self) -> int:
        """Tokens, by estimate, of the texts that are not done."""
        return self._admission.cost

    async def embed(
        self, texts: Sequence[str], long_text: str, deadline: float | None = None
    ) -> Embedded:
        """Return the vectors of distinct texts; `long_text` is truncate, reject or window_max.

        Raises Overloaded when too much work waits, and DeadlineTooShort. Cancelling drops what has
        not begun, unless other calls wait for the same texts.
        """
        if long_text not in LONG_TEXT_POLICIES:
            raise ValueError(f"long_text is one of {', '.join(LONG_TEXT_POLICIES)}")
        size = sum(map(len, texts)) + ITEM_BYTES * len(texts)
        keys = await run_by_size(size, self._keys.of, texts, long_text)
        # Vectors that are kept or under way are found by those of the same domain alone.
        keys = TENANT.get().own_keys(keys)
        found = dict(await self._cache.get(keys))
        if recorder.active is not None:
            recorder.active.lookups("vectors", len(found), len(texts) - len(found))
        faults: Mapping[bytes, Fault] = {}
        if len(found) < len(keys):
            entries = await run_by_size(size, self._entries, keys, texts, long_text, found)
            sender = self._admission.sender(SENDER.get(), sum(each.tokens for each in entries))
            waiter = asyncio.get_running_loop().create_future()
            call = Call(entries, waiter, sender, deadline)
            call.runs = [] if tracing.active is not None else None
            try:
                await run_by_size(size, self._queue.submit, call)
                await call.waiter
            except BaseException:
                self._queue.leave(call)
                raise
            found |= {each.key: each.vectors for each in call.entries if each.vectors is not None}
            faults = {each.key: each.fault for each in call.entries if each.fault is not None}
            if tracing.active is not None and call.runs:
                tracing.active.stages(call.runs)
        return await run_by_size(size, join, keys, self._card.dimensions, found, faults)

    def close(self) -> None:
        """Drop what waits and return when the batches that are running have ended."""
        self._queue.close()
        self._workers.join()

    def _entries(
        self,
        keys: Sequence[bytes],
        texts: Sequence[str],
        long_text: str,
        found: Mapping[bytes, TextVectors],
    ) -> list[InflightText]:
        """Return the texts of which no vectors were found."""
        most = None if long_text == WINDOW_MAX else self._card.max_tokens
        return [
            InflightText(key, text, long_text, _estimate(text, most))
            for key, text in zip(keys, texts, strict=True)
            if key not in found
        ]

    def _keep(self, entries: Sequence[InflightText]) -> None:
        """Take what a worker has just finished into the cache."""
        vectors = {each.key: each.vectors for each in entries if each.vectors is not None}
        if vectors:
            self._cache.put(vectors)


def _estimate(text: str, most: int | None) -> int:
    guess = int(len(text) / _CHARS_A_TOKEN) + 2
    return guess if most is None else min(guess, most)


def join(
    keys: Sequence[bytes],
    dimensions: int,
    found: Mapping[bytes, TextVectors],
    faults: Mapping[bytes, Fault],
) -> Embedded:
    """Return the vectors of texts as one array; a text with a fault is without rows."""
    parts = [None if key in faults else found[key] for key in keys]
    counts = [0 if part is None else len(part.rows) for part in parts]
    rows = [part.rows for part in parts if part is not None]
    return Embedded(
        np.concatenate([np.zeros((0, dimensions), np.float32), *rows]),
        list(accumulate(counts, initial=0)),
        np.array([0 if part is None else part.flags for part in parts], np.uint8),
        {i: faults[key] for i, key in enumerate(keys) if key in faults},
    )


class LazyEmbedder:
    """A stored model that is checked and loaded by its first use; implements base.Embedder."""

    def __init__(self, card: ModelCard, load: Callable[[], ModelEmbedder]) -> None:
        """Take the card of the model as it will run; `load` must give a model with just that."""
        self.card = card
        self._load = load
        self._embedder: ModelEmbedder | None = None
        self._loading: asyncio.Task[ModelEmbedder] | None = None
        self._closed = False
        self._lock = threading.Lock()

    @property
    def loaded(self) -> bool:
        """Whether the model is in memory."""
        return self._embedder is not None

    @property
    def queued_tokens(self) -> int:
        """Tokens, by estimate, of the texts that are not done."""
        return 0 if self._embedder is None else self._embedder.queued_tokens

    def load(self) -> ModelEmbedder:
        """Return the model, loaded once; blocks. After a failure the next use tries again."""
        with self._lock:
            if self._closed:
                raise RuntimeError(f"model {self.card.name} is closed")
            if self._embedder is None:
                loaded = self._load()
                if loaded.card != self.card:
                    # Verdicts were promised under the card's keys; those of another model, which
                    # was put in its place since, must not bear them.
                    loaded.close()
                    problem = "its files are no longer those that the server has shown"
                    raise ModelDamaged(self.card.name, problem, "restart the server to use them")
                self._embedder = loaded
            return self._embedder

    async def embed(
        self, texts: Sequence[str], long_text: str, deadline: float | None = None
    ) -> Embedded:
        """Return the vectors of distinct texts; the first caller waits for the model to load."""
        embedder = self._embedder
        if embedder is None:
            embedder = await self._load_once()
        return await embedder.embed(texts, long_text, deadline)

    async def _load_once(self) -> ModelEmbedder:
        """Return the model that one thread loads for all who wait, whoever of them leaves."""
        if self._loading is None:
            self._loading = asyncio.create_task(asyncio.to_thread(self.load))
            self._loading.add_done_callback(self._loaded_once)
        return await asyncio.shield(self._loading)

    def _loaded_once(self, loading: asyncio.Task[ModelEmbedder]) -> None:
        self._loading = None  # after a failure the next use tries again
        if not loading.cancelled():
            loading.exception()  # nobody may be left to be told

    def close(self) -> None:
        """Close the model, once it has been loaded if that is going on."""
        with self._lock:
            self._closed = True
            if self._embedder is not None:
                self._embedder.close()
