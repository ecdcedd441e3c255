"""Compares semantic judging through gRPC with Evret 0.0.3's SemanticJudge, cold, warm and mixed.

Every round has new groups, 10 retrieved by 3 expected texts of about 100 words each, so that five
rounds of 200 queries judge 30,000 contexts. Ours go through the Python client to a server that
caches vectors in memory, three times: cold; again, unchanged (warm); and with 30 per cent of the
texts replaced by new ones (overlap). Evret judges the first queries of the same round, all contexts
in one list, in a separate process with the same weights. It embeds both texts of each context, so
its contexts a second do not depend on their number. Rates are contexts a second of wall time.

cold_over_evret            ONNX Runtime in fp32, cold, over Evret
fastest_cold_over_evret    the fastest backend here, cold, over Evret
warm_over_cold             the second run over the first, ONNX Runtime
overlap_over_cold          the run with 70 per cent of the texts cached, over the first
batch_dependent_verdicts   verdicts that differ between one large batch, the same groups and texts
                           in another order, and one call per context, without a cache: the
                           maximum over backends. Also the largest change of a score.
evret_disagreements        verdicts of ONNX Runtime that differ from Evret's, of those both gave

    python -m benchmarks.semantic [--queries 200] [--peer-queries 10] [--rounds 5]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack

from judged import AsyncClient, Client, QueryGroup, Verdicts

from benchmarks.harness import ORACLES, closing_line, ratios
from benchmarks.peers import environments
from benchmarks.peers.backends import (
    Backend,
    RunningBackend,
    add_backend_option,
    backends,
    running,
    start_all,
)
from benchmarks.peers.passages import peer_model
from tests.conformance.prose import build_groups

SEED = 100
EVRET = "0.0.3"
KNOWN_SHARE = 0.7
ALONE = 300
"""Contexts that are also judged in a call of their own."""
DEPENDENCE_QUERIES = 40

Scores = dict[tuple[int, str, str], tuple[bool, float]]


def round_groups(seed: int, queries: int) -> list[QueryGroup]:
    """Return the groups of a round."""
    return [QueryGroup(g.query, g.expected, g.retrieved) for g in build_groups(seed, queries)]


def overlapping(groups: Sequence[QueryGroup], seed: int) -> list[QueryGroup]:
    """Return the groups with 30 per cent of their texts replaced by new ones."""
    rng = random.Random(seed)
    fresh = iter(
        f"{text} {rng.randrange(10**9)}"
        for group in build_groups(seed + 1_000_000, len(groups))
        for text in (*group.expected, *group.retrieved)
    )

    def mixed(texts: Sequence[str]) -> list[str]:
        return [text if rng.random() < KNOWN_SHARE else next(fresh) for text in texts]

    return [QueryGroup(g.query, mixed(g.expected), mixed(g.retrieved)) for g in groups]


def contexts(groups: Sequence[QueryGroup]) -> int:
    """Return the number of contexts in the groups."""
    return sum(len(group.expected) * len(group.retrieved) for group in groups)


def rate(client: Client, groups: Sequence[QueryGroup]) -> tuple[float, Verdicts]:
    """Judge once; return contexts a second, and the verdicts."""
    started = time.perf_counter()
    verdicts = client.judge(groups, "semantic", timeout=3000)
    spent = time.perf_counter() - started
    if verdicts.n_ok != len(verdicts):
        raise SystemExit(f"{len(verdicts) - verdicts.n_ok} verdicts are missing")
    return len(verdicts) / spent, verdicts


class Evret:
    """Evret's SemanticJudge in a process of its own."""

    def __init__(self) -> None:
        """Start it. Raises NotRun."""
        folder = ORACLES / f"evret-{EVRET}"
        if not folder.is_dir():
            raise environments.NotRun(f"evret {EVRET} is not installed; run `make setup`")
        python = environments.environment(
            "sentence-transformers", environments.SENTENCE_TRANSFORMERS
        )
        module = "benchmarks.peers.evret_semantic"
        self._worker = environments.Worker(python, module, str(folder), str(peer_model()))
        self.close = self._worker.close

    def rate(self, seed: int, queries: int) -> tuple[float, list[bool]]:
        """Judge the first queries of a round; return contexts a second, and the verdicts."""
        took = self._worker.ask(json.dumps({"seed": seed, "queries": queries}))
        verdicts: list[bool] = took["verdicts"]
        return len(verdicts) / float(took["wall"]), verdicts


