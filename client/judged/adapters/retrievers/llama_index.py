"""LlamaIndex (llama-index-core): its retrievers for the Evaluator."""

from __future__ import annotations

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.retrievers import VectorIndexRetriever

from judged.evaluation import Retrieved
from judged.evaluation.asking import signature_of


class LlamaIndexRetriever:
    """A LlamaIndex retriever: nodes with their ids, scores and contents.

    Sets `similarity_top_k` of a vector index, 2 by default, to k. Others return as many nodes as
    configured, of which the first k count.
    """

    def __init__(self, retriever: BaseRetriever) -> None:
        self._retriever = retriever
        self.signature = signature_of(retriever)

    def retrieve(self, query: str, k: int) -> list[Retrieved]:
        """Return the nodes, best first."""
        if isinstance(self._retriever, VectorIndexRetriever):
            self._retriever.similarity_top_k = k
        return [
            Retrieved(found.node.node_id, found.score, found.node.get_content())
            for found in self._retriever.retrieve(query)[:k]
        ]
