"""What a retriever is, and what it finds for all queries."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

from judged._batching.judging import Progress
from judged._inputs import need_list, refuse_set
from judged.errors import InvalidArgument, WrongType
from judged.evaluation.asking import Asked, ResumeFile, ask_each, is_async
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
    Callable[[str, int], Iterable[Found]] | Callable[[str, int], Awaitable[Iterable[Found]]]
)
"""A retriever that is a function of a query and k; it may be a coroutine function."""

Source = Retriever | BatchRetriever | RetrieverFunction | Mapping[str, Iterable[Found]]
"""A retriever, or the results of one by query id."""
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
    return method, method is batch


def _as_retrieved(value: object, field: str) -> Retrieved:
    """Return one retrieved document. Raises WrongType for what is none; `field` names its place."""
    if isinstance(value, Retrieved):
        return value
    if isinstance(value, str):
        return Retrieved(text=value)
    given: Mapping[Any, Any] = value if isinstance(value, Mapping) else {}
    inner, text = given.get("metadata"), given.get("text")
    if text is None and isinstance(inner, Mapping):
        text = inner.get("text")
    doc_id = given.get("doc_id", given.get("id"))
    if text is None and doc_id is None:
        has = ", ".join(str(name)[:40] for name in list(given)[:8])
        what = f"one with {has}" if has else f"{type(value).__name__}"
        rule = "must be a text, a Retrieved(doc_id, score, text) or a mapping with doc_id, text and"
        raise WrongType.of_field(field, f"{rule} score, not {what}")
    try:
        return Retrieved(doc_id, given.get("score"), text)
    except InvalidArgument as error:
        raise error.below(field) from None


def read_ranking(ranked: object, field: str) -> list[Retrieved]:
    """Return the results of a query. Raises WrongType for what is none; `field` names its place."""
    refuse_set(ranked, field)
    listed = need_list(ranked, field, "texts or Retrieved(doc_id, score, text)")
    return [_as_retrieved(value, f"{field}[{rank}]") for rank, value in enumerate(listed)]


@dataclass(slots=True)
class Retrieval:
    """What a retriever found by query id, best first, and the failures of the other queries."""

    k: int
    results: dict[str, Sequence[Retrieved]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def warnings(self, metrics: Sequence[str]) -> Iterator[str]:
        """Yield what the reader of the metrics should know."""
        n, k = len(self.results), self.k
        if self.failures:
            query_id, failure = next(iter(self.failures.items()))
            yield (
                f"{len(self.failures)} of {len(self.failures) + n} queries left out: the retriever "
                f"failed, first on {query_id!r}: {failure}"
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
    log: ResumeFile[Query] | None = None,
    progress: Progress | None = None,
) -> Retrieval:
    """Return what a retriever finds for queries. Raises its first failure if it never succeeds.

    What the log knows is not asked again. `concurrency` is how many queries are asked at once, by
    default one on this thread, of a coroutine function four.
    """
    function, at_once = function_of(retriever)
    found, log = Retrieval(k), log or ResumeFile(None, {})

    def read(ranked: object, query: Query) -> Sequence[Retrieved]:
        return _read(ranked, k, f"results[{query.query_id!r}]")

    asked: Asked[Query] = Asked(lambda query: function(query.text, k), read, is_async(function))
    if at_once and (left := [query for query in queries if query.query_id not in log.known]):
        whole: Asked[Any] = Asked(lambda texts: function(texts, k), _rankings, asked.awaited)
        [outcome] = ask_each(whole, [[query.text for query in left]], None)
        if outcome.failure is not None:
            raise outcome.failure
        rankings = dict(zip([query.query_id for query in left], outcome.result, strict=True))
        asked = Asked(lambda query: rankings[query.query_id], read, awaited=False)
    first: BaseException | None = None
    failures: dict[str, str] = {}
    for outcome in log.outcomes(queries, asked, concurrency):
        name = outcome.item.query_id
        if outcome.told is None:
            found.results[name] = outcome.result[:k]
        else:
            first, failures[name] = first or outcome.failure, outcome.told
        if progress is not None and not outcome.resumed:
            progress(len(found.results) + len(failures), len(queries))
    if first is not None and not found.results:
        raise first
    # Answers come in any order; what is made of them should not depend on it.
    names = (query.query_id for query in queries)
    found.failures = {name: failures[name] for name in names if name in failures}
    return found


def _rankings(ranked: Iterable[object], queries: Sequence[str]) -> Sequence[object]:
    """Return the rankings of queries that were asked at once."""
    rankings = list(ranked)
    if len(rankings) != len(queries):
        rule = f"holds {len(rankings)} lists for {len(queries)} queries; return one a query"
        raise InvalidArgument.of_field("results", rule)
    return rankings


def _read(ranked: Any, k: int, field: str) -> Sequence[Retrieved]:  # noqa: ANN401 - whatever the retriever returns
    """Return the documents of a query, of those that are drawn the first k."""
    if ranked is None or isinstance(ranked, Coroutine):
        rule = "the retriever returned None for this query; return [] where it finds nothing"
        if ranked is not None:
            ranked.close()
            rule = "the retriever returned a coroutine; make it an `async def`"
        raise WrongType.of_field(field, rule)
    return read_ranking(islice(ranked, k) if isinstance(ranked, Iterator) else ranked, field)
