"""How many files of the server a warm call enters: docs/architecture.md has the numbers."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from judged import AnswerItem, Client, QueryGroup, TrecRankings

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.integration.llm_config import llm_config
from tests.integration.server_process import until, wait_for_port_file

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Profiled:
    """A server that notes which of its files are entered."""

    process: subprocess.Popen[bytes]
    client: Client
    out: Path

    def entered_by(self, call: Callable[[int], object]) -> list[str]:
        """Return the files that a call enters each time, once it was made twice before.

        What a server does now and then, such as to look at its files, is no part of a call.
        """
        call(0)
        call(1)
        entered = [self.noted(partial(call, number)) for number in range(2, 5)]
        return sorted(set.intersection(*entered))

    def noted(self, call: Callable[[], object]) -> set[str]:
        self.process.send_signal(signal.SIGUSR2)
        call()
        self.process.send_signal(signal.SIGUSR2)
        until(self.out.exists)
        lines = self.out.read_text("utf-8").splitlines()
        self.out.unlink()
        return set(lines)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Profiled]:
    folder = tmp_path_factory.mktemp("profiled")
    port, log, out = (folder / name for name in ("port", "log", "out"))
    with provider_on_a_thread() as provider:
        config = llm_config(folder, provider)
        flags = ["--listen", "127.0.0.1:0", "--port-file", port, "--llm-config", config]
        flags += ["--llm-cache-dir", folder / "replies", "--vector-cache-dir", folder / "vectors"]
        command = [sys.executable, "-m", "tests.fakes.profiled_server", out, *flags]
        with log.open("wb") as stderr:
            process = subprocess.Popen(list(map(str, command)), stderr=stderr, cwd=ROOT)
        try:
            with Client(wait_for_port_file(process, port, log)) as client:
                yield Profiled(process, client, out)
        finally:
            process.terminate()
            process.wait(40)


def most(call: str) -> int:
    found = re.search(rf"^\| {re.escape(call)} \| (\d+) \|$", PAGE, re.MULTILINE)
    assert found, f"docs/architecture.md has no number for {call}"
    return int(found[1])


def groups(number: int) -> list[QueryGroup]:
    return [QueryGroup("q", [f"red green blue {number}"], ["red green", "x y z"])]


@pytest.mark.parametrize("judge", ["token_overlap", "semantic"])
def test_batch_judge(server: Profiled, judge: str):
    entered = server.entered_by(lambda n: server.client.judge(groups(n), judge))
    assert 10 < len(entered) <= most(f"BatchJudge, `{judge}`"), entered


def test_score_answers(server: Profiled):
    def call(number: int) -> object:
        item = AnswerItem(f"i{number}", "q", f"a {number}", ["a"])
        return server.client.score_answers([item], ["answer_match"])

    entered = server.entered_by(call)
    assert 20 < len(entered) <= most("ScoreAnswers, `answer_match`"), entered


def test_compute_metrics(server: Profiled):
    def call(number: int) -> object:
        rankings = TrecRankings({"1": {"a": 1, "b": 0}}, {"1": {"a": 1.0, "b": 2.0 + number}})
        return server.client.compute_metrics(["ndcg@10", "ap"], rankings)

    entered = server.entered_by(call)
    assert 10 < len(entered) <= most("ComputeMetrics, qrels and a run"), entered
