"""An embedder: texts in, vectors out, from the cache where it has them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from judged_server import recorder, tracing
from judged_server.domain import IntArray
from judged_server.embedding.base import LONG_TEXT_POLICIES, WINDOW_MAX, Embedded, ModelCard
from judged_server.embedding.batching.queue import WorkQueue
from judged_server.embedding.batching.windows import Call, InflightText
from judged_server.embedding.batching.workers import ReportUnhealthy, Workers
from judged_server.embedding.runtime.backend import Session
from judged_server.embedding.tokenizer import WindowTokenizer
from judged_server.embedding.vector_cache import VectorCache, VectorKeys, VectorRows
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
        dimensions = self._card.dimensions
        keys = await run_by_size(size, self._keys.of, texts, long_text)
        # Vectors that are kept or under way are found by those of the same domain alone.
        keys = TENANT.get().own_keys(keys)
        parts = await self._cache.get(keys)
        faults: dict[int, tuple[str, str]] = {}
        missing = await run_by_size(size, _without, len(texts), parts)
        if recorder.active is not None:
            recorder.active.lookups("vectors", len(texts) - len(missing), len(missing))
        if len(missing):
            waiter = asyncio.get_running_loop().create_future()
            call = await run_by_size(
                size, self._call, missing, keys, texts, long_text, waiter, deadline
            )
            try:
                await run_by_size(size, self._queue.submit, call)
                await call.waiter
            except BaseException:
                self._queue.leave(call)
                raise
            rows, faults = await run_by_size(size, _ended, call, dimensions)
            parts = [*parts, rows]
            if tracing.active is not None and call.runs:
                tracing.active.stages(call.runs)
        return await run_by_size(size, join, len(texts), dimensions, parts, faults)

    def close(self) -> None:
        """Drop what waits and return when the batches that are running have ended."""
        self._queue.close()
        self._workers.join()

    def _call(
        self,
        missing: Sequence[int],
        keys: Sequence[bytes],
        texts: Sequence[str],
        long_text: str,
        waiter: asyncio.Future[None],
        deadline: float | None,
    ) -> Call:
        sender = SENDER.get()
        most = None if long_text == WINDOW_MAX else self._card.max_tokens
        entries = [
            InflightText(keys[i], texts[i], long_text, _estimate(texts[i], most)) for i in missing
        ]
        interactive = (
            not sender.is_batch
            and sum(entry.tokens for entry in entries) <= self._admission.interactive_cost
        )
        call = Call(
            missing, entries, interactive, waiter, sender.name, deadline, weight=sender.weight
        )
        if tracing.active is not None:
            call.runs = []
        return call

    def _keep(self, entries: Sequence[InflightText]) -> None:
        """Take what a worker has just finished into the cache."""
        if not entries:
            return
        rows = _rows(range(len(entries)), entries, self._card.dimensions)
        self._cache.put([entry.key for entry in entries], rows)


class LazyEmbedder:
    """A stored model that is checked and loaded by its first use; implements base.Embedder."""

    def __init__(self, card: ModelCard, load: Callable[[], ModelEmbedder]) -> None:
        """Take the card of the model as it will run; `load` must give a model with just that."""
        self._card = card
        self._load = load
        self._embedder: ModelEmbedder | None = None
        self._loading: asyncio.Task[ModelEmbedder] | None = None
        self._closed = False
        self._lock = threading.Lock()

    @property
    def card(self) -> ModelCard:
        """Which model this is and what runs it; the same before it is loaded and after."""
        return self._card

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
                raise RuntimeError(f"model {self._card.name} is closed")
            if self._embedder is None:
                loaded = self._load()
                if loaded.card != self._card:
                    # Verdicts were promised under the card's keys; those of another model, which
                    # was put in its place since, must not bear them.
                    loaded.close()
                    raise ModelDamaged(
                        self._card.name,
                        "its files are no longer those the server found",
                        "restart the server",
                    )
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


def _estimate(text: str, most: int | None) -> int:
    guess = int(len(text) / _CHARS_A_TOKEN) + 2
    return guess if most is None else min(guess, most)


def _rows(texts: Sequence[int], entries: Sequence[InflightText], dimensions: int) -> VectorRows:
    """Return the vectors of entries that ended well, each for the text of that number."""
    vectors = [entry.vectors for entry in entries]
    return VectorRows(
        np.array(texts, np.int64),
        np.concatenate(vectors) if vectors else np.zeros((0, dimensions), np.float32),
        np.array([len(part) for part in vectors], np.int64),
        np.array([entry.flag for entry in entries], np.uint8),
    )


def _ended(call: Call, dimensions: int) -> tuple[VectorRows, dict[int, tuple[str, str]]]:
    """Return the vectors of a call's texts that have any, and what is wrong with the others."""
    ended = list(zip(call.wanted, call.entries, strict=True))
    faults = {text: entry.fault for text, entry in ended if entry.fault is not None}
    good = [text for text, _ in ended if text not in faults]
    entries = [entry for _, entry in ended if entry.fault is None]
    return _rows(good, entries, dimensions), faults


def _without(n_texts: int, parts: Sequence[VectorRows]) -> list[int]:
    """Return the texts that no part has."""
    wanting = np.ones(n_texts, np.bool_)
    for part in parts:
        wanting[part.texts] = False
    missing: list[int] = np.flatnonzero(wanting).tolist()
    return missing


def join(
    n_texts: int,
    dimensions: int,
    parts: Sequence[VectorRows],
    faults: Mapping[int, tuple[str, str]],
) -> Embedded:
    """Return the parts as one; a text that no part has is without rows."""
    counts = np.zeros(n_texts, np.int64)
    flags = np.zeros(n_texts, np.uint8)
    for part in parts:
        counts[part.texts] = part.counts
        flags[part.texts] = part.flags
    offsets = np.zeros(n_texts + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    vectors = np.zeros((int(offsets[-1]), dimensions), np.float32)
    for part in parts:
        vectors[spread(offsets[part.texts], part.counts)] = part.vectors
    return Embedded(vectors, offsets.tolist(), flags, faults)


def spread(starts: IntArray, counts: IntArray) -> IntArray:
    """Return the row numbers of runs: `counts[i]` of them from `starts[i]` on."""
    if not len(counts):
        return np.zeros(0, np.int64)
    first = np.cumsum(counts) - counts
    total = int(first[-1] + counts[-1])
    rows: IntArray = np.repeat(starts - first, counts) + np.arange(total)
    return rows
