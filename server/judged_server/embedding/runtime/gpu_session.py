"""One ONNX graph on an NVIDIA GPU, by CUDA or TensorRT: padded token ids in, unit vectors out.

None of it has been run on a GPU yet; the tests run the same code on ONNX Runtime's CPU provider.
Imported only when one of the two backends was chosen.
"""

from __future__ import annotations

import importlib
import logging
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray

from judged_server.domain import Float32Array, IntArray
from judged_server.embedding.runtime.backend import SessionFacts, UnusableGraphError, to_vectors
from judged_server.embedding.runtime.backend_selection import CUDA, FP16, PROVIDERS, TENSORRT
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
PROFILE_TOKENS = 65_536
"""In the largest batch of a TensorRT engine, padding included: it reserves memory for it."""
PROFILE_TYPICAL = (64, 128)
"""Rows and tokens of a row that TensorRT tunes an engine for."""

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
        max_tokens: int,
        workers: int = WORKERS,
        provider: str = PROVIDERS[CUDA],
        engines: Path | None = None,
    ) -> None:
        """Load a path, or the bytes of a graph, of this precision and window.

        TensorRT keeps what it builds in the folder `engines`. Raises UnusableGraphError or
        UnusableDeviceError.
        """
        if provider not in ort.get_available_providers():
            raise UnusableDeviceError(provider, "the installed ONNX Runtime does not have it")
        _find_libraries(provider)
        self._max_rows = 0
        if provider == PROVIDERS[TENSORRT]:
            self._max_rows = max(1, PROFILE_TOKENS // max_tokens)
        options = ort.SessionOptions()
        options.log_severity_level = _ERRORS_ONLY
        options.enable_mem_pattern = False  # every batch has another shape
        cuda = (PROVIDERS[CUDA], {"use_tf32": "0"})  # TF32 has fractions of 10 bits
        chosen: list[tuple[str, dict[str, str]]] = [(provider, {})]
        if provider == PROVIDERS[CUDA]:
            chosen = [cuda]
        elif self._max_rows:  # CUDA takes what TensorRT can't
            half = precision == FP16
            found = tensorrt_options(graph, self._max_rows, max_tokens, engines, half=half)
            chosen = [(provider, found), cuda]
        try:
            self._session = ort.InferenceSession(graph, options, providers=chosen)
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
        rows = self._max_rows or len(token_ids)
        parts = [
            self._part(token_ids[at : at + rows], mask[at : at + rows])
            for at in range(0, len(token_ids), rows)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _part(self, token_ids: IntArray, mask: IntArray) -> Float32Array:
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


def tensorrt_options(
    graph: str | bytes, max_rows: int, max_tokens: int, engines: Path | None, *, half: bool
) -> dict[str, str]:
    """Return TensorRT's options: the shapes that an engine is built for, and where it is kept."""
    rows, tokens = PROFILE_TYPICAL
    names = _input_names(graph)
    flag = "True" if half else "False"
    options = {
        "trt_profile_min_shapes": _shapes(names, 1, 1),
        "trt_profile_opt_shapes": _shapes(names, min(rows, max_rows), min(tokens, max_tokens)),
        "trt_profile_max_shapes": _shapes(names, max_rows, max_tokens),
        "trt_fp16_enable": flag,
        # The squares that a normalisation sums up may leave the range of fp16.
        "trt_layer_norm_fp32_fallback": flag,
    }
    if engines is not None:
        engines.mkdir(parents=True, exist_ok=True, mode=0o700)
        options |= {
            "trt_engine_cache_enable": "True",
            "trt_engine_cache_path": str(engines),
            "trt_timing_cache_enable": "True",
            "trt_timing_cache_path": str(engines),
        }
    return options


def _shapes(names: Sequence[str], rows: int, tokens: int) -> str:
    return ",".join(f"{name}:{rows}x{tokens}" for name in names)


def _input_names(graph: str | bytes) -> list[str]:
    """Return a graph's inputs: a profile must name them all."""
    try:
        model = (
            onnx.load_from_string(graph)
            if isinstance(graph, bytes)
            else onnx.load(graph, load_external_data=False)
        )
    except Exception as error:
        raise UnusableGraphError(f"it is not an ONNX graph ({first_line(error)})") from error
    return [node.name for node in model.graph.input]


def _find_libraries(provider: str) -> None:
    """Load the libraries of NVIDIA's packages, where they are installed by pip."""
    if provider == PROVIDERS[TENSORRT]:
        os.environ.setdefault("NVIDIA_TF32_OVERRIDE", "0")  # before any of them is loaded
        with suppress(ImportError):
            importlib.import_module("tensorrt_libs")
    if provider in {PROVIDERS[CUDA], PROVIDERS[TENSORRT]} and hasattr(ort, "preload_dlls"):
        ort.preload_dlls()


def _allocator(provider: str) -> Allocate:
    if provider not in {PROVIDERS[CUDA], PROVIDERS[TENSORRT]}:
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
