"""What a retriever is to the evaluator: something that ranks documents for a query.

What becomes of its documents is up to `_steps.retrieving`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol

from judged._inputs import WrongType
from judged.evaluation.datasets.results import Retrieved


class Retriever(Protocol):
    """Finds documents for a query. Anything with this method is one; no base class is needed."""

    def retrieve(self, query: str, k: int) -> Iterable[Retrieved]:
        """Return at most k documents, best first."""
        ...


RetrieverFunction = (
    Callable[[str, int], Iterable[Retrieved]]
    | Callable[[str, int], Awaitable[Iterable[Retrieved]]]
    | Callable[[Sequence[str], int], Iterable[Iterable[Retrieved]]]
    | Callable[[Sequence[str], int], Awaitable[Iterable[Iterable[Retrieved]]]]
)
"""A retriever that is a function of a query and k, or, if its first parameter is called `queries`,
of all queries at once and k; either may be a coroutine function."""


def function_of(retriever: Retriever | RetrieverFunction) -> Callable[..., Any]:
    """Return what is called with queries and k: the method `retrieve`, or the retriever itself."""
    method = getattr(retriever, "retrieve", retriever)
    if not callable(method):
        rule = "must have a method retrieve(query, k) or be such a function, not "
        raise WrongType.of_field("retriever", rule + type(retriever).__name__)
    return method


def takes_all(function: Callable[..., object]) -> bool:
    """Return whether a function takes all queries at once: as its first parameter, `queries`."""
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # some callables of extensions have no signature
        return False
    return names[:1] == ["queries"]
