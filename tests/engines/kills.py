"""Jobs of engines that are killed at any moment, and started again until they are complete.

Each row is one question to a language model, which counts what it was asked. `JUDGED_ENGINE_KILLS`
kills each; a job is killed as soon as the model was asked some number of questions more.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import judged
import pyarrow as pa
import pyarrow.parquet as pq

from tests.adapters.conftest import serving

KILLS = int(os.environ.get("JUDGED_ENGINE_KILLS", "2"))
ROWS = 400 * KILLS
CONFIG = """
[[providers]]
name = "counted"
base_url = "{url}"
max_concurrency = 16
[[models]]
name = "m"
provider = "counted"
model = "counted-1"
"""
ANSWER = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "counted-1",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": '{"reasoning": "so", "verdict": "yes"}'},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18},
}


class Model(ThreadingHTTPServer):
    """A language model that takes a while, and counts each question that it is asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked = Counter[str]()
        self.changed = threading.Condition()

    def wait(self, n: int, gone: Callable[[], bool]) -> None:
        """Return as soon as so many questions were asked, or who asks them is gone."""
        with self.changed:
            while self.asked.total() < n and not gone():
                self.changed.wait(0.1)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Model

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        question = json.dumps(body["messages"][-1]["content"])
        with self.server.changed:
            self.server.asked[question.partition("row ")[2].partition(".")[0]] += 1
            self.server.changed.notify_all()
        time.sleep(0.02)  # what a model takes; nothing waits for it but its answer
        answer = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def asked(folder: Path, rows: int = ROWS) -> Iterator[tuple[Model, str]]:
    """Write a table; yield a model, and the address of a server that asks it and keeps replies."""
    columns = {"id": list(range(rows)), "query": [f"row {i}." for i in range(rows)]}
    texts = {"gold": ["four weeks"] * rows, "retrieved": ["for four weeks"] * rows}
    pq.write_table(pa.table({**columns, **texts}), folder / "in.parquet")
    with Model() as model:
        threading.Thread(target=model.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{model.server_port}/v1"
        (folder / "llm.toml").write_text(CONFIG.format(url=url))
        environ = {
            "JUDGED_LLM_CONFIG": str(folder / "llm.toml"),
            "JUDGED_LLM_CACHE_DIR": str(folder / "replies"),
        }
        try:
            with serving(folder, environ) as address:
                yield model, address
        finally:
            model.shutdown()


def descendants(pid: int, name: str) -> list[int]:
    """Return the processes that one has started, and those have, whose command has a name."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found, new = set[int](), {pid}
    while new:
        found |= new
        new = {child for child, parent in parents.items() if parent in new} - found
    named = []
    for each in sorted(found - {pid}):
        with suppress(OSError):
            if name in Path(f"/proc/{each}/cmdline").read_text():
                named.append(each)
    return named


def whole_parts(folder: Path) -> list[str]:
    """Return the files of verdicts that were written to their end."""
    found = []
    for path in sorted(folder.glob("out/*.parquet")):
        with suppress(pa.ArrowInvalid):
            pq.read_metadata(path)
            found.append(str(path))
    return found


def survive(folder: Path, words: Callable[[str], Sequence[str]], *whom: str) -> dict[str, int]:
    """Kill a job at random until it was killed often enough; return what came of the rows.

    `words` start the job against an address, and `whom` are the names of processes to kill in turn,
    "" for the job itself.
    """

    def left() -> int:
        parts = whole_parts(folder)
        ids = pq.read_table(parts, columns=["id"])["id"] if parts else pa.array([])
        return ROWS - len(ids.unique())

    drawn = random.Random(38)
    environ = {**os.environ, "RAY_ADDRESS": "", "PYTHONPATH": str(Path(judged.__file__).parents[1])}
    with asked(folder) as (model, address):
        kills = runs = 0
        while left():
            runs += 1
            assert runs <= 2 * KILLS + 5, "the job does not get on"
            command = [sys.executable, *words(address)]
            with subprocess.Popen(command, cwd=folder, env=environ, start_new_session=True) as job:
                while kills < KILLS and job.poll() is None:
                    n = model.asked.total() + drawn.randint(1, ROWS // (KILLS + 1))
                    model.wait(min(n, ROWS - 1), lambda: job.poll() is not None)
                    name = whom[kills % len(whom)]
                    targets = descendants(job.pid, name) if name else [job.pid]
                    if job.poll() is not None:
                        break
                    if not targets:  # it has not started its workers, or some again
                        time.sleep(0.05)
                        continue
                    with suppress(ProcessLookupError):
                        os.kill(drawn.choice(targets), signal.SIGKILL)
                        kills += 1
                    if not name:
                        break
                job.wait()
                with suppress(ProcessLookupError):
                    os.killpg(job.pid, signal.SIGKILL)
        paid_again = sum(n - 1 for n in model.asked.values())
    table = pq.read_table(folder / "out")
    doubled = len(table) - len(table["id"].unique())
    lost = ROWS - table["status"].to_pylist().count("OK")
    return {"kills": kills, "lost": lost, "doubled": doubled, "paid_again": paid_again}


UNHARMED = {"kills": KILLS, "lost": 0, "doubled": 0, "paid_again": 0}
