"""What the embedder asks of a model that is loaded, whatever runs it.

ONNX Runtime is in `onnx_session`, OpenVINO in `openvino_session`; another runtime is another module
with a class of this shape, decided on in `backend_selection` and opened in `loading.open_session`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from judged_server.domain import BoolArray, Float32Array, IntArray


class UnusableGraphError(ValueError):
    """A graph can't be loaded, or is not that of a sentence embedding model."""


def pad(rows: Sequence[IntArray], pad_id: int) -> tuple[IntArray, IntArray]:
    """Return token ids, padded on the right to the longest row, and the mask of real tokens."""
    lengths = np.array([len(row) for row in rows], np.int64)
    mask = np.arange(lengths.max()) < lengths[:, None]
    token_ids = np.full(mask.shape, pad_id, np.int64)
    token_ids[mask] = np.concatenate(rows)
    return token_ids, mask.astype(np.int64)


def pool(hidden: Float32Array, mask: IntArray, pooling: str) -> Float32Array:
    """Return the pooled vectors of (rows, tokens, size) hidden states, padded on the right.

    `pooling` is one of manifest.POOLINGS: mean, cls (the first token), max or last. A row without
    tokens gives zeros under mean and max, and its first state under cls and last.
    """
    if pooling == "cls":
        return hidden[:, 0]
    if pooling == "last":
        last: Float32Array = hidden[np.arange(len(hidden)), np.maximum(mask.sum(axis=1) - 1, 0)]
        return last
    if pooling == "max":
        kept = mask.astype(np.bool_)[:, :, None]
        maxima: Float32Array = np.where(kept, hidden, -np.inf).max(axis=1)
        return np.where(kept.any(axis=1), maxima, 0).astype(np.float32)
    weights = mask.astype(np.float32)
    sums = np.matmul(weights[:, None, :], hidden)[:, 0]
    means: Float32Array = sums / np.maximum(weights.sum(axis=1, keepdims=True), 1)
    return means


def unit_rows(vectors: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Return rows scaled to length one in double precision; a zero row stays zero.

    Rows are divided by their largest part first, so that no square of a float32 over- or
    underflows. A row that is not finite comes out as NaN.
    """
    rows = vectors.astype(np.float64)
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0)
    with np.errstate(invalid="ignore"):
        rows /= np.where(largest == 0, 1, largest)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        rows /= np.where(lengths == 0, 1, lengths)
    return rows


def to_vectors(
    hidden: NDArray[Any], shape: tuple[int, ...], mask: IntArray, pooling: str
) -> Float32Array:
    """Return the unit vectors of (rows, tokens, size) hidden states for ids of `shape`."""
    if hidden.ndim != 3 or hidden.shape[:2] != shape:
        raise UnusableGraphError(f"its output has shape {hidden.shape}")
    vectors = pool(hidden.astype(np.float32, copy=False), mask, pooling)
    return unit_rows(vectors).astype(np.float32)


def finite_rows(vectors: Float32Array) -> BoolArray:
    """Return which rows hold neither NaN nor infinity."""
    return np.asarray(np.isfinite(vectors).all(axis=1))


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What really runs: all but `workers` and `batch_tokens` enters the keys of stored vectors.

    `precision` is fp32, bf16, fp16, int8 or int8_by_group; `execution_provider` names the
    runtime's device; `runtime` its name and version; `workers` how many batches it should run at
    once, of at most `batch_tokens`, padding included; 0: as the queue likes.
    """

    precision: str
    execution_provider: str
    runtime: str
    workers: int
    batch_tokens: int = 0


class Session(Protocol):
    """A loaded model. `run` is called from several threads at once."""

    @property
    def facts(self) -> SessionFacts:
        """What runs, and how many batches side by side."""
        ...

    def run(self, token_ids: IntArray, mask: IntArray) -> Float32Array:
        """Return one vector a row of the padded (rows, tokens) ids.

        Of unit length or zero; NaN where it is not finite. What it raises fails the batch.
        """
        ...
