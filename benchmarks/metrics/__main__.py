"""Compares the ranking metrics with pytrec_eval and ranx, and the bootstrap with its floor.

5,000 queries by 100 documents by 10 measures, CPU seconds unless stated otherwise, rounds
interleaved. A ratio is theirs over ours: more is better. Both sides of a pair start from the same:

    prepared  arrays of gains against pytrec_eval's evaluator and dicts, and against ranx's objects
    columns   lists of ids and scores; both sides build what they need from them
    wire      the same lists; ours are sent to a real server, theirs is as for columns. Wall
              seconds: one process of theirs against client and server, which run in parallel on
              two free cores. The figures that end in _cpu are CPU seconds of both processes
    ranked    the same, but ours sends the lists best first, without scores; theirs needs scores

Values are checked to be equal. Then: how CPU and memory grow with queries (`growth`), and
the cost of intervals, 10,000 resamples of 5,000 queries by 10 measures, over its floor: drawing
the random words and one matrix product.

    python -m benchmarks.metrics
"""

from __future__ import annotations

import gc
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pytrec_eval
from judged import Client, ScoredDocuments, TrecRankings
from judged.values.choices import IntervalOptions
from judged_server.metrics.input.rankings import Qrels, Rankings, Topics, rank_run
from judged_server.metrics.measures import parse_metrics
from judged_server.statistics.intervals import mean_intervals

from benchmarks.harness import ROOT, Server, closing_line, ratios, serving
from benchmarks.metrics.trec_runs import Runs, build_runs, mappings

QUERIES = 5_000
ROUNDS = 5
WIRE_ROUNDS = 9
"""More rounds, since a busy machine disturbs two processes more than one."""
RANX = ("ranx==0.3.21", "numba==0.68.1")
NAMES = {
    "ndcg@10": "ndcg_cut_10",
    "ndcg@100": "ndcg_cut_100",
    "ap@10": "map_cut_10",
    "ap@100": "map_cut_100",
    "mrr": "recip_rank",
    "precision@5": "P_5",
    "precision@10": "P_10",
    "recall@10": "recall_10",
    "recall@100": "recall_100",
    "r_precision": "Rprec",
}
ASKED = {"ndcg_cut.10,100", "map_cut.10,100", "recip_rank", "P.5,10", "recall.10,100", "Rprec"}
MEASURES = parse_metrics(list(NAMES))


