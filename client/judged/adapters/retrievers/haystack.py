"""Haystack (haystack-ai): its retriever components for the Evaluator."""

from __future__ import annotations

from typing import Any

from judged.evaluation import Retrieved
from judged.evaluation.asking import signature_of


class HaystackRetriever:
    """A Haystack retriever component; k is passed as `top_k`.

    One that searches by embeddings needs the text `embedder` that precedes it in a pipeline. Warm
    components up before use.
    """

    def __init__(self, retriever: Any, embedder: Any = None) -> None:  # noqa: ANN401 - components have no common type
        self._retriever, self._embedder = retriever, embedder
        self.signature = signature_of(retriever)

    def retrieve(self, query: str, k: int) -> list[Retrieved]:
        """Return the documents, best first."""
        if self._embedder is None:
            found = self._retriever.run(query=query, top_k=k)
        else:
            vector = self._embedder.run(text=query)["embedding"]
            found = self._retriever.run(query_embedding=vector, top_k=k)
        return [
            Retrieved(document.id, document.score, document.content)
            for document in found["documents"]
        ]
