"""One ONNX Runtime session on the CPU: padded token ids in, one unit vector a row out.

Owns the runtime and its options, which were chosen by measurement
(docs/decisions/0004-embedding-model.md). Leaves threads to `engine`: a session computes on the
thread that calls it, and several threads may call it at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort

from judged_server.domain import Float32Array, IntArray
from judged_server.embedding.pooling import pool, unit_rows

PROVIDER = "CPUExecutionProvider"
OUTPUTS = ("last_hidden_state", "token_embeddings")
"""Names of the output with a vector a token, in the order they are looked for."""

REQUIRED_INPUTS = frozenset({"input_ids", "attention_mask"})
KNOWN_INPUTS = REQUIRED_INPUTS | {"token_type_ids"}

_ERRORS_ONLY = 3


class UnusableGraphError(ValueError):
    """A graph can't be loaded, or is not that of a sentence embedding model."""


class EncoderSession:
    """A loaded graph. `run` may be called from several threads at once."""

    def __init__(self, path: str, pooling: str) -> None:
        """Load a graph. Raises UnusableGraphError with the reason."""
        try:
            self._session = ort.InferenceSession(path, _options(), providers=[PROVIDER])
        except Exception as error:
            raise UnusableGraphError(
                f"ONNX Runtime can't load it ({_first_line(error)})"
            ) from error
        self._pooling = pooling
        self._inputs = frozenset(node.name for node in self._session.get_inputs())
        if not REQUIRED_INPUTS <= self._inputs <= KNOWN_INPUTS:
            raise UnusableGraphError(
                f"its inputs are {', '.join(sorted(self._inputs))}; "
                "expected input_ids, attention_mask and perhaps token_type_ids"
            )
        if any(node.type != "tensor(int64)" for node in self._session.get_inputs()):
            raise UnusableGraphError("its inputs are not int64")
        self._output = self._choose_output()

    def run(self, token_ids: IntArray, mask: IntArray) -> Float32Array:
        """Return one vector a row, of unit length or zero; a row that is not finite is NaN."""
        feeds: dict[str, Any] = {"input_ids": token_ids, "attention_mask": mask}
        if "token_type_ids" in self._inputs:
            feeds["token_type_ids"] = np.zeros_like(token_ids)
        hidden = self._session.run([self._output], feeds)[0]
        if hidden.ndim != 3 or hidden.shape[:2] != token_ids.shape:
            raise UnusableGraphError(f"its output has shape {hidden.shape}")
        vectors = pool(hidden.astype(np.float32, copy=False), mask, self._pooling)
        return unit_rows(vectors).astype(np.float32)

    def _choose_output(self) -> str:
        nodes = {node.name: node for node in self._session.get_outputs()}
        named = [name for name in OUTPUTS if name in nodes]
        by_rank = [name for name, node in nodes.items() if len(node.shape) == 3]
        if not named and not by_rank:
            raise UnusableGraphError("it has no output with a vector for each token")
        return (named or by_rank)[0]


def _options() -> ort.SessionOptions:
    options = ort.SessionOptions()
    # Workers run batches side by side, each on its own thread: 5 to 20 % more texts a second than
    # one batch over all threads, and nothing spins while it waits.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    # Every batch has another shape; a memory plan for each would only pile up.
    options.enable_mem_pattern = False
    options.log_severity_level = _ERRORS_ONLY
    return options


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0][:300] if lines else type(error).__name__
