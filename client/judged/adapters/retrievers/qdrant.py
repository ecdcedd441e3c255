"""Qdrant (qdrant-client), in local mode or with a server: a collection for the Evaluator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from qdrant_client import QdrantClient

from judged.evaluation import Retrieved


class QdrantRetriever:
    """A Qdrant collection, searched by the query's vector from `embed`.

    The text of a point is in its payload under `text_key`; `using` names the vector if the
    collection has several.
    """

    def __init__(
        self,
        client: QdrantClient,
        collection: str,
        embed: Callable[[str], Sequence[float]],
        *,
        text_key: str = "text",
        using: str | None = None,
    ) -> None:
        self._client, self._collection, self._embed = client, collection, embed
        self._text_key, self._using = text_key, using
        self.signature = f"qdrant|{collection}"

    def retrieve(self, query: str, k: int) -> list[Retrieved]:
        """Return the points, best first."""
        found = self._client.query_points(
            self._collection,
            query=list(self._embed(query)),
            using=self._using,
            limit=k,
            with_payload=True,
        )
        return [
            Retrieved(str(point.id), point.score, (point.payload or {}).get(self._text_key))
            for point in found.points
        ]
