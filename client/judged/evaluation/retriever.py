"""What a retriever is, and what it finds for all queries."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

from judged._inputs import need_list, refuse_set
from judged.errors import InvalidArgument, WrongType
from judged.evaluation.asking import Asker, Outcome
from judged.evaluation.datasets.query import Query
from judged.evaluation.datasets.results import Retrieved
from judged.evaluation.system import is_async

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


def read_ranking(ranked: object, field: str) -> list[Retrieved]:
    """Return the results of a query. Raises WrongType for what is none; `field` names its place."""
    refuse_set(ranked, field)
    listed = need_list(ranked, field, "texts or Retrieved(doc_id, score, text)")
    return [as_retrieved(value, f"{field}[{rank}]") for rank, value in enumerate(listed)]


CONCURRENCY = 4
"""Queries that a coroutine function is asked at once, as systems are."""

Kept = Callable[[Query, Sequence[Retrieved]], object]
"""Is told what was found for a query."""
_CUTOFF = re.compile(r"@(\d+)$")


@dataclass(slots=True)
class Retrieval:
    """What a retriever found by query id, best first, and the failures of the other queries."""

    k: int
    results: dict[str, Sequence[Retrieved]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    first_failure: Exception | None = None
    cut: int = 0
    kept: Kept | None = None

    def take(self, query: Query, ranked: object) -> None:
        """Keep the first k documents of a query; what can't be read is a failure."""
        try:
            found = self._read(ranked, f"results[{query.query_id!r}]")
        except Exception as error:  # noqa: BLE001 - an iterator runs the retriever's own code
            self.fail(query, error)
            return
        if self.kept is not None:
            self.kept(query, found)
        self.have(query, found)

    def have(self, query: Query, found: Sequence[Retrieved]) -> None:
        """Keep what was found for a query, now or by an earlier run."""
        self.cut += len(found) > self.k
        self.results[query.query_id] = found[: self.k]

    def _read(self, ranked: object, field: str) -> Sequence[Retrieved]:
        """Return the first documents, one more than k at most of those that are drawn."""
        if isinstance(ranked, Coroutine):
            ranked.close()
            rule = "the retriever returned a coroutine; make it an `async def`"
            raise WrongType.of_field(field, rule)
        if ranked is None:
            rule = "the retriever returned None for this query; return [] where it finds nothing"
            raise WrongType.of_field(field, rule)
        if isinstance(ranked, Iterator):
            ranked = list(islice(ranked, self.k + 1))
        return read_ranking(ranked, field)

    def fail(self, query: Query, error: Exception) -> None:
        """Note the failure of a query."""
        self.first_failure = self.first_failure or error
        self.failures[query.query_id] = f"{type(error).__name__}: {error}"

    def warnings(self, metrics: Sequence[str]) -> list[str]:
        """Return what the reader of the metrics should know."""
        told = []
        if self.failures:
            query_id, failure = next(iter(self.failures.items()))
            n, total = len(self.failures), len(self.failures) + len(self.results)
            told.append(
                f"{n} of {total} queries left out: the retriever failed, first on {query_id!r}: "
                f"{failure}"
            )
        if self.cut:
            told.append(
                f"the retriever returned more than k = {self.k} documents for {self.cut} of "
                f"{len(self.results)} queries; those below rank {self.k} are left out"
            )
        told += self._too_few()
        for name in metrics:
            if (cutoff := cutoff_of(name) or 0) > self.k:
                told.append(
                    f"{name} is deeper than k = {self.k}, and nothing below rank {self.k} was "
                    f"asked for; evaluate with k={cutoff} or name a metric @{self.k}"
                )
        return told

    def _too_few(self) -> Iterator[str]:
        """Yield what to mind where no query has k documents; the reason is not in the queries."""
        lengths = [len(found) for found in self.results.values()]
        most = max(lengths, default=self.k)
        if most >= self.k:
            return
        n = f"each of {len(lengths)} queries" if len(lengths) > 1 else "the one query"
        if most == 0:
            yield f"the retriever returned nothing for {n}; is its index empty?"
            return
        some = f"{most}" if min(lengths) == most else f"{min(lengths)} to {most}"
        yield (
            f"the retriever returned fewer than k = {self.k} documents for {n}: {some}; raise a "
            f"limit of its own (top_k, say), or name metrics @{most} if there are no more"
        )


def cutoff_of(metric: str) -> int | None:
    """Return the cutoff of a metric, 10 of ndcg@10; None without one."""
    found = _CUTOFF.search(metric)
    return None if found is None else int(found[1])


def retrieve_all(
    retriever: object,
    queries: Sequence[Query],
    k: int,
    *,
    concurrency: int | None = None,
    known: Mapping[str, Sequence[Retrieved]] | None = None,
    kept: Kept | None = None,
    progress: Callable[[int, int], object] | None = None,
    asker: Asker[Any] | None = None,
) -> Retrieval:
    """Return what a retriever finds for queries. Raises its first failure if it never succeeds.

    What is `known` by query id is not asked again. `concurrency` is how many queries are asked at
    once, by default one on this thread, of a coroutine function four. Once the `asker` is stopped,
    no more queries are asked, and what is under way is let go.
    """
    function, found = function_of(retriever), Retrieval(k, kept=kept)
    asker, known = asker or Asker(), known or {}
    for query in queries:
        if query.query_id in known:
            found.have(query, known[query.query_id])
    left = [query for query in queries if query.query_id not in known]
    for outcome in _outcomes(function, left, k, concurrency, asker):
        if asker.stopped:
            break
        if outcome.failure is None:
            found.take(outcome.item, outcome.result)
        elif isinstance(outcome.failure, Exception):
            found.fail(outcome.item, outcome.failure)
        else:
            raise outcome.failure
        if progress is not None:
            progress(len(found.results) + len(found.failures), len(queries))
    if found.first_failure is not None and not found.results:
        raise found.first_failure
    # Answers come in any order; what is made of them should not depend on it.
    names = (query.query_id for query in queries)
    found.failures = {name: found.failures[name] for name in names if name in found.failures}
    return found


def _outcomes(
    function: Callable[..., Any],
    queries: Sequence[Query],
    k: int,
    concurrency: int | None,
    asker: Asker[Any],
) -> Iterable[Outcome[Query]]:
    """Return what was returned for each query, or raised instead."""
    awaited = is_async(function)
    if not takes_all(function):

        def ask(query: Query) -> Any:  # noqa: ANN401 - whatever the retriever returns
            ranked = function(query.text, k)
            # What an iterator draws is the retriever's work.
            return list(islice(ranked, k + 1)) if isinstance(ranked, Iterator) else ranked

        at_once = (concurrency or CONCURRENCY) if awaited else concurrency
        at_once = None if at_once == 1 and not awaited else at_once
        return asker.outcomes(ask, queries, at_once, awaited=awaited)
    texts = [query.text for query in queries]
    everything = [texts] if texts else []
    asked = asker.outcomes(lambda all_: function(all_, k), everything, None, awaited=awaited)
    if (whole := next(asked, None)) is None:
        return ()
    if whole.failure is not None:
        raise whole.failure
    rankings = need_list(whole.result, "results", "lists of results, one a query")
    if len(rankings) != len(queries):
        rule = f"holds {len(rankings)} lists for {len(queries)} queries; return one a query"
        raise InvalidArgument.of_field("results", rule)
    pairs = zip(queries, rankings, strict=True)
    return [Outcome(query, ranked, None, 0.0) for query, ranked in pairs]
