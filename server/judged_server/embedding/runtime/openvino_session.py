"""Runs a model on OpenVINO: padded token ids in, one unit vector per row out.

Imported only if this backend is chosen.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import openvino

from judged_server.domain import Float32Array, IntArray
from judged_server.embedding.runtime.backend import BF16
from judged_server.embedding.runtime.session import (
    UnusableGraphError,
    check_inputs,
    choose_output,
    first_line,
    to_vectors,
)

PAD_TO = 16
"""Rows are padded to a multiple of this. In bf16 other lengths use another kernel, and a text's
cosines then vary with its batch by up to 1e-3; with this by 3e-7. It is also faster."""

BATCH_TOKENS = 512
_SHAPES = 1_024
"""Kernels cached, one per shape; there are about 400 shapes of a batch of 512 tokens."""


class OpenVinoSession:
    """A compiled graph; implements session.Session."""

    def __init__(self, path: str, pooling: str, precision: str, workers: int = 1) -> None:
        """Load a graph and compute it at this precision. Raises UnusableGraphError, saying why."""
        hint = openvino.Type.bf16 if precision == BF16 else openvino.Type.f32
        # OpenVINO computes on its own threads, one stream per worker. It may start fewer than asked
        # for: never more than there are cores.
        options: dict[str, Any] = {
            "INFERENCE_PRECISION_HINT": hint,
            "NUM_STREAMS": workers,
            "INFERENCE_NUM_THREADS": workers,
            # Other processes, and other threads of this one, use the same cores.
            "ENABLE_CPU_PINNING": False,
            "CPU_RUNTIME_CACHE_CAPACITY": _SHAPES,
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
        }
        try:
            graph = openvino.Core().read_model(path)
            names, types = _inputs(graph)
            check_inputs(names, all_int64=types == {openvino.Type.i64})
            output = choose_output(_ranks(graph))
            self._model = openvino.Core().compile_model(graph, "CPU", options)
        except UnusableGraphError:
            raise
        except Exception as error:
            raise UnusableGraphError(f"OpenVINO can't load it ({first_line(error)})") from error
        actual = self._model.get_property("INFERENCE_PRECISION_HINT")
        if actual != hint:
            raise UnusableGraphError(
                f"OpenVINO would compute it in {actual.get_type_name()}, not in {precision}; set "
                "embedding_precision to fp32"
            )
        self.runtime = f"openvino {openvino.get_version().partition('-')[0]}"
        self.workers = workers
        self.batch_tokens = BATCH_TOKENS
        self._has_types = "token_type_ids" in names
        self._output = self._model.output(output)
        self._pooling = pooling
        self._own = threading.local()

    def run(self, token_ids: IntArray, mask: IntArray) -> Float32Array:
        """Return one vector a row, of unit length or zero; a row that is not finite is NaN."""
        more = -token_ids.shape[1] % PAD_TO
        if more:
            token_ids, mask = (np.pad(ids, ((0, 0), (0, more))) for ids in (token_ids, mask))
        feeds: dict[str, Any] = {"input_ids": token_ids, "attention_mask": mask}
        if self._has_types:
            feeds["token_type_ids"] = np.zeros_like(token_ids)
        request = self._request()
        request.infer(feeds, share_inputs=True)
        # The tensor belongs to the request; the next run of this thread overwrites it.
        hidden = request.get_tensor(self._output).data
        return to_vectors(hidden, token_ids.shape, mask, self._pooling)

    def _request(self) -> openvino.InferRequest:
        """Return this thread's request, which runs one batch at a time."""
        if not hasattr(self._own, "request"):
            self._own.request = self._model.create_infer_request()
        return self._own.request


def _inputs(graph: openvino.Model) -> tuple[frozenset[str], set[openvino.Type]]:
    names = frozenset(name for node in graph.inputs for name in node.get_names())
    return names, {node.get_element_type() for node in graph.inputs}


def _ranks(graph: openvino.Model) -> dict[str, int]:
    return {
        node.get_any_name(): len(node.get_partial_shape())
        for node in graph.outputs
        if node.get_partial_shape().rank.is_static
    }
