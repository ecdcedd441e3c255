"""Compares the cost of calls in this checkout and in another one, interleaved in one run.

Each side is a server of one checkout, run by the interpreter of its `.venv`, and a client of the
same checkout; both do the same work with new texts. The sides alternate in going first. A figure is
the other side's seconds over ours: 1 is unchanged and more is better. Figures that end in _cpu are
CPU seconds of client and server, the others wall seconds.

    wire       500 BatchJudge of a group of ten contexts by `token_overlap`, one after the other
    lexical    90,000 contexts by `token_overlap` in one call
    semantic   160 contexts of new texts by `semantic` in one call
    metrics    5 metrics of 10,000 topics of 100 documents
    fanout     1,000 contexts by `llm` in one call, with a provider that takes 100 ms

    python -m benchmarks.versions OTHER [--rounds 7] [--work wire lexical ...]

OTHER is another checkout of this project, say `git worktree add ../before v0.1.0`, after
`make setup` in it. The first round warms up and is left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.fanout.processes import provider_url, running, to_toml
from benchmarks.fanout.worker import configuration
from benchmarks.harness import ROOT, Server, closing_line, ratios, serving
from benchmarks.metrics.trec_runs import build_runs
from tests.conformance.prose import build_groups

WORK = ("wire", "lexical", "semantic", "metrics", "fanout")
PROVIDER_S = 0.1
AT_ONCE = 64


class Side:
    """A server of a checkout, and its client in another process."""

    def __init__(self, process: subprocess.Popen[str], server: Server) -> None:
        self._process = process
        self._server = server
        self._read()

    def spent(self, order: dict[str, Any]) -> tuple[float, float]:
        """Return the wall seconds of some work, and the CPU seconds of client and server."""
        before = self._server.cpu_seconds()
        if self._process.stdin is not None:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        reply = json.loads(self._read())
        return reply["wall_s"], reply["cpu_s"] + self._server.cpu_seconds() - before

    def _read(self) -> str:
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line:
            raise SystemExit(f"a client ended; its server says: {self._server.log.read_text()}")
        return line


@contextmanager
def side(root: Path, flags: tuple[str, ...]) -> Iterator[Side]:
    """Start the server of a checkout and its client, and end both."""
    client = Path(__file__).with_name("side.py")
    with (
        serving("judged_server", *flags, root=root) as server,
        subprocess.Popen(
            [root / ".venv" / "bin" / "python", client, server.address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
        ) as process,
    ):
        try:
            yield Side(process, server)
        finally:
            process.kill()


def new_input(work: str, seed: int) -> list[Any]:
    """Return the input of some work as JSON; each seed gives different texts."""
    if work == "metrics":
        runs = build_runs(10_000, seed=seed)
        return [runs.qrels, runs.run]
    queries, retrieved, expected = {
        "wire": (500, 10, 1),
        "lexical": (3_000, 10, 3),
        "semantic": (40, 4, 1),
        "fanout": (100, 10, 1),
    }[work]
    groups = build_groups(seed, queries, retrieved, expected)
    # The seed at the end makes each text new, whichever passage it is.
    return [
        [g.query, [f"{t} {seed}" for t in g.expected], [f"{t} {seed}" for t in g.retrieved]]
        for g in groups
    ]


def measure(other: Path, rounds: int, works: Sequence[str]) -> dict[str, list[float]]:
    """Return the samples of each figure."""
    spent: dict[str, dict[Path, list[tuple[float, float]]]] = {
        work: {other: [], ROOT: []} for work in works
    }
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        process = stack.enter_context(running("benchmarks.fanout.provider", str(PROVIDER_S)))
        config = folder / "llm.toml"
        config.write_text(to_toml(configuration(provider_url(process), AT_ONCE)))
        flags = ("--llm-config", str(config), "--log-level", "warning")
        sides = {root: stack.enter_context(side(root, flags)) for root in (other, ROOT)}
        for number in range(rounds + 1):
            for seed, work in enumerate(works, number * len(works)):
                order = {"work": work, "input": new_input(work, seed)}
                for root in (other, ROOT) if number % 2 else (ROOT, other):
                    took = sides[root].spent(order)
                    if number:
                        spent[work][root].append(took)
    samples: dict[str, list[float]] = {}
    for work, sides_spent in spent.items():
        before, now = sides_spent[other], sides_spent[ROOT]
        for place, name in enumerate((work, f"{work}_cpu")):
            samples[name] = ratios([t[place] for t in before], [t[place] for t in now])
            print(
                f"{name}: {min(t[place] for t in now):.2f}-{max(t[place] for t in now):.2f} s, "
                f"before {min(t[place] for t in before):.2f}-{max(t[place] for t in before):.2f} s"
            )
    return samples


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.versions")
    parser.add_argument("other", type=Path, help="another checkout, set up")
    parser.add_argument("--rounds", type=int, default=7, help="one more warms up (default 7)")
    parser.add_argument("--work", nargs="+", choices=WORK, default=WORK, help="some of it alone")
    arguments = parser.parse_args()
    other: Path = arguments.other.resolve()
    if not (other / ".venv" / "bin" / "python").exists():
        parser.error(f"{other}/.venv is missing; run `make setup` there")
    commit = subprocess.run(
        ["git", "-C", other, "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    samples = measure(other, arguments.rounds, arguments.work)
    print(closing_line("versions", samples, None, {"other": commit or other.name}))


if __name__ == "__main__":
    main()
