"""Runs `judged` and `judged-server` as processes, in a folder with a good file of every kind."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.forked_process import ForkedProcess

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
RUN = "301 Q0 d1 2 0.5 t\n301 Q0 d2 1 0.9 t\n301 Q0 d5 3 0.1 t\n"


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
    return run_module("judged.cli", folder, arguments, clean | environment, stdin)


@dataclass
class Commands:
    """`judged` in a folder, against the server at an address."""

    folder: Path
    address: str

    def __call__(
        self, *arguments: str, stdin: str = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, whatever that is."""
        environment = {"JUDGED_TARGET": self.address, **environment}
        return run_in(self.folder, *arguments, stdin=stdin, **environment)

    def fine(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command that ends with 0."""
        done = self(*arguments, **more)
        assert done.returncode == 0, done.stderr
        return done

    def refused(self, *arguments: str, **more: str) -> str:
        """Run a command that ends with 2; return what it says."""
        done = self(*arguments, **more)
        assert done.returncode == 2, done.stdout
        return done.stderr

    def fails(self, *arguments: str) -> str:
        """Run a command that ends with 2 and prints nothing; return the last thing that it says."""
        done = self(*arguments)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert done.stderr.startswith("judged: ")
        return done.stderr.splitlines()[-1].removeprefix("judged: ")

    def read(self, name: str) -> Any:
        """Return what a JSON file of the folder holds."""
        return json.loads((self.folder / name).read_text())

    def document(self, *arguments: str) -> dict[str, Any]:
        """Return what a command that ends with 0 writes with --json."""
        self.fine(*arguments, "--json", "out.json")
        document: dict[str, Any] = self.read("out.json")
        return document

    def write(self, name: str, lines: Iterable[object]) -> None:
        """Write JSON lines to a file of the folder."""
        (self.folder / name).write_text("".join(json.dumps(each) + "\n" for each in lines))


def run_server_command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `judged-server` where it ends by itself: a command, or flags that it refuses.

    Unless it is told where to listen, it is on a free port: two tests at once would take each
    other's default one.
    """
    whole = {"JUDGED_LISTEN": "127.0.0.1:0", **os.environ, **environment}
    return run_module("judged_server", Path.cwd(), arguments, whole)


TIMEOUT_S = 110


def run_module(
    module: str,
    folder: Path,
    arguments: tuple[str, ...],
    environment: dict[str, str],
    stdin: str = "",
) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as scratch:
        given, out, err = (Path(scratch) / name for name in ("stdin", "stdout", "stderr"))
        given.write_text(stdin)
        with given.open("rb") as first, out.open("wb") as second, err.open("wb") as third:
            process = ForkedProcess(
                module, arguments, stdin=first, stdout=second, stderr=third, cwd=folder,
                env=environment,
            )  # fmt: skip
        try:
            status = process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return subprocess.CompletedProcess(
            [module, *arguments], status, out.read_text(), err.read_text()
        )


def lines_of(text: str) -> list[dict[str, Any]]:
    """Return the objects of JSON lines."""
    return [json.loads(line) for line in text.splitlines()]