def speed(
    servers: Sequence[RunningBackend],
    evret: Evret | None,
    queries: int,
    peer_queries: int,
    rounds: int,
) -> dict[str, list[float]]:
    """Return the samples of all figures except the dependence on batches."""
    cold: dict[str, list[float]] = {server.name: [] for server in servers}
    warm, overlap, theirs, disagreements = [], [], [], []
    for server in servers:
        rate(server.client, round_groups(SEED - 1, 2))
    for number in range(rounds):
        seed = SEED + number
        groups = round_groups(seed, queries)
        for server in servers:
            measured, verdicts = rate(server.client, groups)
            cold[server.name].append(measured)
            if server is servers[0]:
                reference = verdicts
                warm.append(rate(server.client, groups)[0])
                overlap.append(rate(server.client, overlapping(groups, seed))[0])
        if evret:
            measured, decided = evret.rate(seed, min(queries, peer_queries))
            theirs.append(measured)
            ours = reference.relevant[: len(decided)]
            disagreements.append(float(sum(a != b for a, b in zip(decided, ours, strict=True))))
    reference_name = servers[0].name
    samples = {
        "warm_over_cold": ratios(warm, cold[reference_name]),
        "overlap_over_cold": ratios(overlap, cold[reference_name]),
    }
    if evret:
        fastest = max(cold, key=lambda name: statistics.median(cold[name]))
        samples["cold_over_evret"] = ratios(cold[reference_name], theirs)
        samples["fastest_cold_over_evret"] = ratios(cold[fastest], theirs)
        samples["evret_disagreements"] = disagreements
        samples["contexts_a_s_evret"] = theirs
    for name, rates in cold.items():
        samples[f"cold_contexts_a_s_{name}"] = rates
    samples[f"warm_contexts_a_s_{reference_name}"] = warm
    return samples


def keyed(groups: Sequence[QueryGroup], verdicts: Verdicts) -> Scores:
    """Return verdicts and scores by query_id, expected and retrieved text."""
    keys = (
        (int(group.query_id), expected, retrieved)
        for group in groups
        for retrieved in group.retrieved
        for expected in group.expected
    )
    return dict(zip(keys, zip(verdicts.relevant, verdicts.score, strict=True), strict=True))


async def one_by_one(target: str, groups: Sequence[QueryGroup]) -> Scores:
    """Judge each context in its own call, some at once so that batches mix their texts."""
    found: Scores = {}
    left = iter(groups)
    async with AsyncClient(target) as client:

        async def work() -> None:
            for group in left:
                found.update(keyed([group], await client.judge([group], "semantic", timeout=600)))

        await asyncio.gather(*(work() for _ in range(4)))
    return found


def dependence(backend: Backend, queries: int) -> tuple[int, float]:
    """Return how many verdicts depend on the batch, and the largest change of a score."""
    rng = random.Random(SEED)
    groups = [
        QueryGroup(g.query, g.expected, g.retrieved, query_id=str(i))
        for i, g in enumerate(round_groups(SEED + 500, queries))
    ]
    shuffled = [
        QueryGroup(
            g.query,
            rng.sample(g.expected, len(g.expected)),
            rng.sample(g.retrieved, len(g.retrieved)),
            query_id=g.query_id,
        )
        for g in rng.sample(groups, len(groups))
    ]
    singles = [
        QueryGroup(g.query, [expected], [retrieved], query_id=g.query_id)
        for g in groups
        for retrieved in g.retrieved
        for expected in g.expected
    ]
    singles = rng.sample(singles, min(ALONE, len(singles)))
    with running(backend, "--vector-cache", "off") as server:
        together = keyed(groups, rate(server.client, groups)[1])
        others = [
            keyed(shuffled, rate(server.client, shuffled)[1]),
            asyncio.run(one_by_one(server.server.address, singles)),
        ]
    changed, largest = 0, 0.0
    for other in others:
        for key, (relevant, score) in other.items():
            changed += relevant != together[key][0]
            largest = max(largest, abs(score - together[key][1]))
    print(f"{backend.name}: {changed} verdicts depend on the batch, scores by up to {largest:.1e}")
    return changed, largest


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.semantic")
    parser.add_argument("--queries", type=int, default=200, help="in each round")
    parser.add_argument("--peer-queries", type=int, default=10, help="of a round that Evret judges")
    parser.add_argument("--rounds", type=int, default=5)
    add_backend_option(parser)
    arguments = parser.parse_args()
    chosen: list[Backend] = arguments.backend or backends()
    not_run: dict[str, str] = {}
    facts: dict[str, object] = {
        "contexts_a_round": contexts(round_groups(SEED, arguments.queries)),
        "contexts_a_round_evret": contexts(round_groups(SEED, arguments.peer_queries)),
        "rounds": arguments.rounds,
    }
    with ExitStack() as stack:
        servers = start_all(stack, chosen, not_run, "--vector-cache", "memory")
        facts["backends"] = {s.name: f"{s.precision} on {s.provider}" for s in servers}
        evret = None
        try:
            evret = Evret()
            stack.callback(evret.close)
        except environments.NotRun as problem:
            print(f"evret: not run ({problem})")
            not_run["cold_over_evret"] = not_run["fastest_cold_over_evret"] = str(problem)
        samples = speed(servers, evret, arguments.queries, arguments.peer_queries, arguments.rounds)
        started = {server.name for server in servers}
    found = [
        dependence(backend, min(arguments.queries, DEPENDENCE_QUERIES))
        for backend in chosen
        if backend.name in started
    ]
    samples["batch_dependent_verdicts"] = [float(max(changed for changed, _ in found))]
    samples["batch_dependent_score_change"] = [max(largest for _, largest in found)]
    print(closing_line("semantic", samples, not_run, facts))


if __name__ == "__main__":
    main()
