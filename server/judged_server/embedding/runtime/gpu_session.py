"""One ONNX graph on an NVIDIA GPU, by CUDA: padded token ids in, unit vectors out.

None of it has been run on a GPU yet; the tests run the same code on ONNX Runtime's CPU provider.
Imported only when that backend was chosen.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray

from judged_server.domain import Float32Array, IntArray
from judged_server.embedding.runtime.backend import SessionFacts, UnusableGraphError, to_vectors
from judged_server.embedding.runtime.backend_selection import CUDA, PROVIDERS
from judged_server.embedding.runtime.host_memory import Allocate, HostArrays, ordinary, page_locked
from judged_server.embedding.runtime.onnx_session import (
    UnusableDeviceError,
    check_inputs,
    choose_output,
    first_line,
)

BATCH_TOKENS = 8_192
"""A guess: a batch of 256, as on a core, would leave a GPU idle between its kernels."""
WORKERS = 2
"""So that one batch is prepared while the other runs."""

_ERRORS_ONLY = 3
_DTYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}

logger = logging.getLogger(__name__)


class GpuSession:
    """A loaded graph; implements backend.Session."""

    def __init__(
        self,
        graph: str | bytes,
        pooling: str,
        precision: str,
        workers: int = WORKERS,
        provider: str = PROVIDERS[CUDA],
    ) -> None:
        """Load a path, or the bytes of a graph, of this precision.

        Raises UnusableGraphError or UnusableDeviceError.
        """
        if provider not in ort.get_available_providers():
            raise UnusableDeviceError(provider, "the installed ONNX Runtime does not have it")
        on_gpu = provider == PROVIDERS[CUDA]
        if on_gpu and hasattr(ort, "preload_dlls"):
            ort.preload_dlls()  # NVIDIA's libraries, where pip installed them
        options = ort.SessionOptions()
        options.log_severity_level = _ERRORS_ONLY
        options.enable_mem_pattern = False  # every batch has another shape
        # TF32 has fractions of 10 bits.
        chosen = (provider, {"use_tf32": "0"} if on_gpu else {})
        try:
            self._session = ort.InferenceSession(graph, options, providers=[chosen])
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
            precision, really, f"onnxruntime {ort.__version__}", workers, BATCH_TOKENS
        )
        self._pooling = pooling
        inputs = self._session.get_inputs()
        self._inputs = frozenset(node.name for node in inputs)
        check_inputs(self._inputs, all_int64=all(node.type == "tensor(int64)" for node in inputs))
        outputs = {node.name: node for node in self._session.get_outputs()}
        self._output = choose_output({name: len(node.shape) for name, node in outputs.items()})
        if outputs[self._output].type not in _DTYPES:
            raise UnusableGraphError(f"its output is {outputs[self._output].type}")
        self._dtype = _DTYPES[outputs[self._output].type]
        size = outputs[self._output].shape[-1]
        self._size = size if isinstance(size, int) else self._measured_size()
        self._allocate = _allocator(provider)
        self._own = threading.local()

    def run(self, token_ids: IntArray, mask: IntArray) -> Float32Array:
        """Return one vector a row, of unit length or zero; a row that is not finite is NaN."""
        feeds = {"input_ids": token_ids, "attention_mask": mask}
        if "token_type_ids" in self._inputs:
            feeds["token_type_ids"] = np.zeros_like(token_ids)
        binding, arrays = self._mine()
        for name, values in feeds.items():
            array = arrays.array(name, values.shape, np.int64)
            array[...] = values
            binding.bind_input(name, "cpu", 0, np.int64, array.shape, array.ctypes.data)
        hidden = arrays.array(self._output, (*token_ids.shape, self._size), self._dtype)
        binding.bind_output(self._output, "cpu", 0, self._dtype, hidden.shape, hidden.ctypes.data)
        self._session.run_with_iobinding(binding)
        # `hidden` is this thread's own, and its next batch writes over it.
        return to_vectors(hidden, token_ids.shape, mask, self._pooling)

    def _mine(self) -> tuple[Any, HostArrays]:
        """Return this thread's binding and buffers: one of them serves one batch at a time."""
        if not hasattr(self._own, "parts"):
            self._own.parts = self._session.io_binding(), HostArrays(self._allocate)
        parts: tuple[Any, HostArrays] = self._own.parts
        return parts

    def _measured_size(self) -> int:
        """Return the size of a vector of a graph that does not tell it, by running one token."""
        one = np.ones((1, 1), np.int64)
        try:
            states: NDArray[Any] = self._session.run(
                [self._output], dict.fromkeys(self._inputs, one)
            )[0]
        except Exception as error:
            raise UnusableGraphError(f"a first run fails ({first_line(error)})") from error
        return int(states.shape[-1])


def _allocator(provider: str) -> Allocate:
    if provider != PROVIDERS[CUDA]:
        return ordinary
    allocate = page_locked()
    if allocate is None:
        logger.warning("no CUDA runtime gives page-locked memory: copies to the GPU are slower")
        return ordinary
    return allocate


def to_fp16(path: str) -> bytes:
    """Return the graph in fp16. Raises UnusableGraphError, saying why.

    The lowest float, which stands for padding in a mask, becomes the lowest of fp16: under softmax
    both give zero. Token ids and masks stay whole numbers.
    """
    # Imported where fp16 was asked for.
    from onnxruntime.transformers.float16 import convert_float_to_float16  # noqa: PLC0415

    try:
        raw: bytes = convert_float_to_float16(onnx.load(path)).SerializeToString()
    except Exception as error:  # whatever a converter throws: a graph of 2 GiB is one reason
        problem = f"it can't be converted to fp16 ({first_line(error)})"
        raise UnusableGraphError(f"{problem}; set embedding_precision to fp32") from error
    return raw
