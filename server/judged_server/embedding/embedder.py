"""A loaded model: returns the vectors of texts, from its cache or computed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate

import numpy as np

from judged_server import telemetry
from judged_server.embedding.base import Embedded, ModelCard
from judged_server.embedding.batching import Call, Fault, ReportUnhealthy, Workers, WorkQueue, note
from judged_server.embedding.runtime.session import Session
from judged_server.embedding.tokenizer import WindowTokenizer
from judged_server.embedding.vector_cache import TextVectors, VectorCache, vector_keys
from judged_server.scheduling.concurrency import ITEM_BYTES, FairThreads, run_by_size
from judged_server.scheduling.fairness import MAX_DELAY_S, Admission, Resource, checkpoint
from judged_server.tenant import SENDER, TENANT

MAX_QUEUED_TOKENS = 1_000_000
"""About 100 seconds of work for two cores; more is refused, with a delay for the retry."""
MODEL = Resource("the embedding model", 5_000.0, MAX_QUEUED_TOKENS, 4_096)
"""5,000 tokens a second are half of what two cores reach."""
SLICE_CHARS = 16_384
"""Characters tokenised at once: about 5 ms."""

_READING = FairThreads("tokenize", 1)
"""Tokenises texts, which takes a hundredth of the time of running the model on them."""
_TOKEN_CHARS = 5
"""Characters of a token of plain text."""


class ModelEmbedder:
    """A loaded model with its worker threads."""

    def __init__(
        self,
        card: ModelCard,
        tokenizer: WindowTokenizer,
        session: Session,
        cache: VectorCache,
        report_unhealthy: ReportUnhealthy = lambda _: None,
        max_delay_s: float = MAX_DELAY_S,
    ) -> None:
        """Take over a session that runs as the card says, and a cache of its dimensions."""
        self.card = card
        self._runtime = session.runtime
        self._cache = cache
        self._tokenizer = tokenizer
        self._admission = Admission(MODEL, max_delay_s)
        self._queue = WorkQueue(self._admission, session.batch_tokens)
        self._workers = Workers(
            card.name, self._queue, tokenizer, session, cache.put, report_unhealthy
        )

    @property
    def queued_tokens(self) -> int:
        """Tokens of the texts that are not finished."""
        return self._admission.cost

    async def embed(
        self, texts: Sequence[str], long_text: str, deadline: float | None = None
    ) -> Embedded:
        """Return the vectors of distinct texts; `long_text` is truncate, reject or window_max.

        A text's vectors don't depend on the other texts that run beside it. Raises Overloaded if
        too much work waits, and DeadlineTooShort. Cancelling drops the windows that don't run yet.
        """
        size = sum(map(len, texts)) + ITEM_BYTES * len(texts)
        keys = await run_by_size(size, vector_keys, self.card, self._runtime, texts, long_text)
        # Cached vectors are found only within the same cache domain.
        keys = TENANT.get().own_keys(keys)
        found = dict(await self._cache.get(keys))
        telemetry.note_lookups("vectors", len(found), len(texts) - len(found))
        faults: Mapping[bytes, Fault] = {}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if missing:
            call = Call(asyncio.get_running_loop().create_future(), SENDER.get(), deadline)
            call.runs = [] if telemetry.tracer is not None else None
            self._queue.check(self._least(call, missing.values()))
            try:
                await _READING.run(partial(self._read, call, missing, long_text))
                await call.waiter
            except BaseException:
                self._queue.leave(call)
                raise
            found |= call.vectors
            faults = call.faults
            if telemetry.tracer is not None and call.runs:
                telemetry.tracer.stages(call.runs)
        return await run_by_size(size, join, keys, self.card.dimensions, found, faults)

    def _least(self, call: Call, texts: Iterable[str]) -> Call:
        """Return a call with the estimated cost of its texts, at most one window each.

        While the server is overloaded most calls are refused by this: tokenising their texts would
        take time from admitted ones. It has no deadline: that is checked by the exact cost alone.
        """
        window = self._tokenizer.max_tokens
        cost = sum(min(len(text) // _TOKEN_CHARS, window) for text in texts)
        return replace(call, cost=cost, deadline=None)

    def close(self) -> None:
        """Drop waiting work; return when the running batches have ended."""
        self._queue.close()
        self._workers.join()

    def _read(self, call: Call, missing: Mapping[bytes, str], long_text: str) -> None:
        """Tokenise the texts of a call, in slices between which others have turns, and queue it."""
        begun = time.monotonic()
        keys = list(missing)
        start = 0
        while start < len(keys):
            checkpoint()
            end, chars = start, 0
            while end < len(keys) and chars < SLICE_CHARS:
                chars += len(missing[keys[end]]) + 1
                end += 1
            some = keys[start:end]
            read = self._tokenizer.encode([missing[key] for key in some], long_text)
            for key, text in zip(some, read, strict=True):
                call.add(key, text, self.card.dimensions)
            start = end
            self._admission.time_left(call, time.monotonic())  # raises if it is too late
        note("tokenize", time.monotonic() - begun, [call])
        call.since = time.monotonic()
        self._queue.submit(call)


def join(
    keys: Sequence[bytes],
    dimensions: int,
    found: Mapping[bytes, TextVectors],
    faults: Mapping[bytes, Fault],
) -> Embedded:
    """Return the vectors of texts as one array; a text with a fault has no rows."""
    parts = [None if key in faults else found[key] for key in keys]
    counts = [0 if part is None else len(part.rows) for part in parts]
    rows = [part.rows for part in parts if part is not None]
    return Embedded(
        np.concatenate([np.zeros((0, dimensions), np.float32), *rows]),
        list(accumulate(counts, initial=0)),
        np.array([0 if part is None else part.flags for part in parts], np.uint8),
        {i: faults[key] for i, key in enumerate(keys) if key in faults},
    )
