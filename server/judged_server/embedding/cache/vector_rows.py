"""Vectors of some texts of a call: what each source finds, and their union."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from judged_server.domain import ByteArray, Float32Array, IntArray
from judged_server.embedding.base import Embedded, ModelCard


@dataclass(frozen=True, slots=True)
class VectorRows:
    """Vectors of the texts numbered `texts`, one after the other.

    `vectors` is float32 (rows, dimensions); text `texts[i]` has `counts[i]` neighbouring rows and
    the flags `flags[i]` (uint8 of Flag).
    """

    texts: IntArray
    vectors: Float32Array
    counts: IntArray
    flags: ByteArray

    def renumbered(self, numbers: IntArray) -> VectorRows:
        """Return the same rows, where text i is called `numbers[i]`."""
        return VectorRows(numbers[self.texts], self.vectors, self.counts, self.flags)


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


ENGINE_VERSION = 1
"""Raised when a release makes other vectors of the same text, model and runtime."""


class VectorKeys:
    """Keys for one model as one runtime runs it."""

    def __init__(self, card: ModelCard, runtime: str) -> None:
        self._parts = (
            card.model_sha256,
            card.tokenizer_sha256,
            card.pooling,
            str(card.normalize),
            str(card.max_tokens),
            card.prefix,
            card.precision,
            card.execution_provider,
            runtime,
            str(ENGINE_VERSION),
        )

    def of(self, texts: Sequence[str], long_text: str) -> list[bytes]:
        """Return the key of each text under a policy: SHA-256, 32 bytes.

        Over all parts and the text, each in UTF-8 behind its length. About 2 microseconds a text
        of 600 characters.
        """
        common = hashlib.sha256(_prefixed([*self._parts, long_text]))
        keys = []
        for text in texts:
            raw = text.encode("utf-8", "surrogatepass")
            sha256 = common.copy()
            sha256.update(len(raw).to_bytes(8, "little") + raw)
            keys.append(sha256.digest())
        return keys


def _prefixed(parts: Iterable[str]) -> bytes:
    raws = [part.encode() for part in parts]
    return b"".join(len(raw).to_bytes(8, "little") + raw for raw in raws)
