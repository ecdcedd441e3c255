"""What a retriever is to the evaluator: something that ranks documents for a query."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from judged.errors import InvalidArgument, WrongType
from judged.evaluation.datasets.results import Retrieved

Found = Retrieved | str | Mapping[str, Any]
"""One retrieved document: a Retrieved, its text, or a mapping with `doc_id` or `id`, `text` (or
`metadata.text`) and `score`."""


class Retriever(Protocol):
    """Finds documents for a query. Anything with this method is one; no base class is needed."""

    def retrieve(self, query: str, k: int) -> Iterable[Found]:
        """Return at most k documents, best first."""
        ...


class BatchRetriever(Protocol):
    """Finds documents for all queries at once."""

    def batch_retrieve(self, queries: Sequence[str], k: int) -> Iterable[Iterable[Found]]:
        """Return at most k documents for each query, best first."""
        ...


RetrieverFunction = (
    Callable[[str, int], Iterable[Found]]
    | Callable[[str, int], Awaitable[Iterable[Found]]]
    | Callable[[Sequence[str], int], Iterable[Iterable[Found]]]
    | Callable[[Sequence[str], int], Awaitable[Iterable[Iterable[Found]]]]
)
"""A retriever that is a function of a query and k, or, if its first parameter is called `queries`,
of all queries at once and k; either may be a coroutine function."""


_ADAPTERS = {
    "langchain_core": "langchain.LangChainRetriever",
    "llama_index": "llama_index.LlamaIndexRetriever",
    "haystack": "haystack.HaystackRetriever",
    "chromadb": "chroma.ChromaRetriever",
    "bm25s": "bm25s.Bm25sRetriever",
    "pyterrier": "pyterrier.PyTerrierRetriever",
    "pymilvus": "milvus.MilvusRetriever",
    "weaviate": "weaviate.WeaviateRetriever",
    "qdrant_client": "qdrant.QdrantRetriever",
    "lancedb": "lancedb.LanceRetriever",
}
"""What wraps retrievers of other libraries, by the package of their classes."""


def function_of(retriever: object) -> Callable[..., Any]:
    """Return what is called with queries and k: a method of the retriever, or the retriever itself.

    Raises WrongType for what is none.
    """
    for kind in type(retriever).__mro__:
        wrapper = _ADAPTERS.get(kind.__module__.partition(".")[0])
        if wrapper is not None:
            module, _, name = wrapper.partition(".")
            rule = (
                f"is a {type(retriever).__name__} of {kind.__module__.partition('.')[0]}, which "
                f"takes no k; wrap it: from judged.adapters.retrievers.{module} import {name}"
            )
            raise WrongType.of_field("retriever", rule)
    batch: object = getattr(retriever, "batch_retrieve", None)
    method: object = batch if callable(batch) else getattr(retriever, "retrieve", retriever)
    if not callable(method):
        rule = (
            f"must have a method retrieve(query, k) or batch_retrieve(queries, k), or be such a "
            f"function, not {type(retriever).__name__}"
        )
        raise WrongType.of_field("retriever", rule)
    try:
        inspect.signature(method).bind("query", 1)
    except ValueError:  # some callables of extensions have no signature
        pass
    except TypeError as error:
        rule = f"must take a query and k, as in def find(query, k), but {error}"
        raise WrongType.of_field("retriever", rule) from None
    return method


def takes_all(function: Callable[..., object]) -> bool:
    """Return whether a function takes all queries at once: as its first parameter, `queries`."""
    if getattr(function, "__name__", "") == "batch_retrieve":
        return True
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # some callables of extensions have no signature
        return False
    return names[:1] == ["queries"]


def as_retrieved(value: object, field: str) -> Retrieved:
    """Return one retrieved document. Raises WrongType for what is none; `field` names its place."""
    if isinstance(value, Retrieved):
        return value
    if isinstance(value, str):
        return Retrieved(text=value)
    if not isinstance(value, Mapping):
        rule = (
            "must be a text, a Retrieved(doc_id, score, text) or a mapping with doc_id, text and "
            f"score, not {type(value).__name__}"
        )
        raise WrongType.of_field(field, rule)
    inner = value.get("metadata")
    text = value.get("text")
    if text is None and isinstance(inner, Mapping):
        text = inner.get("text")
    doc_id = value.get("doc_id", value.get("id"))
    if text is None and doc_id is None:
        has = ", ".join(str(name)[:40] for name in list(value)[:8]) or "nothing"
        rule = f"has neither a doc_id nor a text, but {has}; name them doc_id, text and score"
        raise InvalidArgument.of_field(field, rule)
    try:
        return Retrieved(doc_id, value.get("score"), text)
    except InvalidArgument as error:
        rule = error.message.removeprefix(f"{error.field}: ")
        raise type(error).of_field(f"{field}.{error.field}", rule) from None
