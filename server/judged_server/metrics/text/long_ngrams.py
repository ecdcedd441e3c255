"""The n-grams of one long hypothesis, counted by sorting numbers.

An n-gram is the number of its first n - 1 tokens and its last token, so that every order is sorted
64-bit numbers; those of a reference are looked up among them. Work is (h + r) log h for h and r
tokens, memory about 60 bytes a token of the hypothesis, and a batch of references at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from judged_server.domain import IntArray
from judged_server.metrics.text.tokens import Tokens
from judged_server.scheduling.checkpoint import checkpoint

BATCH_TOKENS = 1 << 16
_ABSENT = -1
_CHUNK = 1 << 13


@dataclass(frozen=True, slots=True)
class _Order:
    """The distinct n-grams of one order: their sorted keys, and how often each occurs."""

    keys: IntArray
    counts: IntArray


class LongHypothesis:
    """The hypothesis of one item, for the orders 1 to `max_order`."""

    def __init__(self, tokens: Tokens, max_order: int) -> None:
        self._tokens = tokens
        self._max_order = max_order
        self._ids: dict[str, int] = {}
        self._orders: list[_Order] = []

    def overlaps(self, references: Sequence[Tokens]) -> list[int]:
        """Return for each reference what it shares with the hypothesis at the largest order."""
        self._index()
        counts = self._orders[-1].counts
        found: list[int] = []
        for batch in _batches(references):
            ngrams, owners = self._look_up(batch)
            owner, ngram, times = _count(ngrams[-1], owners, len(counts))
            shared = np.zeros(len(batch), np.int64)
            np.add.at(shared, owner, np.minimum(times, counts[ngram]))
            found += shared.tolist()
            checkpoint()
        return found

    def clipped_matches(self, references: Sequence[Tokens]) -> list[int]:
        """Return for each order the n-grams that are in the references, clipped to the most."""
        self._index()
        best = [np.zeros_like(order.counts) for order in self._orders]
        for batch in _batches(references):
            ngrams, owners = self._look_up(batch)
            for found, most in zip(ngrams, best, strict=True):
                _, ngram, times = _count(found, owners, len(most))
                np.maximum.at(most, ngram, times)
                checkpoint()
        return [
            int(np.minimum(order.counts, most).sum())
            for order, most in zip(self._orders, best, strict=True)
        ]

    def _index(self) -> None:
        """Give the tokens and n-grams of the hypothesis their numbers."""
        ids, tokens = self._ids, self._tokens
        parts = []
        for start in range(0, len(tokens), _CHUNK):
            parts.append([ids.setdefault(t, len(ids)) for t in tokens[start : start + _CHUNK]])
            checkpoint()
        numbers: IntArray = np.concatenate([np.array(part, np.int64) for part in [[], *parts]])
        counts = np.bincount(numbers, minlength=len(ids))
        self._orders.append(_Order(np.arange(len(ids)), counts.astype(np.int64)))
        ngrams = numbers
        for order in range(2, self._max_order + 1):
            keys, ngrams, counts = np.unique(
                ngrams[:-1] * len(ids) + numbers[order - 1 :],
                return_inverse=True,
                return_counts=True,
            )
            self._orders.append(_Order(keys, counts.astype(np.int64)))
            checkpoint()

    def _look_up(self, batch: Sequence[Tokens]) -> tuple[list[IntArray], IntArray]:
        """Return the n-grams of each order at each place of a batch, and whose place it is.

        References lie one behind the other with a token between them that the hypothesis lacks.
        """
        ids = self._ids
        flat: list[int] = []
        sizes = []
        for tokens in batch:
            for start in range(0, len(tokens), _CHUNK):
                flat += [ids.get(t, _ABSENT) for t in tokens[start : start + _CHUNK]]
                checkpoint()
            flat.append(_ABSENT)
            sizes.append(len(tokens) + 1)
        numbers: IntArray = np.array(flat, np.int64)
        owners: IntArray = np.repeat(np.arange(len(batch)), sizes)
        checkpoint()
        found = [numbers]
        for order in range(2, self._max_order + 1):
            keys = self._orders[order - 1].keys
            before, last = found[-1][:-1], numbers[order - 1 :]
            wanted = before * len(ids) + last
            place = np.searchsorted(keys, wanted)
            known = (before != _ABSENT) & (last != _ABSENT) & (place < len(keys))
            known[known] = keys[place[known]] == wanted[known]
            found.append(np.where(known, place, _ABSENT))
            checkpoint()
        return found, owners


def _count(
    ngrams: IntArray, owners: IntArray, n_ngrams: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Return (owner, n-gram, times) of every n-gram that an owner has."""
    known = ngrams != _ABSENT
    keys = owners[: len(ngrams)][known] * n_ngrams + ngrams[known]
    distinct, times = np.unique(keys, return_counts=True)
    return distinct // max(n_ngrams, 1), distinct % max(n_ngrams, 1), times.astype(np.int64)


def _batches(references: Sequence[Tokens]) -> Iterator[Sequence[Tokens]]:
    """Yield runs of references of about BATCH_TOKENS, or a single longer one."""
    start = size = 0
    for index, tokens in enumerate(references):
        if index > start and size + len(tokens) + 1 > BATCH_TOKENS:
            yield references[start:index]
            start, size = index, 0
        size += len(tokens) + 1
    yield references[start:]
