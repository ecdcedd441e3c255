"""A server that is killed under its callers and started again: they wait, and lose nothing."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from judged import AnswerItem, AsyncClient, Client, QueryGroup, Status, Unavailable
from judged.evaluation import Evaluator

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Asked, Said, ScriptedProvider
from tests.integration.cli_process import run_in
from tests.integration.forked_process import ForkedProcess
from tests.integration.llm_config import llm_config
from tests.integration.server_process import start, until, wait_for_port_file

ANSWER_S = 0.02


class Slow:
    """A provider that takes its time, and can be stopped from answering at all."""

    def __init__(self) -> None:
        self.answered = 0
        self.shut_after: int | None = None

    async def script(self, asked: Asked) -> Said:
        while self.shut_after is not None and self.answered >= self.shut_after:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.sleep(ANSWER_S)
        self.answered += 1
        if "score" in asked.system.lower():
            return {"reasoning": "so it is", "verdict": "yes", "score": 5}
        return {"reasoning": "so it is", "verdict": "yes"}


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
def provider(slow: Slow) -> Iterator[ScriptedProvider]:
    with provider_on_a_thread(slow.script) as running:
        yield running


class Restarting:
    """A server on one port that can be killed and started again."""

    def __init__(self, folder: Path, config: str) -> None:
        self._folder = folder
        self._config = config
        self.address = "127.0.0.1:0"
        self._process: ForkedProcess | None = None

    def start(self) -> None:
        port_file, log = self._folder / "port", self._folder / "log"
        port_file.unlink(missing_ok=True)
        flags = ["--listen", self.address, "--port-file", str(port_file)]
        flags += ["--llm-config", self._config, "--llm-cache", "off"]
        with log.open("wb") as stderr:
            self._process = start(flags, stderr=stderr)
        self.address = wait_for_port_file(self._process, port_file, log)

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()


@pytest.fixture
def server(tmp_path: Path, provider: ScriptedProvider) -> Iterator[Restarting]:
    config = llm_config(tmp_path, provider, provider_lines="max_concurrency = 4")
    running = Restarting(tmp_path, config)
    running.start()
    yield running
    running.kill()


@contextmanager
def killed_once(server: Restarting, slow: Slow, after: int, down_s: float = 2.0) -> Iterator[None]:
    """Kill the server once that many answers were given; start it again a while later."""
    failures: list[BaseException] = []

    def kill() -> None:
        try:
            until(lambda: slow.answered >= after)
            server.kill()
            threading.Event().wait(down_s)  # longer than tries without patience
            server.start()
        except BaseException as error:  # noqa: BLE001 - raised where the test waits
            failures.append(error)

    thread = threading.Thread(target=kill)
    thread.start()
    yield
    thread.join(200)
    assert not failures


def lines(folder: Path, n: int) -> Path:
    path = folder / "lines.jsonl"
    fields = [
        {"query": f"q{i}", "expected_text": "e", "retrieved_text": f"yes {i}"} for i in range(n)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in fields))
    return path


def answers(folder: Path, n: int) -> Path:
    path = folder / "answers.jsonl"
    fields = [{"query": "q", "answer": f"yes {i}", "references": ["yes"]} for i in range(n)]
    path.write_text("".join(json.dumps(line) + "\n" for line in fields))
    return path


def results(folder: Path, n: int) -> tuple[str, ...]:
    queries = [
        {"query_id": str(i), "query_text": f"q{i}", "expected_answers": ["e"]} for i in range(n)
    ]
    found = [
        {"query_id": str(i), "results": [{"doc_id": "d", "text": f"yes {i}"}]} for i in range(n)
    ]
    dataset, path = folder / "dataset.json", folder / "results.jsonl"
    dataset.write_text(json.dumps({"queries": queries}))
    path.write_text("".join(json.dumps(line) + "\n" for line in found))
    return str(dataset), "--results", str(path)


@contextmanager
def lost(server: Restarting, slow: Slow, after: int) -> Iterator[None]:
    """Kill the server for good once that many answers were given, or the block has ended."""
    over = threading.Event()

    def kill() -> None:
        until(lambda: slow.answered >= after or over.is_set(), 120)
        server.kill()

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(60)


def run(server: Restarting, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_in(Path.cwd(), *arguments, "--target", server.address)


GROUPS = [QueryGroup(f"q{i}", ["e"], [f"yes {i}"], str(i)) for i in range(80)]
ITEMS = [AnswerItem(str(i), "q", f"yes {i}", ["yes"]) for i in range(80)]


class TestCommands:
    def test_judge_waits_for_its_server_and_says_so(
        self, server: Restarting, slow: Slow, tmp_path: Path
    ):
        path = lines(tmp_path, 150)
        with killed_once(server, slow, after=50, down_s=3.0):
            done = run(server, "judge", str(path), "--judge", "llm")
        assert done.returncode == 0, done.stderr
        found = [json.loads(line) for line in done.stdout.splitlines()]
        assert [line["status"] for line in found] == ["OK"] * 150
        assert "judged: can't reach" in done.stderr
        assert "waiting" in done.stderr
        assert "answers again" in done.stderr

    def test_score_writes_what_was_done(self, server: Restarting, slow: Slow, tmp_path: Path):
        path, written = answers(tmp_path, 150), tmp_path / "scores.jsonl"
        command = ("score", str(path), "--rubric", "answer_match", "--timeout", "6")
        command += ("--min-score", "answer_match=0.1", "--min-coverage", "0.1")
        with lost(server, slow, after=100):
            done = run(server, *command, "--output", str(written))
        assert done.returncode == 2, done.stderr
        statuses = [json.loads(line)["status"] for line in written.read_text().splitlines()]
        assert len(statuses) == 150
        assert set(statuses) == {"OK", "ERROR"}

    def test_evaluate_sends_its_files_again(self, server: Restarting, slow: Slow, tmp_path: Path):
        files, document = results(tmp_path, 150), tmp_path / "out.json"
        command = ("evaluate", *files, "--judge", "llm", "--metric", "mrr", "--json", str(document))
        with killed_once(server, slow, after=50, down_s=3.0):
            done = run(server, *command)
        assert done.returncode == 0, done.stderr
        assert "answers again" in done.stderr
        written = json.loads(document.read_text())
        assert written["metrics"]["mrr"]["n"] == len(written["per_query"]) == 150
        assert written["counts"]["verdicts"]["ok"] == 150
        assert {q["retrieved"][0]["relevant"] for q in written["queries"]} == {True}

    def test_evaluate_passes_no_gate_without_its_server_and_writes_its_verdicts(
        self, server: Restarting, slow: Slow, tmp_path: Path
    ):
        files, document = results(tmp_path, 150), tmp_path / "out.json"
        command = ("evaluate", *files, "--judge", "llm", "--metric", "mrr", "--timeout", "6")
        with lost(server, slow, after=100):
            gates = ("--min-score", "mrr=0.1", "--min-coverage", "0.1")
            done = run(server, *command, "--json", str(document), *gates)
        assert done.returncode == 2, done.stderr
        assert "can't reach" in done.stderr or "Deadline Exceeded" in done.stderr
        written = json.loads(document.read_text())
        assert "mrr" not in written  # the server computes the metrics, so there are none
        rows = written["verdicts"]
        assert sorted({row["query_id"] for row in rows}) == sorted(str(i) for i in range(150))
        assert {row["status"] for row in rows} == {"OK", "ERROR"}
        assert [json.loads(line) for line in done.stdout.splitlines()] == rows


class TestClients:
    @pytest.mark.parametrize("call", ["judge", "evaluate", "evaluator", "stream", "score"])
    def test_the_synchronous_one_waits(self, server: Restarting, slow: Slow, call: str):
        with Client(server.address) as client, killed_once(server, slow, after=10):
            if call == "judge":
                assert client.judge(GROUPS, "llm", timeout=200).relevant == [True] * 80
            elif call == "evaluate":
                assert client.evaluate(GROUPS, ["mrr"], "llm", timeout=200).table["mrr"].mean == 1.0
            elif call == "stream":
                chunks = [GROUPS[i : i + 4] for i in range(0, 80, 4)]
                answers = list(client.judge_stream(chunks, "llm", timeout=200))
                assert sorted(answer.chunk_id for answer in answers) == list(range(20))
                assert all(answer.verdicts.relevant == [True] * 4 for answer in answers)
            elif call == "evaluator":
                found = Evaluator(client).evaluate_groups(GROUPS, ["mrr"], "llm", timeout=200)
                assert found.table["mrr"].mean == 1.0
            else:
                scored = client.score_answers(ITEMS, ["answer_match"], timeout=200)
                assert {score.status for score in scored} == {Status.OK}

    async def test_the_asynchronous_one_waits(self, server: Restarting, slow: Slow):
        async with AsyncClient(server.address) as client:
            with killed_once(server, slow, after=10):
                assert (await client.judge(GROUPS, "llm", timeout=200)).relevant == [True] * 80

    def test_metrics_wait_too(self, server: Restarting):
        with Client(server.address) as client:
            groups = [QueryGroup("q", ["e"], ["e"], "1")]
            client.evaluate(groups, ["mrr"], "exact")
            server.kill()
            again = threading.Timer(2.0, server.start)
            again.start()
            assert client.evaluate(groups, ["mrr"], "exact", timeout=200).table["mrr"].mean == 1.0
            again.join(60)


class TestNobody:
    """A port where nobody ever listened is reported soon, however much time there is."""

    async def test_to_the_asynchronous_client(self, nowhere: str):
        async with AsyncClient(nowhere) as client:
            with pytest.raises(Unavailable):
                await client.judge(GROUPS, "exact", timeout=3600)

    def test_to_the_command(self, tmp_path: Path, nowhere: str):
        server: Any = SimpleNamespace(address=nowhere)
        done = run(server, "judge", str(lines(tmp_path, 1)), "--judge", "exact")
        assert done.returncode == 2
        assert "can't reach" in done.stderr
