"""What the embedder asks of a model that is loaded, whatever runs it.

ONNX Runtime is in `onnx_session`, OpenVINO in `openvino_session`; another runtime is another module
with a class of this shape, decided on in `backend_selection` and opened in `loading.open_session`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from judged_server.domain import Float32Array, IntArray


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What really runs: all but `workers` and `batch_tokens` enters the keys of stored vectors.

    `precision` is fp32, bf16, fp16 or int8; `execution_provider` names the runtime's device;
    `runtime` its name and version; `workers` how many batches it should run at once, of at most
    `batch_tokens`, padding included; 0: as the queue likes.
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
