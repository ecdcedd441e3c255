"""What a retriever is to the evaluator: something that ranks documents for a query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from judged.evaluation.results import Retrieved


class Retriever(Protocol):
    """Finds documents for a query. Anything with this method is one; no base class is needed."""

    def retrieve(self, query: str, k: int) -> Sequence[Retrieved]:
        """Return at most k documents, best first."""
        ...
