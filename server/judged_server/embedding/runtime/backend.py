"""Chooses the backend that runs a server's models.

It is chosen once, before any model is loaded. If the backend that was asked for is not available
the server does not start; nothing is replaced silently. ONNX Runtime is in `session`, OpenVINO in
`openvino_session`; a new runtime needs a module with a class like `Session`, opened in
`loading.open_session`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from judged_server.embedding.base import ModelCard
from judged_server.embedding.models.store import Manifest
from judged_server.settings import SettingsError

ONNXRUNTIME, OPENVINO, CUDA = "onnxruntime", "openvino", "cuda"
AUTO, FP32, BF16 = "auto", "fp32", "bf16"

PROVIDERS = {
    ONNXRUNTIME: "CPUExecutionProvider",
    OPENVINO: "OpenVINO:CPU",
    CUDA: "CUDAExecutionProvider",
}
"""What GetServerInfo calls each backend."""

_CPU_FACTS = Path("/proc/cpuinfo")
_BF16_FLAGS = frozenset({"amx_bf16", "avx512_bf16"})
"""Flags of CPUs that compute in bf16. With AVX-512 alone MiniLM takes 1.8 times less CPU than in
fp32."""


@dataclass(frozen=True, slots=True)
class Backend:
    """A runtime and the precision at which it computes models that are stored as fp32.

    A model stored as fp16 or int8 is computed as it is stored.
    """

    name: str = ONNXRUNTIME
    precision: str = FP32

    def card(self, manifest: Manifest) -> ModelCard:
        """Return the card of a stored model as this backend runs it."""
        return ModelCard(
            name=manifest.name,
            dimensions=manifest.dimensions,
            max_tokens=manifest.max_tokens,
            model_sha256=manifest.model_sha256,
            tokenizer_sha256=manifest.tokenizer_sha256,
            pooling=manifest.pooling,
            normalize=manifest.normalize,
            precision=self.precision_of(manifest.precision),
            execution_provider=PROVIDERS[self.name],
            prefix=manifest.prefix,
        )

    def precision_of(self, stored: str) -> str:
        """Return the precision at which a model that is `stored` at one runs."""
        return self.precision if stored == FP32 else stored

    def __str__(self) -> str:
        return f"{self.name} {self.precision}"


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """How the models of a server are run: the backend, and the threads; 0 for one per core.

    Interactive calls wait `max_delay_s` at most.
    """

    backend: Backend = Backend()
    threads: int = 0
    max_delay_s: float = 0.4


def has(part: str) -> bool:
    """Return whether this machine has OPENVINO, CUDA, or a processor that computes in BF16."""
    if part == BF16:
        return has_bf16()
    if part == OPENVINO:
        return importlib.util.find_spec("openvino") is not None
    import onnxruntime  # noqa: PLC0415 - imported only if a GPU is asked for

    return PROVIDERS[CUDA] in onnxruntime.get_available_providers()


def choose(name: str, precision: str, has: Callable[[str], bool] = has) -> Backend:
    """Return the backend that two settings ask for, where auto means the fastest.

    That is OpenVINO in bf16 if it is installed and the CPU computes in bf16 (AMX or AVX-512), else
    ONNX Runtime in fp32. Raises SettingsError, with the next step, if the backend is not available.
    """
    in_bf16, setting = precision == BF16, f"embedding_precision {precision}"
    if name == AUTO:
        fast = precision == AUTO and has(OPENVINO) and has(BF16)
        name = OPENVINO if in_bf16 or fast else ONNXRUNTIME
    _refuse(
        in_bf16 and name != OPENVINO,
        f"{setting}: {name} does not compute in it; set embedding_backend to openvino, or "
        "embedding_precision to fp32",
    )
    _refuse(
        name == CUDA and not has(CUDA),
        "embedding_backend cuda: the ONNX Runtime that is installed has no CUDA; on a machine "
        "with an NVIDIA GPU run `pip uninstall onnxruntime`, then `pip install "
        "--force-reinstall --no-deps onnxruntime-gpu`; or set embedding_backend to auto",
    )
    _refuse(
        name == OPENVINO and not has(OPENVINO),
        f"{setting if in_bf16 else 'embedding_backend'} needs OpenVINO, which is not "
        "installed; run `pip install 'judged[openvino]'`, or set embedding_backend and "
        "embedding_precision to auto",
    )
    _refuse(
        in_bf16 and not has(BF16),
        f"{setting}: this CPU has neither amx_bf16 nor avx512_bf16 (flags in /proc/cpuinfo); "
        "set embedding_precision to fp32 or auto",
    )
    if name == OPENVINO and precision == AUTO and has(BF16):
        precision = BF16
    return Backend(name, FP32 if precision == AUTO else precision)


def _refuse(is_refused: bool, why: str) -> None:
    if is_refused:
        raise SettingsError(why)


def has_bf16(cpu_facts: Path = _CPU_FACTS) -> bool:
    """Return whether the processor computes in bfloat16."""
    try:
        with cpu_facts.open() as lines:
            flags = next((line for line in lines if line.startswith("flags")), "")
    except OSError:  # not Linux
        return False
    return not _BF16_FLAGS.isdisjoint(flags.split())
