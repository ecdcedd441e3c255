"""Cache of a model's vectors: in memory, and in a file that outlives the process.

A cached vector is the one that would be computed: its key covers all that it depends on, see
`vector_keys`. Errors of the disk are handled by `store.kept_rows`.
"""

from __future__ import annotations

import hashlib
import struct
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from judged_server.domain import Float32Array
from judged_server.embedding.base import ModelCard
from judged_server.scheduling.concurrency import ITEM_BYTES, run_by_size
from judged_server.store.kept_rows import KeptRows, Row

_HEAD = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class TextVectors:
    """The vectors of one text: `rows` is float32 (windows, dimensions), `flags` of Flag."""

    rows: Float32Array
    flags: int

    def to_payload(self) -> bytes:
        """Return the bytes that are stored: the flags, then the numbers."""
        return _HEAD.pack(self.flags) + self.rows.astype("<f4", copy=False).tobytes()

    @classmethod
    def from_payload(cls, payload: bytes, dimensions: int) -> TextVectors | None:
        """Return what was stored; None for vectors of another size."""
        size = len(payload) - _HEAD.size
        if size <= 0 or size % (4 * dimensions):
            return None
        rows = np.frombuffer(payload, "<f4", offset=_HEAD.size).reshape(-1, dimensions)
        return cls(rows.astype(np.float32, copy=False), _HEAD.unpack_from(payload)[0])


Found = Mapping[bytes, TextVectors]
"""Cached vectors by key."""

ENGINE_VERSION = 4
"""Increased if a release gives other vectors or flags for the same text, model and runtime."""


_OF_CARD = attrgetter(
    "model_sha256",
    "tokenizer_sha256",
    "pooling",
    "normalize",
    "max_tokens",
    "prefix",
    "precision",
    "execution_provider",
)


def vector_keys(card: ModelCard, runtime: str, texts: Sequence[str], long_text: str) -> list[bytes]:
    """Return the key of each text for a model, as a runtime runs it, under a policy: 32 bytes.

    SHA-256 over all these and the text, each in UTF-8 after its length. Takes about 2 microseconds
    for a text of 600 characters.
    """
    common = hashlib.sha256()
    for part in (*map(str, _OF_CARD(card)), runtime, str(ENGINE_VERSION), long_text):
        raw = part.encode()
        common.update(len(raw).to_bytes(8, "little") + raw)
    keys = []
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        sha256 = common.copy()
        sha256.update(len(raw).to_bytes(8, "little") + raw)
        keys.append(sha256.digest())
    return keys


ENTRY_BYTES = 420
"""Memory of a text beside its numbers: key, table and array, by measurement."""
_LARGEST_SHARE = 8
"""A text that needs more than the memory divided by this is not cached."""


class VectorCache:
    """The cached vectors of one model. Memory drops the least recently used. Thread-safe."""

    def __init__(
        self, dimensions: int, memory_bytes: int = 0, file: KeptRows | None = None
    ) -> None:
        """Cache nothing in memory if `memory_bytes` is 0, nothing on disk without a file."""
        self._dimensions = dimensions
        self._max_bytes = memory_bytes
        self._file = file
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, TextVectors] = OrderedDict()
        self._bytes = 0

    async def get(self, keys: Sequence[bytes]) -> Found:
        """Return the cached vectors of keys."""
        size = ITEM_BYTES * len(keys)
        found = await run_by_size(size, self._find, keys)
        if self._file is None or len(found) == len(keys):
            return found
        missing = [key for key in keys if key not in found]
        rows = await self._file.get(missing)
        stored = await run_by_size(size, self._read, rows)
        return found | stored

    def put(self, vectors: Found) -> None:
        """Cache vectors. For any thread; never waits for the disk."""
        self._keep(vectors)
        if self._file is not None:
            self._file.put([Row(key, each.to_payload()) for key, each in vectors.items()])

    def _read(self, rows: Mapping[bytes, Row]) -> dict[bytes, TextVectors]:
        """Return the vectors of rows of the right size, and cache them in memory."""
        vectors: dict[bytes, TextVectors] = {}
        for key, row in rows.items():
            if (each := TextVectors.from_payload(row.payload, self._dimensions)) is not None:
                vectors[key] = each
        self._keep(vectors)
        return vectors

    def _find(self, keys: Sequence[bytes]) -> dict[bytes, TextVectors]:
        with self._lock:
            found = {key: self._kept[key] for key in keys if key in self._kept}
            for key in found:
                self._kept.move_to_end(key)
        return found

    def _keep(self, vectors: Found) -> None:
        with self._lock:
            for key, each in vectors.items():
                size = _size(each)
                if key in self._kept or size > self._max_bytes // _LARGEST_SHARE:
                    continue
                self._kept[key] = each
                self._bytes += size
            while self._bytes > self._max_bytes:
                self._bytes -= _size(self._kept.popitem(last=False)[1])


def _size(vectors: TextVectors) -> int:
    return ENTRY_BYTES + vectors.rows.nbytes
