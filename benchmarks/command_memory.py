"""How much memory and time `judged judge` takes for a file of a million lines.

The command judges files of 30,000 and of 1,000,000 lines by the judge exact, each in a process of
its own, against one server, with its output in a file.

peak_over_250_mb         the most resident memory of the command at 1,000,000 lines, over the 250 MB
                         that are allowed
time_a_line              seconds a line at 1,000,000 lines over that at 30,000

    python -m benchmarks.command_memory [--lines 1000000]
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
from pathlib import Path

from benchmarks.harness import closing_line, serving
from tests.conformance import prose

SEED = 41
LINES, FEW_LINES = 1_000_000, 30_000
WORDS = 40
ALLOWED_MB = 250
START_LINES = 100
"""Lines of a run that shows what the command takes to start, which the others are told without."""


def write_lines(path: Path, count: int) -> None:
    """Write lines of contexts, no two alike, two alternatives in every tenth."""
    rng = random.Random(SEED)
    words = list(prose.words())
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            start = rng.randrange(len(words) - 3 * WORDS)
            retrieved = " ".join(words[start : start + 2 * WORDS])
            fields = {
                "id": f"line-{number}",
                "query": f"query {number // 10}",
                "expected_text": " ".join(words[start : start + WORDS]),
                "retrieved_text": f"{number} {retrieved}",
            }
            file.write(json.dumps(fields) + "\n")


def judge(path: Path, target: str) -> tuple[float, float]:
    """Return the seconds and the peak of memory in MB of the command for a file."""
    output = path.with_suffix(".out")
    command = [sys.executable, "-m", "judged.cli", "judge", path, "--judge", "exact"]
    began = time.perf_counter()
    process = subprocess.Popen([*map(str, command), "--output", output, "--target", target])
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the command ended with {process.returncode}")
    with output.open("rb") as judged, path.open("rb") as given:
        if sum(1 for _ in judged) != sum(1 for _ in given):
            raise SystemExit("lines are missing in the output")
    output.unlink()
    return seconds, used.ru_maxrss * 1024 / 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.command_memory")
    parser.add_argument("--lines", type=int, default=LINES)
    lines = parser.parse_args().lines
    with tempfile.TemporaryDirectory() as name, serving("judged_server") as server:
        folder, seconds, peaks = Path(name), {}, {}
        for count in (START_LINES, FEW_LINES, lines):
            write_lines(folder / "lines.jsonl", count)
            seconds[count], peaks[count] = judge(folder / "lines.jsonl", server.address)
            print(f"{count} lines: {seconds[count]:.1f} s, {peaks[count]:.0f} MB")
    few, many = ((seconds[n] - seconds[START_LINES]) / n for n in (FEW_LINES, lines))
    samples = {"peak_over_250_mb": [peaks[lines] / ALLOWED_MB], "time_a_line": [many / few]}
    print(closing_line("command_memory", samples, {}, {"lines": lines}))


if __name__ == "__main__":
    main()
