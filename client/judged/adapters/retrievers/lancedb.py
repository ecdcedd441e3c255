"""LanceDB: a table for the Evaluator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lancedb.table import Table

from judged.evaluation import Retrieved


class LanceRetriever:
    """A LanceDB table, searched by the query's vector from `embed`.

    `id_column` and `text_column` name its columns. A score is the distance times -1, so that scores
    fall with rank.
    """

    def __init__(
        self,
        table: Table,
        embed: Callable[[str], Sequence[float]],
        *,
        id_column: str = "id",
        text_column: str = "text",
    ) -> None:
        self._table, self._embed = table, embed
        self._id, self._text = id_column, text_column
        self.signature = f"lancedb|{table.name}"

    def retrieve(self, query: str, k: int) -> list[Retrieved]:
        """Return the rows, best first."""
        rows = self._table.search(list(self._embed(query))).limit(k).to_list()
        return [
            Retrieved(str(row[self._id]), -float(row["_distance"]), row[self._text]) for row in rows
        ]
