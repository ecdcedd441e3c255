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
from judged.evaluation.asking import Asker, Outcome, is_async
from judged.evaluation.datasets.query import Query
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

_CUTOFF = re.compile(r"@(\d+)$")


def function_of(retriever: object) -> tuple[Callable[..., Any], bool]:
    """Return what is called with queries and k, and whether it takes all queries at once.

    It is a method of the retriever, or the retriever itself. Raises WrongType for what is none.
    """
    batch: object = getattr(retriever, "batch_retrieve", None)
    method: object = batch if callable(batch) else getattr(retriever, "retrieve", retriever)
    if not callable(method):
        rule = (
            "must have a method retrieve(query, k) or batch_retrieve(queries, k), or be such a "
            f"function, not {type(retriever).__name__}; judged.adapters.retrievers wraps those of "
            "other libraries"
        )
        raise WrongType.of_field("retriever", rule)
    try:
        signature = inspect.signature(method)
        signature.bind("query", 1)
    except ValueError:  # some callables of extensions have no signature
        return method, method is batch
    except TypeError as error:
        rule = f"must take a query and k, as in def find(query, k), but {error}"
        raise WrongType.of_field("retriever", rule) from None
    named = getattr(method, "__name__", "") == "batch_retrieve"
    return method, named or next(iter(signature.parameters)) == "queries"


def _as_retrieved(value: object, field: str) -> Retrieved:
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
    inner, text = value.get("metadata"), value.get("text")
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
        raise error.below(field) from None


def read_ranking(ranked: object, field: str) -> list[Retrieved]:
    """Return the results of a query. Raises WrongType for what is none; `field` names its place."""
    refuse_set(ranked, field)
    listed = need_list(ranked, field, "texts or Retrieved(doc_id, score, text)")
    return [_as_retrieved(value, f"{field}[{rank}]") for rank, value in enumerate(listed)]


@dataclass(slots=True)
class Retrieval:
    """What a retriever found by query id, best first, and the failures of the other queries.

    `kept` is told what was found for a query.
    """

    k: int
    results: dict[str, Sequence[Retrieved]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    first_failure: Exception | None = None
    cut: int = 0
    kept: Callable[[Query, Sequence[Retrieved]], object] | None = None

    def take(self, outcome: Outcome[Query]) -> None:
        """Keep the first k documents of a query; what can't be read is a failure."""
        query, failure = outcome.item, outcome.failure
        if failure is None:
            try:
                found = self._read(outcome.result, f"results[{query.query_id!r}]")
            except Exception as error:  # noqa: BLE001 - an iterator runs the retriever's own code
                failure = error
        if failure is None:
            if self.kept is not None:
                self.kept(query, found)
            self.have(query, found)
        elif isinstance(failure, Exception):
            self.first_failure = self.first_failure or failure
            self.failures[query.query_id] = f"{type(failure).__name__}: {failure}"
        else:
            raise failure

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
        return read_ranking(_drawn(ranked, self.k), field)

    def warnings(self, metrics: Sequence[str]) -> Iterator[str]:
        """Yield what the reader of the metrics should know."""
        n, k = len(self.results), self.k
        if self.failures:
            query_id, failure = next(iter(self.failures.items()))
            yield (
                f"{len(self.failures)} of {len(self.failures) + n} queries left out: the retriever "
                f"failed, first on {query_id!r}: {failure}"
            )
        if self.cut:
            yield (
                f"the retriever returned more than k = {k} documents for {self.cut} of {n} "
                f"queries; those below rank {k} are left out"
            )
        most = max(map(len, self.results.values()), default=k)
        if most == 0:
            yield "the retriever returned nothing for any query; is its index empty?"
        elif most < k:
            yield (
                f"the retriever returned fewer than k = {k} documents for every query, at most "
                f"{most}; raise a limit of its own (top_k, say), or name metrics @{most} if there "
                "are no more"
            )
        for name in metrics:
            if (cutoff := cutoff_of(name) or 0) > k:
                yield (
                    f"{name} is deeper than k = {k}, and nothing below rank {k} was asked for; "
                    f"evaluate with k={cutoff} or name a metric @{k}"
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
    kept: Callable[[Query, Sequence[Retrieved]], object] | None = None,
    progress: Callable[[int, int], object] | None = None,
    asker: Asker[Any] | None = None,
) -> Retrieval:
    """Return what a retriever finds for queries. Raises its first failure if it never succeeds.

    What is `known` by query id is not asked again. `concurrency` is how many queries are asked at
    once, by default one on this thread, of a coroutine function four. Once the `asker` is stopped,
    no more queries are asked, and what is under way is let go.
    """
    function, at_once = function_of(retriever)
    found, asker, known = Retrieval(k, kept=kept), asker or Asker(), known or {}
    for query in queries:
        if query.query_id in known:
            found.have(query, known[query.query_id])
    left = [query for query in queries if query.query_id not in known]

    def ask(asked: Query | Sequence[Query]) -> Any:  # noqa: ANN401 - whatever the retriever returns
        if isinstance(asked, Query):
            # What an iterator draws is the retriever's work.
            return _drawn(function(asked.text, k), k)
        return function([query.text for query in asked], k)

    items = [left] if at_once and left else left
    for outcome in asker.outcomes(ask, items, concurrency, awaited=is_async(function)):
        if asker.stopped:
            break
        for each in _each_of(outcome) if at_once else [outcome]:
            found.take(each)
            if progress is not None:
                progress(len(found.results) + len(found.failures), len(queries))
    if found.first_failure is not None and not found.results:
        raise found.first_failure
    # Answers come in any order; what is made of them should not depend on it.
    names = (query.query_id for query in queries)
    found.failures = {name: found.failures[name] for name in names if name in found.failures}
    return found


def _drawn(ranked: Any, k: int) -> Any:  # noqa: ANN401 - whatever the retriever returns
    return list(islice(ranked, k + 1)) if isinstance(ranked, Iterator) else ranked


def _each_of(whole: Outcome[Sequence[Query]]) -> Iterator[Outcome[Query]]:
    """Yield the outcome of each query where all were asked at once."""
    if whole.failure is not None:
        raise whole.failure
    rankings = need_list(whole.result, "results", "lists of results, one a query")
    if len(rankings) != len(whole.item):
        rule = f"holds {len(rankings)} lists for {len(whole.item)} queries; return one a query"
        raise InvalidArgument.of_field("results", rule)
    for query, ranked in zip(whole.item, rankings, strict=True):
        yield Outcome(query, ranked, None, 0.0)
