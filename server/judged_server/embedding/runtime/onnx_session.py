"""One ONNX Runtime session on the CPU or an NVIDIA GPU: padded token ids in, unit vectors out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime as ort

from judged_server.domain import Float32Array, IntArray
from judged_server.embedding.runtime.backend import (
    CUDA,
    ONNXRUNTIME,
    PROVIDERS,
    SessionFacts,
    UnusableGraphError,
    to_vectors,
)

OUTPUTS = ("last_hidden_state", "token_embeddings")
"""Names of the output with a vector a token, in the order they are looked for."""
REQUIRED_INPUTS = frozenset({"input_ids", "attention_mask"})
KNOWN_INPUTS = REQUIRED_INPUTS | {"token_type_ids"}

GPU_BATCH_TOKENS = 8_192
"""A guess: a batch of 256, as on a core, would leave a GPU idle between its kernels."""
GPU_WORKERS = 2
"""So that one batch is prepared while the other runs."""

_FLOATS = ("tensor(float)", "tensor(float16)")
_ERRORS_ONLY = 3


class UnusableDeviceError(Exception):
    """The device that was asked for is not there or does not work; the graph is not to blame."""

    def __init__(self, provider: str, problem: str) -> None:
        super().__init__(f"{provider} can't be used: {problem}; or set embedding_backend to auto")


class OnnxSession:
    """A loaded graph; implements backend.Session."""

    def __init__(
        self,
        graph: str | bytes,
        pooling: str,
        precision: str = "fp32",
        workers: int = 1,
        batch_threads: int = 1,
        provider: str = PROVIDERS[ONNXRUNTIME],
    ) -> None:
        """Load a path, or the bytes of a graph, of this precision.

        Raises UnusableGraphError or UnusableDeviceError.
        """
        on_gpu = provider == PROVIDERS[CUDA]
        if provider not in ort.get_available_providers():
            raise UnusableDeviceError(provider, "the installed ONNX Runtime does not have it")
        if on_gpu and hasattr(ort, "preload_dlls"):
            ort.preload_dlls()  # NVIDIA's libraries, where pip installed them
        chosen = (provider, {"use_tf32": "0"} if on_gpu else {})  # TF32 has fractions of 10 bits
        try:
            self._session = ort.InferenceSession(graph, _options(batch_threads), [chosen])
        except Exception as error:
            raise UnusableGraphError(f"ONNX Runtime can't load it ({first_line(error)})") from error
        really = self._session.get_providers()[0]
        if really != provider:
            # The runtime takes another where a device or a library is missing, with a line in its
            # log at most.
            raise UnusableDeviceError(
                provider, f"ONNX Runtime took {really}: no device, driver or library?"
            )
        self.facts = SessionFacts(
            precision,
            provider,
            f"onnxruntime {ort.__version__}",
            workers,
            GPU_BATCH_TOKENS if on_gpu else 0,
        )
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
    """Return which of a graph's outputs, given with their ranks, has a vector for each token."""
    named = [name for name in OUTPUTS if name in ranks]
    by_rank = [name for name, rank in ranks.items() if rank == 3]
    if not named and not by_rank:
        raise UnusableGraphError("it has no output with a vector for each token")
    return (named or by_rank)[0]


def first_line(error: Exception) -> str:
    """Return the start of what a runtime said."""
    lines = str(error).splitlines()
    return lines[0][:300] if lines else type(error).__name__


def to_fp16(path: str) -> bytes:
    """Return the graph in fp16. Raises UnusableGraphError, saying why.

    The lowest float, which stands for padding in a mask, becomes the lowest of fp16: under softmax
    both give zero. Token ids and masks stay whole numbers.
    """
    # Imported where fp16 was asked for.
    import onnx  # noqa: PLC0415
    from onnxruntime.transformers.float16 import convert_float_to_float16  # noqa: PLC0415

    try:
        raw: bytes = convert_float_to_float16(onnx.load(path)).SerializeToString()
    except Exception as error:  # whatever a converter throws: a graph of 2 GiB is one reason
        problem = f"it can't be converted to fp16 ({first_line(error)})"
        raise UnusableGraphError(f"{problem}; set embedding_precision to fp32") from error
    return raw


def _options(batch_threads: int) -> ort.SessionOptions:
    options = ort.SessionOptions()
    # Workers run batches side by side, each on its own thread: 5 to 20 % more texts a second than
    # one batch over all threads, and nothing spins while it waits.
    options.intra_op_num_threads = batch_threads
    options.inter_op_num_threads = 1
    # Threads that wait for each other's share must not burn the cores of other workers.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    # Every batch has another shape; a memory plan for each would only pile up.
    options.enable_mem_pattern = False
    options.log_severity_level = _ERRORS_ONLY
    return options
