"""Installs peers in separate environments under .venv/peers and runs them as worker processes.

Raises NotRun with the reason if a peer can't be installed or started.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT

FOLDER = ROOT / ".venv" / "peers"
SENTENCE_TRANSFORMERS = ("torch==2.13.0", "sentence-transformers==6.2.0")
FASTEMBED = ("fastembed==0.9.1",)
INFINITY = ("torch==2.13.0", "infinity-emb[torch]==0.0.78")


class NotRun(Exception):
    """A peer or a backend can't run here; the message says why."""


def environment(name: str, requirements: Sequence[str]) -> Path:
    """Return the Python of .venv/peers/NAME; install exactly these pinned packages if needed.

    Raises NotRun when pip can't install them.
    """
    folder = FOLDER / name
    python, ready = folder / "bin" / "python", folder / ".ready"
    if ready.exists() and ready.read_text() == " ".join(requirements):
        return python
    print(f"{name}: installing {', '.join(requirements)}", flush=True)
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [str(python), "-m", "pip", "--quiet", "install", *requirements],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotRun(f"{name} can't be installed: {_last_line(done.stderr)}")
    ready.write_text(" ".join(requirements))
    return python


class Worker:
    """A process that answers lines; `facts` is its first line, about itself."""

    def __init__(self, python: Path | str, module: str, *arguments: str) -> None:
        """Start `python -m module` in the root of the project. Raises NotRun when it ends."""
        self._name = module
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the worker
        self._process = subprocess.Popen(
            [str(python), "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=ROOT,
            # All models are on disk; no peer may lose time looking for them on a network.
            env={**os.environ, "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"},
        )
        self.facts = self._read()

    def ask(self, line: str = "go", timeout_s: float | None = None) -> dict[str, Any]:
        """Return the answer to a line.

        Raises NotRun when the process has ended, or takes longer than `timeout_s` seconds.
        """
        watch = threading.Timer(timeout_s, self._process.kill) if timeout_s else None
        if watch is not None:
            watch.start()
        try:
            return self._ask(line)
        finally:
            if watch is not None:
                watch.cancel()

    def _ask(self, line: str) -> dict[str, Any]:
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):  # reading then reports why
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()
        return self._read()

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            if stream is not None and not stream.closed:
                with suppress(BrokenPipeError):  # unflushed input of a process that has ended
                    stream.close()

    def _read(self) -> dict[str, Any]:
        # Libraries print too; only a line that is a JSON object is an answer.
        while line := self._process.stdout.readline() if self._process.stdout else "":
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        self._process.wait()
        self._log.seek(0)
        said = _last_line(self._log.read())
        self.close()
        raise NotRun(f"{self._name} ended: {said}")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "rror" in line]
    return (errors or lines or ["it said nothing"])[-1][:300]
