"""Measures memory and time of `judged judge` and `judged evaluate` on files of a million lines.

Each command reads files of 30,000, 300,000 and 1,000,000 lines, each in a process and against a
server of its own, with the judge exact. `judged judge` reads one context per line and writes a line
for each; `judged evaluate` reads one result per line, `--results` per query, and writes its table
and, as `evaluate_json`, the JSON document too.

judge_peak_over_250_mb  peak resident memory with most lines, over the 250 MB that are allowed
judge_time_a_line       seconds per line with most lines, over those with 30,000
judge_cpu_a_line        the same in CPU seconds of the command, which other work disturbs less

The other commands have the same figures.

    python -m benchmarks.command_memory [--lines 1000000] [--results 25] [--command evaluate]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import closing_line, serving
from tests.conformance import prose

SEED = 41
LINES, MORE_LINES, FEW_LINES = 1_000_000, 300_000, 30_000
WORDS = 40
ALLOWED_MB = 250
START_LINES = 100
"""Lines of the run that measures start-up, which is subtracted from the others."""
COMMANDS = ("judge", "evaluate", "evaluate_json")


@dataclass(frozen=True, slots=True)
class Taken:
    """Cost of a process: seconds, CPU seconds, and peak resident memory in MB."""

    seconds: float
    cpu_seconds: float
    peak_mb: float


def texts() -> Iterator[tuple[str, str]]:
    """Yield expected texts with the words of retrieved ones; a number makes those distinct."""
    rng, words = random.Random(SEED), list(prose.words())
    while True:
        start = rng.randrange(len(words) - 3 * WORDS)
        yield " ".join(words[start : start + WORDS]), " ".join(words[start : start + 2 * WORDS])


def write_contexts(folder: Path, count: int) -> list[str]:
    """Write distinct contexts, one per line. Return the arguments that name the file."""
    with (folder / "lines.jsonl").open("w", encoding="utf-8") as file:
        for number, (expected, retrieved) in zip(range(count), texts(), strict=False):
            fields = {
                "id": f"line-{number}",
                "query": f"query {number // 10}",
                "expected_text": expected,
                "retrieved_text": f"{number} {retrieved}",
            }
            file.write(json.dumps(fields) + "\n")
    return [str(folder / "lines.jsonl"), "--output", str(folder / "output")]


def write_queries(folder: Path, count: int, n_results: int) -> list[str]:
    """Write a data set and distinct results. Return the arguments that name the files."""
    dataset, results = folder / "dataset.json", folder / "results.jsonl"
    with dataset.open("w", encoding="utf-8") as queries, results.open("w") as lines:
        queries.write('{"queries": [')
        for number, (expected, retrieved) in zip(range(count), texts(), strict=False):
            query_id = f"query-{number}"
            query = {"query_id": query_id, "query_text": query_id, "expected_answers": [expected]}
            queries.write((",\n" if number else "\n") + json.dumps(query))
            found = [
                {
                    "doc_id": f"doc-{number}-{rank}",
                    "score": 1 / (1 + rank),
                    "text": f"{rank} {retrieved}",
                }
                for rank in range(n_results)
            ]
            lines.write(json.dumps({"query_id": query_id, "results": found}) + "\n")
        queries.write("\n]}\n")
    return [str(dataset), "--results", str(results), "-m", "ndcg@10", "-m", "recall@5"]


def run(arguments: list[str], target: str) -> Taken:
    """Return the cost of a command. Raises SystemExit if it failed."""
    command = [sys.executable, "-m", "judged.cli", *arguments, "--judge", "exact"]
    began = time.perf_counter()
    with tempfile.TemporaryFile() as table:
        process = subprocess.Popen([*command, "--target", target], stdout=table)
        _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the command ended with {process.returncode}")
    return Taken(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6)


def measure(command: str, count: int, n_results: int, folder: Path, target: str) -> Taken:
    """Return the cost of a command on `count` lines. Raises SystemExit if output is missing."""
    output = folder / "output"
    if command == "judge":
        arguments = write_contexts(folder, count)
    else:
        count //= n_results
        arguments = write_queries(folder, count, n_results)
        if command == "evaluate_json":
            arguments += ["--json", str(output)]
    taken = run([command.partition("_")[0], *arguments], target)
    if command != "evaluate":
        mark = b'"query": ' if command == "judge" else b'      "query_id": '
        with output.open("rb") as written:
            if sum(line.count(mark) for line in written) != count:
                raise SystemExit("lines are missing in the output")
        output.unlink()
    return taken


def peak_of(pid: int) -> float:
    """Return the peak resident memory of a process in MB: proc(5), VmHWM."""
    fields = dict(line.split(":") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmHWM"].split()[0]) * 1024 / 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.command_memory")
    parser.add_argument("--lines", type=int, default=LINES)
    parser.add_argument("--results", type=int, default=25)
    parser.add_argument("--command", choices=COMMANDS, action="append")
    asked = parser.parse_args()
    samples: dict[str, list[float]] = {}
    for command in asked.command or COMMANDS:
        taken: dict[int, Taken] = {}
        counts = [START_LINES, FEW_LINES, *([MORE_LINES] * (asked.lines > MORE_LINES)), asked.lines]
        for count in counts:
            # A new server: verdicts of earlier runs would count in its memory.
            with tempfile.TemporaryDirectory() as name, serving("judged_server") as server:
                one = measure(command, count, asked.results, Path(name), server.address)
                peak = peak_of(server.pid)
            taken[count] = one
            print(
                f"{command}, {count} lines: {one.seconds:.1f} s, {one.cpu_seconds:.1f} s of CPU, "
                f"{one.peak_mb:.0f} MB; the server {peak:.0f} MB",
                flush=True,
            )
        start, few, many = taken[START_LINES], taken[FEW_LINES], taken[asked.lines]
        samples[f"{command}_peak_over_250_mb"] = [many.peak_mb / ALLOWED_MB]
        per_few, per_many = (FEW_LINES, asked.lines)
        samples[f"{command}_time_a_line"] = [
            (many.seconds - start.seconds) / per_many / ((few.seconds - start.seconds) / per_few)
        ]
        samples[f"{command}_cpu_a_line"] = [
            (many.cpu_seconds - start.cpu_seconds)
            / per_many
            / ((few.cpu_seconds - start.cpu_seconds) / per_few)
        ]
    facts = {"lines": asked.lines, "results": asked.results}
    print(closing_line("command_memory", samples, {}, facts))


if __name__ == "__main__":
    main()
