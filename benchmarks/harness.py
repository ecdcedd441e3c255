"""Shared by all benchmarks: machine facts, CPU seconds of a process, the closing line."""

from __future__ import annotations

import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ORACLES = ROOT / ".venv" / "oracles"
DEFAULTS = {
    "JUDGED_VECTOR_CACHE": "memory",
    "JUDGED_LLM_CACHE": "memory",
    "JUDGED_EMBEDDING_BACKEND": "onnxruntime",
}
"""Makes results independent of earlier runs and of what is installed. Flags and the caller's
environment override it."""
_TICKS = os.sysconf("SC_CLK_TCK")
_STAT = Path("/proc/stat")


@dataclass(frozen=True, slots=True)
class Server:
    """A server process that is ready; `log` is the file of its standard error."""

    address: str
    pid: int
    log: Path

    def cpu_seconds(self) -> float:
        """Return the user and system CPU seconds of the process so far, to 10 ms."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


@contextmanager
def serving(module: str, *flags: str, root: Path = ROOT) -> Iterator[Server]:
    """Run `python -m module --listen ... --port-file ...` and yield it once it is ready.

    With another checkout as `root`, the interpreter of its `.venv` is used.
    """
    with tempfile.TemporaryDirectory() as folder:
        port_file = Path(folder, "port")
        written = Path(folder, "log")
        python = sys.executable if root == ROOT else str(root / ".venv" / "bin" / "python")
        command = [python, "-m", module, "--listen", "127.0.0.1:0"]
        with written.open("wb") as log:
            process = subprocess.Popen(
                [*command, "--port-file", str(port_file), *flags],
                stderr=log,
                cwd=root,
                env=_environment(root),
            )
        try:
            ends = time.monotonic() + 60
            while not port_file.exists():
                if process.poll() is not None or time.monotonic() > ends:
                    raise SystemExit(f"{module}: {written.read_text()}")
                time.sleep(0.02)
            yield Server(port_file.read_text().strip(), process.pid, written)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _environment(root: Path) -> dict[str, str]:
    """Return the environment of a server.

    Bytecode is written, as for an installed package: compiling all of it takes over a second.
    """
    kept = {n: v for n, v in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"}
    return {**DEFAULTS, "PYTHONPYCACHEPREFIX": str(root / ".venv" / "bytecode"), **kept}


def machine() -> dict[str, object]:
    """Return the facts about the machine that affect results."""
    model = "unknown"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0].partition(":")[2].strip() if names else model
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "grpcio": version("grpcio"),
        "protobuf": version("protobuf"),
        "numpy": version("numpy"),
    }


def stolen_seconds(stat: Path = _STAT) -> float | None:
    """Return the steal time since boot: seconds that the hypervisor gave to other machines.

    None if it is not reported: proc(5), the eighth figure of the first line.
    """
    try:
        with stat.open() as lines:
            return int(next(lines).split()[8]) / _TICKS
    except (OSError, StopIteration, IndexError, ValueError):
        return None


_BEGAN = time.monotonic(), stolen_seconds()


def stolen_share() -> float | None:
    """Return the share of all cores' time stolen since this process began; None as above."""
    now, (began, before) = stolen_seconds(), _BEGAN
    if now is None or before is None:
        return None
    return (now - before) / ((time.monotonic() - began) * (os.cpu_count() or 1))


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Return the ratio of each round, since noise of a round affects both sides."""
    return [a / b for a, b in zip(above, below, strict=True)]


def closing_line(
    benchmark: str,
    samples: Mapping[str, Sequence[float]],
    not_run: Mapping[str, str] | None = None,
    facts: Mapping[str, object] | None = None,
) -> str:
    """Return the JSON line: the median of each figure, and its smallest and largest sample.

    `not_run` gives the reason for each figure that could not be measured; `facts` are additional
    conditions. Both are left out if empty. On a shared machine the line has the share of its time
    that was stolen meanwhile.
    """
    figures = {name: round(statistics.median(values), 4) for name, values in samples.items()}
    spread = {
        name: [round(min(values), 4), round(max(values), 4)] for name, values in samples.items()
    }
    share = stolen_share()
    line: dict[str, object] = {
        "benchmark": benchmark,
        "machine": machine() | ({} if share is None else {"stolen_share": round(share, 4)}),
        "figures": figures,
        "spread": spread,
    }
    if not_run:
        line["not_run"] = dict(not_run)
    if facts:
        line["facts"] = dict(facts)
    return json.dumps(line)
