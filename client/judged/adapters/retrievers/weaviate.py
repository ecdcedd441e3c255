"""Weaviate (weaviate-client): a collection for the Evaluator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weaviate.classes.query import MetadataQuery
from weaviate.collections import Collection

from judged.evaluation import Retrieved


class WeaviateRetriever:
    """A Weaviate collection, searched by the query's vector from `embed`.

    Without `embed` it is searched by words (BM25). The text of an object is its property
    `text_property`; its id is its UUID, or its property `id_property`. `target_vector` names the
    vector if the collection has several. A distance counts times -1, so that scores fall with rank.
    """

    def __init__(
        self,
        collection: Collection,
        embed: Callable[[str], Sequence[float]] | None = None,
        *,
        text_property: str = "text",
        id_property: str | None = None,
        target_vector: str | None = None,
    ) -> None:
        self._collection, self._embed, self._target = collection, embed, target_vector
        self._text, self._id = text_property, id_property
        self._returned = [text_property] if id_property is None else [text_property, id_property]
        self.signature = f"weaviate|{collection.name}"

    def retrieve(self, query: str, k: int) -> list[Retrieved]:
        """Return the objects, best first."""
        if self._embed is None:
            found = self._collection.query.bm25(
                query,
                limit=k,
                return_metadata=MetadataQuery(score=True),
                return_properties=self._returned,
            )
        else:
            found = self._collection.query.near_vector(
                list(self._embed(query)),
                limit=k,
                target_vector=self._target,
                return_metadata=MetadataQuery(distance=True),
                return_properties=self._returned,
            )
        return [self._read(one) for one in found.objects]

    def _read(self, one: Any) -> Retrieved:  # noqa: ANN401 - Weaviate's Object
        name = one.uuid if self._id is None else one.properties[self._id]
        score = one.metadata.score if self._embed is None else -one.metadata.distance
        return Retrieved(str(name), score, one.properties[self._text])
