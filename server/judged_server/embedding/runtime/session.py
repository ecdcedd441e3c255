"""Runs a model: padded token ids in, unit vectors out.

Padding and pooling for any runtime, and the session of ONNX Runtime on the CPU or an NVIDIA GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from judged_server.domain import BoolArray, Float32Array, IntArray
from judged_server.embedding.runtime.backend import CUDA, ONNXRUNTIME, PROVIDERS
from judged_server.settings import SettingsError


class UnusableGraphError(ValueError):
    """A graph can't be loaded, or is not a sentence embedding model."""


def pad(rows: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """Return token ids, padded on the right to the longest row, and the mask of real tokens.

    Padding has the id 0. It is masked, so that no other id would change a vector.
    """
    lengths = np.array([len(row) for row in rows], np.int64)
    mask = np.arange(lengths.max()) < lengths[:, None]
    token_ids = np.zeros(mask.shape, np.int64)
    token_ids[mask] = np.concatenate(rows)
    return token_ids, mask.astype(np.int64)


def pool(hidden: Float32Array, mask: IntArray, pooling: str) -> Float32Array:
    """Return the pooled vectors of (rows, tokens, size) hidden states, padded on the right.

    `pooling` is a store.Pooling: mean, cls (the first token), max or last. A row without tokens
    gives zeros under mean and max, and its first state under cls and last.
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

    Rows are divided by their largest component first, so that no square of a float32 over- or
    underflows. A row that is not finite becomes NaN.
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


class Session(Protocol):
    """A loaded model. `run` is called from several threads at once.

    `runtime` is the runtime's name and version, which are part of the keys of stored vectors.
    `workers` is the number of batches to run at once, `batch_tokens` their most tokens, padding
    included; 0 for the queue's default.
    """

    runtime: str
    workers: int
    batch_tokens: int

    def run(self, token_ids: IntArray, mask: IntArray) -> Float32Array:
        """Return one vector a row of the padded (rows, tokens) ids.

        Of unit length or zero; NaN if not finite. An exception fails the batch.
        """
        ...


OUTPUTS = ("last_hidden_state", "token_embeddings")
"""Names of the output with a vector per token, in the order they are looked for."""
REQUIRED_INPUTS = frozenset({"input_ids", "attention_mask"})
KNOWN_INPUTS = REQUIRED_INPUTS | {"token_type_ids"}

GPU_BATCH_TOKENS = 8_192
"""A guess: a batch of 256, as on a core, would leave a GPU idle between its kernels."""
GPU_WORKERS = 2
"""Two, so that one batch is prepared while the other runs."""

_FLOATS = ("tensor(float)", "tensor(float16)")
_ERRORS_ONLY = 3


class OnnxSession:
    """A loaded graph; implements Session."""

    def __init__(
        self,
        graph: str,
        pooling: str,
        workers: int = 1,
        provider: str = PROVIDERS[ONNXRUNTIME],
    ) -> None:
        """Load the graph at a path. Raises UnusableGraphError, and SettingsError for its device."""
        on_gpu = provider == PROVIDERS[CUDA]
        if on_gpu and hasattr(ort, "preload_dlls"):
            ort.preload_dlls()  # NVIDIA's libraries, where pip installed them
        chosen = (provider, {"use_tf32": "0"} if on_gpu else {})  # TF32 has fractions of 10 bits
        try:
            self._session = ort.InferenceSession(graph, _options(), [chosen])
        except Exception as error:
            raise UnusableGraphError(f"ONNX Runtime can't load it ({first_line(error)})") from error
        actual = self._session.get_providers()[0]
        if actual != provider:
            # Without its device or a library the runtime uses another provider, and logs a line at
            # most.
            raise SettingsError(
                f"embedding_backend {CUDA}: ONNX Runtime took {actual}: no device, driver or "
                "library? Or set embedding_backend to auto"
            )
        self.runtime = f"onnxruntime {ort.__version__}"
        self.workers = workers
        self.batch_tokens = GPU_BATCH_TOKENS if on_gpu else 0
        self._pooling = pooling
        inputs = self._session.get_inputs()
        self._inputs = frozenset(node.name for node in inputs)
        check_inputs(self._inputs, all_int64=all(node.type == "tensor(int64)" for node in inputs))
        outputs = {node.name: node for node in self._session.get_outputs()}
        self._output = choose_output({name: len(node.shape) for name, node in outputs.items()})
        if (kind := outputs[self._output].type) not in _FLOATS:
            raise UnusableGraphError(f"its output is {kind}")

    def run(self, token_ids: IntArray, mask: IntArray) -> Float32Array:
        """Return one vector a row, of unit length or zero; a row that is not finite is NaN."""
        feeds: dict[str, Any] = {"input_ids": token_ids, "attention_mask": mask}
        if "token_type_ids" in self._inputs:
            feeds["token_type_ids"] = np.zeros_like(token_ids)
        hidden = self._session.run([self._output], feeds)[0]
        return to_vectors(hidden, token_ids.shape, mask, self._pooling)


def check_inputs(names: frozenset[str], *, all_int64: bool) -> None:
    """Raise UnusableGraphError unless a graph takes what a sentence embedding model takes."""
    if not REQUIRED_INPUTS <= names <= KNOWN_INPUTS:
        raise UnusableGraphError(
            f"its inputs are {', '.join(sorted(names))}; "
            "expected input_ids, attention_mask and perhaps token_type_ids"
        )
    if not all_int64:
        raise UnusableGraphError("its inputs are not int64")


def choose_output(ranks: Mapping[str, int]) -> str:
    """Return the output with a vector for each token, from the ranks of a graph's outputs."""
    named = [name for name in OUTPUTS if name in ranks]
    by_rank = [name for name, rank in ranks.items() if rank == 3]
    if not named and not by_rank:
        raise UnusableGraphError("it has no output with a vector for each token")
    return (named or by_rank)[0]


def first_line(error: Exception) -> str:
    """Return the first line of a runtime's error, at most 300 characters."""
    lines = str(error).splitlines()
    return lines[0][:300] if lines else type(error).__name__


def _options() -> ort.SessionOptions:
    options = ort.SessionOptions()
    # Workers run batches side by side, each on its own thread: 5 to 20 % more texts a second than
    # one batch over all threads, and nothing spins while it waits.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # Waiting threads must not spin on the cores of other workers.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    # Every batch has another shape; memory plans for all of them would pile up.
    options.enable_mem_pattern = False
    options.log_severity_level = _ERRORS_ONLY
    return options
