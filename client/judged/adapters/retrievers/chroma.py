"""Chroma (chromadb), in memory, on disk or with a server: a collection for the Evaluator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chromadb.api.models.Collection import Collection

from judged.evaluation import Retrieved


class ChromaRetriever:
    """A Chroma collection; searches for all queries in one call.

    `embed` embeds all queries, by default with the collection's own function. A score is the
    distance times -1, so that scores fall with rank.
    """

    def __init__(
        self,
        collection: Collection,
        embed: Callable[[Sequence[str]], Sequence[Sequence[float]]] | None = None,
    ) -> None:
        self._collection, self._embed = collection, embed
        self.signature = f"chroma|{collection.name}"

    def batch_retrieve(self, queries: Sequence[str], k: int) -> list[list[Retrieved]]:
        """Return the documents of each query, best first."""
        texts = list(queries)
        if self._embed is None:
            found = self._collection.query(query_texts=texts, n_results=k)
        else:
            vectors = [list(vector) for vector in self._embed(texts)]
            found = self._collection.query(query_embeddings=vectors, n_results=k)
        return [
            [
                Retrieved(name, -float(distance), text)
                for name, distance, text in zip(ids, distances, documents, strict=True)
            ]
            for ids, distances, documents in zip(
                found["ids"], found["distances"], found["documents"], strict=True
            )
        ]
