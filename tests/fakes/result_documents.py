"""Result documents of any size, drawn from a seed: what `judged evaluate --json` could write."""

from __future__ import annotations

import random
from typing import Any

from judged.values import ComparisonPower, Estimate, Interval, RunComparison, TestResult

WORDS = [
    "retrieval",
    "generation",
    "passage",
    "index",
    "vector",
    "query",
    "ranking",
    "judge",
    "threshold",
    "answer",
    "python",
    "function",
    "module",
    "class",
    "exception",
    "iterator",
    "generator",
    "decorator",
    "context",
    "manager",
    "import",
    "package",
    "tuple",
    "mapping",
    "sequence",
    "string",
    "encoding",
    "thread",
    "process",
    "coroutine",
    "socket",
    "server",
    "client",
    "protocol",
    "message",
    "buffer",
    "cache",
    "memory",
    "garbage",
    "collector",
]
METRICS = ("ndcg@10", "recall@10", "mrr")
HOSTILE = "<script>window.owned = 1</script></script>\0<b>&amp;{{7*7}}\"'`--><!--\x1b[31m\ud800"


def result_document(n: int, seed: int = 1, *, fails: bool = False) -> dict[str, Any]:
    """Return a document of n queries with ten results each; where it `fails`, nothing is found."""
    draw = random.Random(seed)

    def text(words: int) -> str:
        return " ".join(draw.choices(WORDS, k=words)).capitalize() + "."

    corpus = [text(90) for _ in range(max(50, n // 2))]
    queries: list[dict[str, Any]] = []
    per_query: dict[str, dict[str, float]] = {}
    for number in range(1, n + 1):
        expected = [text(draw.randint(10, 40)) for _ in range(draw.choice([1, 1, 1, 2]))]
        hit = 0 if fails else draw.choice([0, 1, 1, 1, 2, 3, 4, 6, 9])
        value = 1 / hit if hit else 0.0
        query_id = f"q{number:05d}"
        per_query[query_id] = dict(zip(METRICS, (value**0.6, float(hit > 0), value), strict=True))
        queries.append(
            {
                "query_id": query_id,
                "query": text(8),
                "expected": expected,
                "metadata": {"topic": draw.choice(["python", "network", "data & types"])},
                "failure": None,
                "retrieved": [
                    _result(draw, rank, corpus, expected[0] if rank == hit else None, fails)
                    for rank in range(1, 11)
                ],
            }
        )
    return {
        "format": "judged.evaluation",
        "version": 1,
        "name": "run",
        "metrics": _means(per_query),
        "slices": [
            {
                "key": "topic",
                "value": topic,
                "metrics": _means(
                    {
                        query["query_id"]: per_query[query["query_id"]]
                        for query in queries
                        if query["metadata"]["topic"] == topic
                    }
                ),
            }
            for topic in sorted({query["metadata"]["topic"] for query in queries})
        ],
        "per_query": per_query,
        "counts": {
            "queries": n,
            "evaluated": n,
            "retrieved": 10 * n,
            "verdicts": _verdicts(queries),
        },
        "signature": "llm|rubric:retrieval_match@1|model:small|samples:3|min_score:0.5|v1",
        "judge": {"kind": "llm", "min_score": 0.5},
        "warnings": [],
        "usage": {"calls": 30 * n, "attempts": 31 * n, "cost": 1.25, "latency_s": 8.0 * n},
        "queries": queries,
    }


def comparison(metric: str, difference: float, p: float) -> RunComparison:
    """Return a comparison of 300 queries."""
    interval = Interval(difference - 0.03, difference + 0.03, 0.95, 0.015, "t|v1")
    test = TestResult(None, p / 3, p, p)
    return RunComparison(
        metric=metric,
        baseline="main",
        run="run",
        n=300,
        baseline_mean=0.5,
        run_mean=0.5 + difference,
        difference=Estimate(difference, interval),
        effect_size=0.2,
        t_test=test,
        wilcoxon=test,
        permutation=test,
        mcnemar=None,
        wins=100,
        losses=60,
        ties=140,
        moved=(),
        power=ComparisonPower(),
        warnings=(),
    )


def hostile_document() -> dict[str, Any]:
    """Return a document with markup, control characters and half a character in every text."""
    document = result_document(6)
    for number, query in enumerate(document["queries"]):
        query_id = f"{HOSTILE}{number}"
        document["per_query"][query_id] = document["per_query"].pop(query["query_id"])
        query |= {"query_id": query_id, "query": HOSTILE, "expected": [HOSTILE]}
        query["metadata"] = {HOSTILE: HOSTILE}
        for result in query["retrieved"]:
            result |= {"document_id": HOSTILE, "text": HOSTILE, "error": HOSTILE}
    document |= {"warnings": [HOSTILE], "signature": HOSTILE, "name": HOSTILE}
    for part in document["slices"]:
        part |= {"key": HOSTILE, "value": HOSTILE}
    return document


def _result(
    draw: random.Random, rank: int, corpus: list[str], hit: str | None, fails: bool
) -> dict[str, Any]:
    number = draw.randrange(len(corpus))
    missing = draw.random() < 0.003 or (fails and rank == 1)
    score = 0.6 + 0.4 * draw.betavariate(6, 2) if hit else draw.betavariate(2, 6)
    return {
        "rank": rank,
        "document_id": f"doc-{number:05d}",
        "text": f"{hit} {corpus[number][:200]}" if hit else corpus[number],
        "relevant": None if missing else hit is not None,
        "score": None if missing else round(score, 4),
        "status": "ERROR" if missing else "OK",
        "error": "TIMEOUT: no answer within 30 s" if missing else None,
        "agreement": 0.67 if draw.random() < 0.002 else 1.0,
        "matches": [0] if hit and not missing else [],
        "duplicate": False,
    }


def _means(values: dict[str, dict[str, float]]) -> dict[str, Any]:
    n = len(values)
    made: dict[str, Any] = {}
    for metric in METRICS:
        mean = sum(value[metric] for value in values.values()) / n if n else None
        interval = None
        if mean is not None:
            ends = {"lower": max(0.0, mean - 0.04), "upper": min(1.0, mean + 0.04)}
            interval = {**ends, "confidence": 0.95, "standard_error": 0.02, "signature": "t|v1"}
        made[metric] = {"mean": mean, "n": n, "interval": interval, "signature": f"{metric}|v1"}
    return made


def _verdicts(queries: list[dict[str, Any]]) -> dict[str, int]:
    results = [result for query in queries for result in query["retrieved"]]
    failed = sum(result["status"] == "ERROR" for result in results)
    relevant = sum(result["relevant"] is True for result in results)
    return {"ok": len(results) - failed, "error": failed, "relevant": relevant}
