"""Compares how judged and two peers score 100 answers when the provider is faulty.

Each side scores the same 100 answers by one rubric, with one call each to the same provider, which
answers in 200 ms and has one fault (`unwell_provider`). All use their default settings, except that
a call may take an hour. Reported for each fault and side: answers lost, requests per answer, and
wall seconds, without the start of our server. `known` is ours with the provider's limit configured.

    python -m benchmarks.faulty_provider [FAULT ...] [--rounds N] [--ours]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from judged import AnswerItem, Client, Rubric

from benchmarks.faulty_provider.unwell_provider import FAULTS
from benchmarks.harness import ROOT, closing_line, serving
from benchmarks.peers.environments import NotRun, Worker, environment

ANSWERS = 100
TIMEOUT_S = 3600.0
PEER_TIMEOUT_S = 300
PEERS = {
    "ragas": ("ragas==0.4.3", "langchain-community==0.3.31", "langchain-openai==1.1.9"),
    "phoenix": ("arize-phoenix-evals==3.9.4", "openai==3.54.0"),
}
_CONFIGURATION = """
[[providers]]
name = "unwell"
base_url = "http://127.0.0.1:{port}/v1"
{more}
[[models]]
name = "judge"
provider = "unwell"
model = "scripted-1"
"""


@contextmanager
def unwell(fault: str) -> Iterator[int]:
    """Run the provider, and yield its port."""
    command = [sys.executable, "-m", "benchmarks.faulty_provider.unwell_provider", fault]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        line = process.stdout.readline() if process.stdout else ""
        try:
            yield int(line)
        finally:
            process.kill()


def requests_of(port: int) -> int:
    """Return how many requests the provider has had."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/requests") as reply:
        return int(json.load(reply)["requests"])


def ours(port: int, more: str = "") -> tuple[int, float]:
    """Return the number of answers that judged lost, and the wall seconds."""
    answers = [
        AnswerItem(
            f"a{n}", query=f"question {n}", answer=f"answer {n}", references=[f"expected {n}"]
        )
        for n in range(ANSWERS)
    ]
    with tempfile.TemporaryDirectory() as folder:
        configuration = Path(folder, "llm.toml")
        configuration.write_text(_CONFIGURATION.format(port=port, more=more))
        with (
            serving("judged_server", "--llm-config", str(configuration)) as server,
            Client(server.address) as client,
        ):
            began = time.perf_counter()
            scores = client.score_answers(answers, [Rubric("answer_match")], timeout=TIMEOUT_S)
            wall_s = time.perf_counter() - began
    lost = sum(score.score is None for score in scores)
    return lost, wall_s


def main() -> None:
    """Measure; print a line for each row, and the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("faults", nargs="*", metavar="FAULT", default=list(FAULTS))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--ours", action="store_true", help="leave the peers out")
    options = parser.parse_args()
    samples: dict[str, list[float]] = defaultdict(list)
    not_run: dict[str, str] = {}

    def note(fault: str, side: str, lost: float, requests: int, wall_s: float) -> None:
        each = requests / ANSWERS
        samples[f"{fault}_{side}_lost"].append(lost)
        samples[f"{fault}_{side}_requests_an_answer"].append(each)
        samples[f"{fault}_{side}_wall_s"].append(wall_s)
        print(f"{fault:8} {side:8} lost {lost:3} requests {requests:4} wall {wall_s:6.1f} s")

    for _ in range(options.rounds):
        for fault in options.faults:
            with unwell(fault) as port:
                lost, wall_s = ours(port)
                note(fault, "judged", lost, requests_of(port), wall_s)
            if fault == "429":
                with unwell(fault) as port:
                    lost, wall_s = ours(port, "requests_per_minute = 600")
                    note(fault, "known", lost, requests_of(port), wall_s)
            for name, packages in ({} if options.ours else PEERS).items():
                if f"{fault}_{name}" in not_run:
                    continue
                try:
                    python = environment(name, packages)
                    with unwell(fault) as port:
                        worker = Worker(
                            python, "benchmarks.faulty_provider.worker", name, str(port)
                        )
                        try:
                            reply = worker.ask(str(ANSWERS), PEER_TIMEOUT_S)
                        finally:
                            worker.close()
                        note(fault, name, reply["lost"], requests_of(port), reply["wall_s"])
                except NotRun as reason:
                    not_run[f"{fault}_{name}"] = str(reason)
                    print(f"{fault:8} {name:8} not run: {reason}")
    print(closing_line("faulty_provider", samples, not_run))


if __name__ == "__main__":
    main()
