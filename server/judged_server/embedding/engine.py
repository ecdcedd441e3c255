"""An embedder: texts in, vectors out, by worker threads that run one small batch at a time each.

Owns scheduling. Each call keeps at most one piece of work a worker in the workers' queue, so calls
side by side take turns, batch by batch, and what a cancelled call has not begun never runs. Leaves
windows to `tokenizer`, batches to `batches`, the model to `session`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from judged_server.domain import Float32Array, IntArray
from judged_server.embedding.backlog import Backlog
from judged_server.embedding.batches import cut_batches, pad
from judged_server.embedding.policy import EMBEDDING_FAILED, LONG_TEXT_POLICIES, WINDOW_MAX
from judged_server.embedding.pooling import finite_rows
from judged_server.embedding.tokenizer import (
    TokenIds,
    TokenizedText,
    WindowTokenizer,
    text_slices,
)
from judged_server.off_loop import off_loop_if
from judged_server.ports import Embedded, ModelCard

BATCH_TOKENS = 512
"""Tokens of one batch, padding included, by measurement: more fall out of a core's cache."""
MAX_QUEUED_TOKENS = 1_000_000
"""About 100 seconds of work for two cores; more is refused with a delay."""
SLICE_CHARS = 65_536
"""Characters tokenised in one go: about 20 ms."""

INLINE_TEXTS = 2_000
"""Calls with more texts do their bookkeeping off the event loop."""

_CHARS_A_TOKEN = 3.5
_NOT_FINITE = "the model gave a vector that is not finite"
_RUN_FAILED = "the model could not be run on this text"

logger = logging.getLogger(__name__)


class Session(Protocol):
    """What the engine asks of a loaded model."""

    def run(self, token_ids: IntArray, mask: IntArray) -> Float32Array:
        """Return one vector a row, of unit length or zero; NaN where it is not finite."""
        ...


@dataclass(slots=True)
class _Rows:
    """The windows of one call, and where their vectors go; `failed` says why one has none."""

    windows: list[TokenIds]
    lengths: list[int]
    offsets: list[int]
    vectors: Float32Array
    failed: dict[int, str]


