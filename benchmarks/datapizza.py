"""Compares our metrics with datapizza's functions, on the same random rankings.

Those are in one file of its repository, and in no package: give the path of your copy.

    git clone https://github.com/datapizza-labs/datapizza-ai
    python -m benchmarks.datapizza datapizza-ai/datapizza-ai-eval/metrics.py

1,000 queries for each of three kinds: chunks of which none comes twice, chunks that may, and
vectors. A figure is the largest difference of a query's value; rounds differ in their seed.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from judged import Client, EmbeddedRanking, EmbeddedRankings, Embeddings, MetricOptions, MetricTable
from judged.evaluation import Dataset, Evaluator, Query

from benchmarks.harness import closing_line, serving

ROUNDS = 5
QUERIES = 1_000
K = 5
DIMENSIONS = 4
THRESHOLD = 0.8
EXPECTED, FOUND = "abcdefgh", "abcdefghijkl"
EXACT = {
    "precision@5": "precision_at_k_exact",
    "recall@5": "recall_at_k_exact",
    "f1@5": "f1_at_k_exact",
    "hybrid_log_rank": "hybrid_log_rank_score_exact",
}
SIMILARITY = {
    "precision_similarity@5": "precision_at_k_similarity",
    "recall_similarity@5": "recall_at_k_similarity",
    "f1_similarity@5": "f1_at_k_similarity",
    "hybrid_log_rank_similarity": "hybrid_log_rank_score_similarity",
}
Rankings = Mapping[str, tuple[Sequence[Any], Sequence[Any]]]
"""What was retrieved, and what was expected, by query id."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("metrics", type=Path, help="datapizza-ai-eval/metrics.py of datapizza-ai")
    path = parser.parse_args().metrics
    theirs = load(path)
    largest: dict[str, list[float]] = defaultdict(list)
    with (
        serving("judged_server", "--log-level", "warning") as server,
        Client(server.address) as client,
    ):
        for seed in range(ROUNDS):
            rng = random.Random(seed)
            for kind, twice in (("unique", False), ("repeated", True)):
                chunks = draw_chunks(rng, twice=twice)
                table = judged_exactly(client, chunks)
                for metric, name in EXACT.items():
                    difference = most(table, metric, chunks, function(theirs, name))
                    largest[f"{kind}_{metric}"].append(difference)
            vectors = draw_vectors(rng)
            table = compared(client, vectors)
            for metric, name in SIMILARITY.items():
                difference = most(table, metric, vectors, function(theirs, name))
                largest[metric].append(difference)
    for metric, differences in largest.items():
        print(f"{metric:<30} {max(differences):.3g}")
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    facts = {"queries": ROUNDS * QUERIES, "datapizza_sha256": sha256}
    print(closing_line("datapizza", largest, facts=facts))


def load(path: Path) -> ModuleType:
    """Return the module in a file."""
    spec = importlib.util.spec_from_file_location("datapizza_metrics", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise SystemExit(f"{path}: is no Python file; see the beginning of this one")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def function(theirs: ModuleType, name: str) -> Callable[[Sequence[Any], Sequence[Any]], float]:
    """Return a function of datapizza's with the cutoff and the threshold that ours has."""
    called = getattr(theirs, name)
    more = (K,) if "_at_k_" in name else ()
    return lambda retrieved, expected: float(called(retrieved, expected, *more))


def draw_chunks(rng: random.Random, *, twice: bool) -> Rankings:
    """Return rankings of letters, in which a letter may come `twice`."""
    drawn = {}
    for query in range(QUERIES):
        n = rng.randint(1, 10)
        found = rng.choices(FOUND, k=n) if twice else rng.sample(FOUND, n)
        drawn[f"q{query}"] = (found, rng.sample(EXPECTED, rng.randint(1, 4)))
    return drawn


def draw_vectors(rng: random.Random) -> Rankings:
    """Return rankings of vectors, many of which are about as similar as the threshold."""

    def vectors(most: int) -> list[list[float]]:
        return [
            [rng.gauss(0.5, 1.0) for _ in range(DIMENSIONS)] for _ in range(rng.randint(1, most))
        ]

    return {f"q{query}": (vectors(10), vectors(4)) for query in range(QUERIES)}


def judged_exactly(client: Client, chunks: Rankings) -> MetricTable:
    """Return our metrics of chunks by the judge `exact`."""
    dataset = Dataset([Query(name, "q", expected) for name, (_, expected) in chunks.items()])
    found = {name: retrieved for name, (retrieved, _) in chunks.items()}
    return Evaluator(client).evaluate(found, dataset, list(EXACT), "exact").table


def compared(client: Client, vectors: Rankings) -> MetricTable:
    """Return our metrics of vectors by their cosine."""
    rankings = [
        EmbeddedRanking(name, Embeddings.from_rows(expected, retrieved))
        for name, (retrieved, expected) in vectors.items()
    ]
    options = MetricOptions(per_query=True)
    given = EmbeddedRankings(rankings, THRESHOLD)
    return client.compute_metrics(list(SIMILARITY), given, options)


def most(
    table: MetricTable,
    metric: str,
    rankings: Rankings,
    theirs: Callable[[Sequence[Any], Sequence[Any]], float],
) -> float:
    """Return the largest difference of a query's value."""
    pairs = zip(table.query_ids, table[metric].per_query, strict=True)
    return max(abs(value - theirs(*rankings[query_id])) for query_id, value in pairs)


if __name__ == "__main__":
    main()