class Ranx:
    """ranx in its own environment under .venv/peers, which is made if it is missing."""

    def __init__(self) -> None:
        folder = ROOT / ".venv" / "peers" / "ranx"
        ready = folder / ".ready"
        if not ready.exists() or ready.read_text() != " ".join(RANX):
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            pip = [str(folder / "bin" / "python"), "-m", "pip", "--quiet", "install", *RANX]
            subprocess.run(pip, check=True, capture_output=True)
            ready.write_text(" ".join(RANX))
        self._process = subprocess.Popen(
            [folder / "bin" / "python", "-m", "benchmarks.peers.ranx_metrics", str(QUERIES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
        )
        self._read()

    def _read(self) -> str:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise OSError("the ranx process ended")
        return line

    def evaluate(self) -> tuple[float, list[float]]:
        """Evaluate once; return the CPU seconds and the means."""
        if self._process.stdin is not None:
            self._process.stdin.write("go\n")
            self._process.stdin.flush()
        spent, *means = map(float, self._read().split())
        return spent, means

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait()


def find_ranx() -> Ranx | None:
    """Return ranx, or None if it can't be installed."""
    try:
        return Ranx()
    except (OSError, subprocess.CalledProcessError) as problem:
        print(f"ranx: not run ({problem})")
        return None


def clocked(work: Callable[[], object]) -> tuple[float, float]:
    """Return the wall and the CPU seconds that `work` takes in this process.

    The garbage collector runs before and is off meanwhile, as in timeit.
    """
    gc.collect()
    gc.disable()
    began, started = time.perf_counter(), time.process_time()
    work()
    spent = time.perf_counter() - began, time.process_time() - started
    gc.enable()
    return spent


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds that `work` takes in this process."""
    return clocked(work)[1]


def prepared(rankings: Rankings) -> list[np.ndarray]:
    """Measure prepared rankings; nothing derived from them is cached."""
    bare = Rankings(
        rankings.offsets,
        rankings.gains,
        rankings.ideal_offsets,
        rankings.ideal_gains,
        judged_others=rankings.judged_others,
    )
    return [measure.values(bare) for measure in MEASURES]


def rank_columns(runs: Runs) -> Rankings:
    """Rank lists of ids and numbers."""
    qrels = Qrels.of(Topics.of_rows(runs.qrels, "qrels", "grades"))
    return rank_run(qrels, Topics.of_rows(runs.run, "run", "scores")).rankings


def from_columns(runs: Runs) -> list[np.ndarray]:
    """Rank and measure lists of ids and numbers."""
    return prepared(rank_columns(runs))


def pytrec(runs: Runs) -> Mapping[str, Mapping[str, float]]:
    """Build dicts and an evaluator from columns, and evaluate."""
    evaluator = pytrec_eval.RelevanceEvaluator(mappings(runs.qrels), ASKED)
    results: Mapping[str, Mapping[str, float]] = evaluator.evaluate(mappings(runs.run))
    return results


def check_equal(runs: Runs, ranx: Ranx | None) -> None:
    """Raise SystemExit unless all sides agree to 1e-9 on every mean."""
    columns = from_columns(runs)
    means = [float(np.mean(column)) for column in columns]
    per_query = pytrec(runs).values()
    theirs = [math.fsum(q[name] for q in per_query) / QUERIES for name in NAMES.values()]
    for other in (theirs, ranx.evaluate()[1] if ranx else theirs):
        for name, a, b in zip(NAMES, means, other, strict=True):
            if abs(a - b) > 1e-9:
                raise SystemExit(f"{name} differs: {a!r} against {b!r}")


def local_rounds(runs: Runs, ranx: Ranx | None) -> dict[str, list[float]]:
    """Return the figures that need no server."""
    qrels, run = mappings(runs.qrels), mappings(runs.run)
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, ASKED)
    ready = rank_columns(runs)
    spent: dict[str, list[float]] = {}
    for _ in range(ROUNDS + 1):
        taken = {
            "evaluate": seconds(lambda: evaluator.evaluate(run)),
            "prepared": seconds(lambda: prepared(ready)),
            "pytrec": seconds(lambda: pytrec(runs)),
            "columns": seconds(lambda: from_columns(runs)),
        }
        if ranx:
            taken["ranx"] = ranx.evaluate()[0]
        for name, value in taken.items():
            spent.setdefault(name, []).append(value)
    spent = {name: values[1:] for name, values in spent.items()}  # the first round warms up
    for name, values in spent.items():
        print(f"{name}: {min(values) * 1e3:.1f}-{max(values) * 1e3:.1f} CPU ms")
    figures = {
        "prepared_over_pytrec_eval": ratios(spent["evaluate"], spent["prepared"]),
        "columns_over_pytrec_eval": ratios(spent["pytrec"], spent["columns"]),
    }
    if ranx:
        figures["prepared_over_ranx"] = ratios(spent["ranx"], spent["prepared"])
    return figures


def scored(client: Client, runs: Runs) -> None:
    """Send ids and scores, and read the means."""
    run = {topic: ScoredDocuments(ids, scores) for topic, ids, scores in runs.run}
    client.compute_metrics(list(NAMES), TrecRankings(mappings(runs.qrels), run))


def ranked(client: Client, runs: Runs) -> None:
    """Send ids best first, and read the means."""
    run = {topic: ids for topic, ids, _ in runs.run}
    client.compute_metrics(list(NAMES), TrecRankings(mappings(runs.qrels), run))


def wire_rounds(
    server: Server, send: Callable[[], object], runs: Runs, times: int
) -> tuple[list[float], list[float]]:
    """Return theirs over ours in wall and in CPU seconds, each a round's mean over `times`.

    Short work is repeated because the server's CPU clock is coarse.
    """

    def both(work: Callable[[], object]) -> tuple[float, float]:
        before = server.cpu_seconds()
        wall, own = clocked(lambda: [work() for _ in range(times)])
        return wall / times, (own + server.cpu_seconds() - before) / times

    rounds = [(both(lambda: pytrec(runs)), both(send)) for _ in range(WIRE_ROUNDS + 1)][1:]
    answer = []
    for clock, name in enumerate(("wall", "CPU")):
        theirs, mine = ([pair[side][clock] for pair in rounds] for side in (0, 1))
        print(
            f"server, {len(runs.run)} queries: {min(mine) * 1e3:.0f}-{max(mine) * 1e3:.0f} "
            f"{name} ms, pytrec_eval {min(theirs) * 1e3:.0f}-{max(theirs) * 1e3:.0f}"
        )
        answer.append(ratios(theirs, mine))
    return answer[0], answer[1]


def growth() -> dict[str, list[float]]:
    """Return the figures of `growth`."""
    command = [sys.executable, "-m", "benchmarks.metrics.growth", *NAMES]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    found = json.loads(done.stdout)
    return {"growth_exponent": found["exponents"], "memory_over_ids": [found["memory"]]}


def bootstrap_rounds() -> dict[str, list[float]]:
    """Return the CPU seconds of intervals, and their ratio to those of the floor."""
    values = np.random.default_rng(3).random((len(NAMES), QUERIES))
    options = IntervalOptions()
    columns = np.ascontiguousarray(values.T)
    rows = max(1, (1 << 16) // QUERIES)
    block = np.ones((rows, QUERIES))
    words = options.resamples * QUERIES // 4  # four draws of 16 bits a word

    def floor() -> None:
        source = np.random.PCG64(1)
        for _ in range(options.resamples // rows):
            source.random_raw(words * rows // options.resamples)
            np.matmul(block, columns)

    rounds = [
        (seconds(lambda: mean_intervals(values, options)), seconds(floor)) for _ in range(ROUNDS)
    ][1:]
    spent, least = ([pair[i] for pair in rounds] for i in (0, 1))
    return {"bootstrap_cpu_s": spent, "bootstrap_over_floor": ratios(spent, least)}


def main() -> None:
    """Measure and print."""
    runs = build_runs(QUERIES)
    ranx = find_ranx()
    check_equal(runs, ranx)
    samples = local_rounds(runs, ranx)
    if ranx:
        ranx.close()
    with (
        serving("judged_server", "--log-level", "warning") as server,
        Client(server.address) as client,
    ):
        small = Runs(runs.qrels[:1_000], runs.run[:1_000])
        for name, part, times in (("1000", small, 4), ("5000", runs, 1)):
            for label, send in (("wire", scored), ("ranked", ranked)):
                wall, cpu = wire_rounds(server, partial(send, client, part), part, times)
                samples[f"{label}_over_pytrec_eval_{name}"] = wall
                samples[f"{label}_over_pytrec_eval_{name}_cpu"] = cpu
    samples |= growth() | bootstrap_rounds()
    print(closing_line("metrics", samples))


if __name__ == "__main__":
    main()