class OnnxEmbedder:
    """A loaded model with its worker threads; implements ports.Embedder."""

    def __init__(
        self,
        card: ModelCard,
        tokenizer: WindowTokenizer,
        session: Session,
        workers: int,
        max_queued_tokens: int = MAX_QUEUED_TOKENS,
    ) -> None:
        self._card = card
        self._tokenizer = tokenizer
        self._session = session
        self._workers = workers
        self._backlog = Backlog(max_queued_tokens)
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix=f"embed-{card.name}")
        # On a thread of its own, so that a small call waits for a worker once and not twice.
        self._tokenizing = ThreadPoolExecutor(1, thread_name_prefix=f"tokenize-{card.name}")

    @property
    def card(self) -> ModelCard:
        """Which model this is."""
        return self._card

    @property
    def queued_tokens(self) -> int:
        """Tokens, by estimate, of the calls that are not over."""
        return self._backlog.tokens

    async def embed(self, texts: Sequence[str], long_text: str) -> Embedded:
        """Return the vectors of distinct texts; `long_text` is truncate, reject or window_max.

        Raises Overloaded when too much work waits. Cancelling drops the batches not yet begun.
        """
        if long_text not in LONG_TEXT_POLICIES:
            raise ValueError(f"long_text is one of {', '.join(LONG_TEXT_POLICIES)}")
        with self._backlog.hold(self._estimate(texts, long_text)):
            tokenized = await self._tokenize(texts, long_text)
            heavy = len(tokenized) > INLINE_TEXTS
            rows = await off_loop_if(heavy, _lay_out, tokenized, self._card.dimensions)
            batches = await off_loop_if(heavy, cut_batches, rows.lengths, BATCH_TOKENS)
            jobs = [self._batch_job(rows, batch) for batch in batches]
            await _in_turns(self._pool, self._workers, jobs)
        return await off_loop_if(heavy, _collect, tokenized, rows)

    def close(self) -> None:
        """Drop what waits and return when the batches that are running have ended."""
        self._tokenizing.shutdown(wait=True, cancel_futures=True)
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _estimate(self, texts: Sequence[str], long_text: str) -> int:
        guesses = (int(len(text) / _CHARS_A_TOKEN) + 2 for text in texts)
        if long_text == WINDOW_MAX:
            return sum(guesses)
        return sum(min(guess, self._card.max_tokens) for guess in guesses)

    async def _tokenize(self, texts: Sequence[str], long_text: str) -> list[TokenizedText]:
        slices = text_slices(texts, SLICE_CHARS)
        parts: list[list[TokenizedText]] = [[] for _ in slices]

        def job(index: int) -> Callable[[], None]:
            def work() -> None:
                parts[index] = self._tokenizer.encode([texts[i] for i in slices[index]], long_text)

            return work

        await _in_turns(self._tokenizing, 1, [job(index) for index in range(len(slices))])
        return [text for part in parts for text in part]

    def _batch_job(self, rows: _Rows, batch: IntArray) -> Callable[[], None]:
        def work() -> None:
            if not self._run(rows, batch):
                # One text may be to blame, or memory may be short: two halves, then give up.
                for half in np.array_split(batch, 2):
                    if not self._run(rows, half):
                        rows.failed.update(dict.fromkeys(half.tolist(), _RUN_FAILED))

        return work

    def _run(self, rows: _Rows, batch: IntArray) -> bool:
        """Embed a batch into its rows; False when the model could not be run."""
        if not len(batch):
            return True
        token_ids, mask = pad([rows.windows[i] for i in batch], self._tokenizer.pad_id)
        begun = time.monotonic()
        try:
            vectors = self._session.run(token_ids, mask)
        except Exception:
            logger.exception("a batch of shape %s failed", token_ids.shape)
            return False
        self._backlog.measured(token_ids.size, time.monotonic() - begun, self._workers)
        finite = finite_rows(vectors)
        rows.vectors[batch[finite]] = vectors[finite]
        rows.failed.update(dict.fromkeys(batch[~finite].tolist(), _NOT_FINITE))
        return True


async def _in_turns(
    pool: ThreadPoolExecutor, workers: int, jobs: Sequence[Callable[[], None]]
) -> None:
    """Run jobs on a pool with at most one a worker in its queue at any time."""
    loop = asyncio.get_running_loop()
    waiting = iter(jobs)

    async def lane() -> None:
        for job in waiting:
            await loop.run_in_executor(pool, job)

    lanes = [asyncio.create_task(lane()) for _ in range(min(workers, len(jobs)))]
    try:
        await asyncio.gather(*lanes)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # Closing the pool cancels what waits; a caller nobody cancelled must not see that.
        raise RuntimeError("the embedder was closed") from None
    finally:
        for task in lanes:
            task.cancel()


def _lay_out(tokenized: Sequence[TokenizedText], dimensions: int) -> _Rows:
    offsets = [0]
    windows: list[TokenIds] = []
    for text in tokenized:
        windows.extend(text.windows)
        offsets.append(len(windows))
    vectors = np.zeros((len(windows), dimensions), np.float32)
    return _Rows(windows, [len(window) for window in windows], offsets, vectors, {})


def _collect(tokenized: Sequence[TokenizedText], rows: _Rows) -> Embedded:
    faults = {i: text.fault for i, text in enumerate(tokenized) if text.fault is not None}
    if rows.failed:
        owners = np.searchsorted(rows.offsets, sorted(rows.failed), side="right") - 1
        for owner, row in zip(owners.tolist(), sorted(rows.failed), strict=True):
            faults.setdefault(owner, (EMBEDDING_FAILED, rows.failed[row]))
    flags = np.array([text.flag for text in tokenized], np.uint8)
    return Embedded(rows.vectors, rows.offsets, flags, faults)
