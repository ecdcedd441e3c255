"""Compares a whole evaluation by our Evaluator with one by Evret's, on the same data.

1,000 queries, each with 10 retrieved by 3 expected texts of about 100 words, judged by
`token_overlap` with the profile `weighted`, which is Evret 0.0.3's. The retriever has its results
in memory; the result has a value for every query. Ours goes through client and server, and its
result has intervals; Evret's runs in a separate process. Wall seconds; rounds interleave.

    python -m benchmarks.evaluator
"""

from __future__ import annotations

import subprocess
import sys
import time

from judged import Client, Judge
from judged.evaluation import Dataset, Evaluator, Query

from benchmarks.harness import ORACLES, ROOT, closing_line, ratios, serving
from tests.conformance.prose import build_groups

SEED = 20
ROUNDS = 5
METRICS = ["hit_rate@10", "recall@10", "precision@10", "mrr@10", "ndcg@10", "ap@10"]


def main() -> None:
    """Measure and print."""
    folder = ORACLES / "evret-0.0.3"
    if not folder.is_dir():
        raise SystemExit("evret 0.0.3 is not installed; run `make setup`")
    command = [sys.executable, "-m", "benchmarks.peers.evret_evaluator", str(folder), str(SEED)]
    groups = build_groups(SEED)
    dataset = Dataset(
        [Query(f"q{i}", f"{group.query} {i}", group.expected) for i, group in enumerate(groups)]
    )
    found = {q.text: g.retrieved for q, g in zip(dataset.queries, groups, strict=True)}
    ours: list[float] = []
    theirs: list[float] = []
    means: dict[str, float | None] = {}
    with (
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        ) as peer,
        serving("judged_server", "--log-level", "warning") as server,
        Client(server.address) as client,
    ):
        if peer.stdin is None or peer.stdout is None:
            raise SystemExit("the Evret process has no pipes")
        peer.stdout.readline()
        for number in range(ROUNDS + 1):
            started = time.perf_counter()
            result = Evaluator(client).evaluate(
                lambda query, k: found[query][:k],
                dataset,
                METRICS,
                Judge("token_overlap", "weighted"),
            )
            result.to_json()
            mine = time.perf_counter() - started
            means = {metric.name: metric.mean for metric in result.table}
            peer.stdin.write("go\n")
            peer.stdin.flush()
            seconds = float(peer.stdout.readline())
            if number:  # the first round warms up
                ours.append(mine)
                theirs.append(seconds)
        peer.stdin.close()
    contexts = sum(len(group.expected) * len(group.retrieved) for group in groups)
    print(
        f"{len(groups)} queries, {contexts} contexts, {len(METRICS)} metrics: ours "
        f"{min(ours):.2f}-{max(ours):.2f} s, Evret 0.0.3 {min(theirs):.2f}-{max(theirs):.2f} s; "
        + ", ".join(f"{name} {mean:.4f}" for name, mean in means.items() if mean is not None)
    )
    samples = {"seconds": ours, "times_as_fast_as_evret_0_0_3": ratios(theirs, ours)}
    print(closing_line("evaluator", samples))


if __name__ == "__main__":
    main()
