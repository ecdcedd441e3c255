"""The texts of a small library, queries on them, and an embedding that needs no model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from judged import Client, Judge
from judged.evaluation import Dataset, Evaluator, Query

TEXTS = {
    "d1": "books may be kept for four weeks",
    "d2": "a late book costs twenty cents a day",
    "d3": "the reading room has forty seats",
    "d4": "on sundays the library opens at noon",
}
DATASET = Dataset(
    [
        Query("q1", "how many weeks may books be kept", (), ["d1"]),
        Query("q2", "what does a late book cost a day", (), ["d2"]),
        Query("q3", "when does the library open on sundays", [TEXTS["d4"]]),
    ]
)
EXPECTED = "rag combines retrieval with generation for better accuracy"
FOUND = "rag is a technique that combines retrieval with generation"
OTHER = "vector databases store embeddings"
OVERLAP = Judge("token_overlap", "weighted", parameters={"min_tokens": 2})
"""A judge to whom FOUND says what EXPECTED does, and OTHER does not."""
WORDS = sorted({word for text in TEXTS.values() for word in text.split()})


def embed(text: str) -> list[float]:
    """Return which words a text has, as a vector of length 1."""
    own = set(text.lower().split())
    found = [float(word in own) for word in WORDS]
    return [value / max(1.0, sum(found)) ** 0.5 for value in found]


def shared(query: str, text: str) -> float:
    """Return the cosine of two texts."""
    return sum(a * b for a, b in zip(embed(query), embed(text), strict=True))


def rank(query: str) -> list[str]:
    """Return the ids of the texts, the most alike first."""
    return sorted(TEXTS, key=lambda name: -shared(query, TEXTS[name]))


def check(
    client: Client, retriever: Any, rename: Callable[[str], str] = str, *, finds_few: bool = False
) -> None:
    """Evaluate a retriever over the texts: it must find what each query asks for, first.

    `rename` makes the library's id of a text's; `finds_few` says that it returns only what shares
    a word with the query, which is fewer than k: the evaluator warns of that.
    """
    queries = [
        Query(q.query_id, q.text, q.expected_answers, list(map(rename, q.relevant_document_ids)))
        for q in DATASET.queries
    ]
    found = Evaluator(client).evaluate(retriever, Dataset(queries), ["mrr@3", "recall@2"], "exact")
    assert [found[name].mean for name in ("mrr@3", "recall@2")] == [1.0, 1.0]
    assert all(0 < len(query.retrieved) <= 3 for query in found.queries)
    first = found.queries[2].retrieved[0]
    assert (first.text, first.relevant) == (TEXTS["d4"], True)
    of_retriever = [said for said in found.warnings if not said.startswith("interval: ")]
    assert len(of_retriever) == finds_few
