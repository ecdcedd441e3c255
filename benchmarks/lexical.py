"""Compares the CPU cost of `token_overlap` through the server with Evret's in process.

30,000 contexts (1,000 queries, 10 retrieved by 3 expected texts of about 100 words) go through our
client and a real server. The figure is the CPU seconds of client and server over those of
Evret for the same contexts, in its own process and without a network. Rounds interleave.

    python -m benchmarks.lexical
"""

from __future__ import annotations

import subprocess
import sys
import time

from judged import Client, Judge, QueryGroup

from benchmarks.harness import ORACLES, ROOT, Server, closing_line, ratios, serving
from tests.conformance.prose import build_groups

SEED = 20
ROUNDS = 7
PAIRS = {"classic": "0.0.1", "weighted": "0.0.3"}


class Evret:
    """One version of Evret in its own process."""

    def __init__(self, version: str) -> None:
        folder = ORACLES / f"evret-{version}"
        if not folder.is_dir():
            raise SystemExit(f"evret {version} is not installed; run `make setup`")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.peers.evret_lexical", str(folder), str(SEED)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self._read()

    def _read(self) -> str:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise SystemExit("the Evret process ended")
        return line

    def cpu_seconds(self) -> float:
        """Judge everything once; return the CPU seconds."""
        if self._process.stdin is not None:
            self._process.stdin.write("go\n")
            self._process.stdin.flush()
        return float(self._read())

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait()


def ours(client: Client, server: Server, groups: list[QueryGroup], profile: str) -> float:
    """Judge everything once; return the CPU seconds of client and server."""
    before = time.process_time() + server.cpu_seconds()
    client.judge(groups, Judge("token_overlap", profile))
    return time.process_time() + server.cpu_seconds() - before


def main() -> None:
    """Measure and print."""
    groups = [QueryGroup(g.query, g.expected, g.retrieved) for g in build_groups(SEED)]
    contexts = sum(len(g.expected) * len(g.retrieved) for g in groups)
    peers = {profile: Evret(version) for profile, version in PAIRS.items()}
    mine: dict[str, list[float]] = {profile: [] for profile in PAIRS}
    theirs: dict[str, list[float]] = {profile: [] for profile in PAIRS}
    with (
        serving("judged_server", "--log-level", "warning") as server,
        Client(server.address) as client,
    ):
        for round_number in range(ROUNDS + 1):
            for profile, peer in peers.items():
                a, b = ours(client, server, groups, profile), peer.cpu_seconds()
                if round_number:  # the first round warms up
                    mine[profile].append(a)
                    theirs[profile].append(b)
    for peer in peers.values():
        peer.close()
    samples: dict[str, list[float]] = {}
    for profile, version in PAIRS.items():
        figure = f"cpu_over_evret_{version.replace('.', '_')}"
        samples[figure] = ratios(mine[profile], theirs[profile])
        print(
            f"{profile}: {contexts} contexts, client + server "
            f"{min(mine[profile]):.2f}-{max(mine[profile]):.2f} CPU s, "
            f"evret {version} {min(theirs[profile]):.2f}-{max(theirs[profile]):.2f} CPU s"
        )
    print(closing_line("lexical", samples))


if __name__ == "__main__":
    main()
