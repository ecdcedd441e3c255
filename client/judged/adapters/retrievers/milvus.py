"""Milvus (pymilvus), as Milvus Lite in a file or with a server: a collection for the Evaluator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pymilvus import MilvusClient

from judged.evaluation import Retrieved


class MilvusRetriever:
    """A Milvus collection, searched in one call by the queries' vectors from `embed`.

    The text of an entity is its field `text_field`, its id the primary key `id_field`;
    `vector_field` names the vector if the collection has several. A score is the distance, times
    -1 if a smaller one is nearer (L2), so that scores fall with rank.
    """

    def __init__(
        self,
        client: MilvusClient,
        collection: str,
        embed: Callable[[Sequence[str]], Sequence[Sequence[float]]],
        *,
        id_field: str = "id",
        text_field: str = "text",
        vector_field: str | None = None,
    ) -> None:
        self._client, self._collection, self._embed = client, collection, embed
        self._id, self._text, self._vector = id_field, text_field, vector_field
        self.signature = f"milvus|{collection}"

    def batch_retrieve(self, queries: Sequence[str], k: int) -> list[list[Retrieved]]:
        """Return the entities of each query, best first."""
        found = self._client.search(
            self._collection,
            data=[list(vector) for vector in self._embed(list(queries))],
            anns_field=self._vector,
            limit=k,
            output_fields=[self._text],
        )
        ranked = []
        for hits in found:
            distances = [float(hit["distance"]) for hit in hits]
            sign = -1.0 if distances and distances[0] < distances[-1] else 1.0
            ranked.append(
                [
                    Retrieved(str(hit[self._id]), sign * distance, hit["entity"].get(self._text))
                    for hit, distance in zip(hits, distances, strict=True)
                ]
            )
        return ranked
