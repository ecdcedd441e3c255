"""Elasticsearch and OpenSearch, by their own clients: an index for the Evaluator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from judged.evaluation import Retrieved


class SearchIndexRetriever:
    """An Elasticsearch or OpenSearch index, searched with its client.

    `query` turns a text into the body's "query", by default a match on `text_field`. The text of a
    hit is in its source under `text_field`.
    """

    def __init__(
        self,
        client: Any,  # noqa: ANN401 - elasticsearch.Elasticsearch or opensearchpy.OpenSearch
        index: str,
        *,
        text_field: str = "text",
        query: Callable[[str], Mapping[str, Any]] | None = None,
    ) -> None:
        self._client, self._index, self._field = client, index, text_field
        self._query = query or (lambda text: {"match": {text_field: text}})
        self.signature = f"search|{index}"

    def retrieve(self, query: str, k: int) -> list[Retrieved]:
        """Return the hits, best first."""
        body = {"query": dict(self._query(query)), "size": k}
        found = self._client.search(index=self._index, body=body)
        return [
            Retrieved(hit["_id"], hit.get("_score"), hit.get("_source", {}).get(self._field))
            for hit in found["hits"]["hits"]
        ]
