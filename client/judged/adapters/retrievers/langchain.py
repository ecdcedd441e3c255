"""LangChain (langchain-core): its retrievers for the Evaluator."""

from __future__ import annotations

from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStoreRetriever

from judged.evaluation import Retrieved
from judged.evaluation.asking import signature_of


class LangChainRetriever:
    """A LangChain retriever. One of a vector store gets k.

    Others return as many documents as configured, of which the first k count. A document's id is
    its `id`, or `id` or `doc_id` in its metadata.
    """

    def __init__(self, retriever: BaseRetriever) -> None:
        self._retriever = retriever
        self.signature = signature_of(retriever)

    def retrieve(self, query: str, k: int) -> list[Retrieved]:
        """Return the documents, best first."""
        if isinstance(self._retriever, VectorStoreRetriever):
            documents = self._retriever.invoke(query, k=k)
        else:
            documents = self._retriever.invoke(query)
        return [
            Retrieved(_id_of(document), text=document.page_content) for document in documents[:k]
        ]


def _id_of(document: Document) -> Any:  # noqa: ANN401 - text or a number, also 0
    named = (document.id, document.metadata.get("id"), document.metadata.get("doc_id"))
    return next((each for each in named if each not in (None, "")), None)
