"""A server with a scripted model, and `judged` run against it in this process or in its own."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from judged.cli.app import run

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Asked, Said, Script, ScriptedProvider
from tests.integration.cli_process import Commands, fill
from tests.integration.llm_config import llm_config, priced
from tests.integration.server_process import ServerProcess, running_server

_BLOCK = re.compile(r'<data-\w+ name="(\w+)">\n(.*)\n</data-')
KEY = "sk-canary-0123456789"
NAME = "llm/retrieval_match"
EVALUATE = ("evaluate", "dataset.json", "--results", "results.jsonl", "-m", "mrr", "-m", "ndcg@10")
JUDGE = ("judge", "contexts.jsonl")
SCORE = ("score", "answers.jsonl", "--rubric", "answer_relevance", "--rubric", "faithfulness")
FIVE = {
    "relevance": 0.9,
    "completeness": 0.8,
    "accuracy": 0.9,
    "source_attribution": 0.85,
    "coherence": 0.8,
    "confidence": 0.1,
}
ANSWERS = [
    {"item_id": "a", "query": "q", "answer": "one. two", "contexts": ["one"]},
    {"item_id": "b", "query": "q", "answer": "a bad one", "contexts": ["two"]},
]


def script(asked: Asked) -> Said:
    """Say yes to what begins with "rag", and support every claim but "two"."""
    texts = {name: json.loads(text) for name, text in _BLOCK.findall(asked.user)}
    form = asked.body["response_format"]["json_schema"]["schema"]["properties"]
    if "claims" in form:
        return {"claims": str(texts["answer"]).split(". ")}
    if "evidence" in form:
        verdict = "NOT_ENOUGH_INFO" if texts["claim"] == "two" else "SUPPORTED"
        return {"evidence": "so it says", "verdict": verdict}
    if "relevance" in form:
        return {"reasoning": "weighed it", **FIVE, "overall": 0.5}
    if "verdict" in form:
        split = "split" in str(texts) and asked.body["seed"] == 1
        yes = str(texts["retrieved_text"]).startswith("rag") and not split
        return {"reasoning": "read it", "verdict": "yes" if yes else "no"}
    return {"reasoning": "weighed it", "score": 0.2 if "bad" in str(texts) else 0.9}


class World(Commands):
    """A server with a model, and the provider behind it."""

    def __init__(self, provider: ScriptedProvider, server: ServerProcess, folder: Path) -> None:
        super().__init__(folder, server.address)
        self.provider = provider
        self.server = server

    def __call__(self, *arguments: str, **_: str) -> CompletedProcess[str]:
        """Run `judged` in this process: a hundred of them would take minutes to start."""
        out, err = StringIO(), StringIO()
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
        with (
            chdir(self.folder),
            redirect_stdout(out),
            redirect_stderr(err),
            pytest.MonkeyPatch.context() as patch,
        ):
            patch.setenv("JUDGED_TARGET", self.address)
            patch.setattr(sys, "argv", ["judged", *arguments])
            status = run(arguments)
        for number, handler in before.items():
            signal.signal(number, handler)
        return CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


def configured(provider: ScriptedProvider, folder: Path) -> list[str]:
    models = {"small": priced(1.0, 2.0), "other": ""}
    config = llm_config(folder, provider, models, provider_lines='key_env = "SCRIPTED_KEY"')
    return ["--llm-config", config, "--llm-cache", "memory"]


@contextmanager
def running_world(folder: Path, script: Script = script) -> Iterator[World]:
    """Yield a server that keeps replies in memory, with its provider."""
    with provider_on_a_thread(script) as provider:
        flags = configured(provider, folder)
        with running_server(*flags, env={"SCRIPTED_KEY": KEY}) as server:
            yield World(provider, server, folder)


def filled(world: World, folder: Path) -> World:
    """Return the same server with a folder of its own, and a good file of every kind in it."""
    fill(folder)
    (folder / "answers.jsonl").write_text("".join(json.dumps(a) + "\n" for a in ANSWERS))
    return World(world.provider, world.server, folder)


def rewrite(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    lines = change(path.read_text().splitlines())
    path.write_text("".join(f"{line}\n" for line in lines))


def numbers(document: dict[str, Any]) -> dict[str, Any]:
    return {name: document[name] for name in ("metrics", "per_query", "counts", "signature")}
