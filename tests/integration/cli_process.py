"""Runs `judged` and `judged-server` as processes, in a folder with a good file of every kind.

Each process is forked from one that has imported the command and done nothing else: starting Python
and importing takes ten times as long as most commands do.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LINES = [
    {
        "id": 1,
        "query": "what is rag",
        "expected_text": "rag combines retrieval with generation for better accuracy",
        "retrieved_text": "rag is a technique that combines retrieval with generation",
    },
    {
        "id": 2,
        "query": "",
        "expected_text": "rag combines retrieval with generation for better accuracy",
        "retrieved_text": "vector databases store embeddings",
    },
]
DATASET: dict[str, Any] = {
    "queries": [
        {
            "query_id": "q1",
            "query_text": "what is rag",
            "expected_answers": ["rag combines retrieval with generation"],
        },
        {"query_id": "q2", "query_text": "who", "expected_doc_ids": ["d2", "d9"]},
    ],
    "documents": [{"doc_id": "d1", "text": "vector databases store embeddings"}],
}
RESULTS = [
    {
        "query_id": "q1",
        "results": [
            {"doc_id": "d1", "score": 2.0},
            {"doc_id": "d2", "score": 1.0, "text": "rag combines retrieval with generation"},
        ],
    },
    {"query_id": "q2", "results": [{"doc_id": "d2"}, {"doc_id": "d1"}]},
]
QRELS = "301 0 d1 1\n301 0 d2 0\n301 0 d3 2\n302 0 d1 1\n"
RUN = "301 Q0 d1 1 0.5 t\n301 Q0 d2 2 0.9 t\n301 Q0 d5 3 0.1 t\n"


def fill(folder: Path) -> Path:
    """Write the files above into a folder."""
    (folder / "contexts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    (folder / "dataset.json").write_text(json.dumps(DATASET))
    (folder / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in RESULTS))
    (folder / "qrels.txt").write_text(QRELS)
    (folder / "run.txt").write_text(RUN)
    return folder


def run_in(
    folder: Path, *arguments: str, stdin: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `judged` in a folder, with no JUDGED_* variable but those given."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("JUDGED_")}
    return _run_module("judged.cli", folder, arguments, clean | environment, stdin)


def run_server_command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `judged-server` where it ends by itself: a command, or flags that it refuses."""
    return _run_module("judged_server", Path.cwd(), arguments, {**os.environ, **environment})


TIMEOUT_S = 110
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["judged.cli.app", "judged_server.app", __name__])


def _run_module(
    module: str,
    folder: Path,
    arguments: tuple[str, ...],
    environment: dict[str, str],
    stdin: str = "",
) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as scratch:
        streams = [Path(scratch) / name for name in ("stdin", "stdout", "stderr")]
        streams[0].write_text(stdin)
        process = _PROCESSES.Process(
            target=_become, args=(module, folder, arguments, environment, streams)
        )
        process.start()
        process.join(TIMEOUT_S)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired([module, *arguments], TIMEOUT_S)
        stdout, stderr = (path.read_text() for path in streams[1:])
    return subprocess.CompletedProcess([module, *arguments], process.exitcode, stdout, stderr)


def _become(
    module: str,
    folder: Path,
    arguments: tuple[str, ...],
    environment: dict[str, str],
    streams: list[Path],
) -> None:
    """Become `python -m MODULE`, with files in place of the standard streams."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, path in enumerate(streams):
        opened = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.FileIO(number, mode, closefd=False), "utf-8", write_through=number == 2)
        for number, mode in enumerate("rww")
    )
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def lines_of(text: str) -> list[dict[str, Any]]:
    """Return the objects of JSON lines."""
    return [json.loads(line) for line in text.splitlines()]
