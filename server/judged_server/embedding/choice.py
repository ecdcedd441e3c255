"""Which backend runs the models of a server, decided once, before any model is loaded.

Owns the rule behind the settings embedding_backend and embedding_precision, what it asks of the
machine, and the card of a model under a decision. What was asked for and can't be had stops the
start: nothing is replaced in silence. Leaves the running to the sessions.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from judged_server.embedding.manifest import Manifest
from judged_server.ports import ModelCard
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


@dataclass(frozen=True, slots=True)
class Backend:
    """A runtime and the precision at which it computes models that are stored as fp32.

    A model stored as fp16 or int8 is computed as it is stored.
    """

    name: str = ONNXRUNTIME
    precision: str = FP32

    def card(self, manifest: Manifest) -> ModelCard:
        """Return the card of a stored model as this backend runs it."""
        return replace(
            manifest.card(PROVIDERS[self.name]), precision=self.precision_of(manifest.precision)
        )

    def precision_of(self, stored: str) -> str:
        """Return the precision at which a model runs that is stored at another."""
        return self.precision if stored == FP32 else stored

    def __str__(self) -> str:
        return f"{self.name} {self.precision}"


@dataclass(frozen=True, slots=True)
class Running:
    """How the models of a server are run: the backend, and how its work is cut.

    `threads` compute at a time, 0: one a core; `batch_threads` of them share a batch;
    `batch_tokens`, padding included, are at most in one, 0: what suits the backend.
    """

    backend: Backend = Backend()
    threads: int = 0
    batch_threads: int = 1
    batch_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Machine:
    """What a choice depends on; each part is looked up when it is asked for."""

    has_amx_bf16: Callable[[], bool]
    has_openvino: Callable[[], bool]
    has_cuda: Callable[[], bool]

    @classmethod
    def here(cls) -> Machine:
        """Return this machine."""
        return cls(_has_amx_bf16, _has_openvino, _has_cuda)


def choose(name: str, precision: str, machine: Machine) -> Backend:
    """Return the backend that two settings ask for, or the fastest when they leave it open.

    Left open, it is OpenVINO in bf16 where that is installed and the CPU has AMX for bf16, else
    ONNX Runtime in fp32. Raises SettingsError, saying what to do, when it can't be had.
    """
    if name == AUTO:
        fast = machine.has_openvino() and machine.has_amx_bf16()
        wants_openvino = precision == BF16 or (precision == AUTO and fast)
        name = OPENVINO if wants_openvino else ONNXRUNTIME
    if name == OPENVINO:
        return _openvino(precision, machine)
    if precision == BF16:
        raise SettingsError(
            f"embedding_precision bf16: {name} does not compute in bf16; set embedding_backend to "
            "openvino, or embedding_precision to fp32"
        )
    if name == CUDA and not machine.has_cuda():
        raise SettingsError(
            "embedding_backend cuda: the ONNX Runtime that is installed has no CUDA; on a machine "
            "with an NVIDIA GPU run `pip uninstall onnxruntime`, then `pip install "
            "--force-reinstall --no-deps onnxruntime-gpu`; or set embedding_backend to auto"
        )
    return Backend(name, FP32)


def _openvino(precision: str, machine: Machine) -> Backend:
    if not machine.has_openvino():
        setting = f"embedding_precision {BF16}" if precision == BF16 else "embedding_backend"
        raise SettingsError(
            f"{setting} needs OpenVINO, which is not installed; run `pip install "
            "'judged[openvino]'`, or set embedding_backend and embedding_precision to auto"
        )
    amx = machine.has_amx_bf16()
    if precision == BF16 and not amx:
        raise SettingsError(
            "embedding_precision bf16: this CPU has no AMX for bf16 (amx_bf16 in /proc/cpuinfo); "
            "set embedding_precision to fp32 or auto"
        )
    return Backend(OPENVINO, BF16 if amx and precision != FP32 else FP32)


def _has_amx_bf16(cpu_facts: Path = _CPU_FACTS) -> bool:
    try:
        with cpu_facts.open() as lines:
            flags = next((line for line in lines if line.startswith("flags")), "")
    except OSError:  # not Linux
        return False
    return "amx_bf16" in flags.split()


def _has_openvino() -> bool:
    return importlib.util.find_spec("openvino") is not None


def _has_cuda() -> bool:
    import onnxruntime  # noqa: PLC0415 - no import for those who did not ask for CUDA

    return PROVIDERS[CUDA] in onnxruntime.get_available_providers()
