"""Asks a retriever about all queries, and keeps what it found, what failed and what to mind."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from numbers import Integral
from typing import Any, TypeVar

from judged._inputs import WrongType, need_list
from judged.errors import InvalidArgument
from judged.evaluation.datasets.dataset import Query
from judged.evaluation.datasets.results import Retrieved, need_results
from judged.evaluation.retriever import Retriever, RetrieverFunction, function_of, takes_all
from judged.evaluation.systems.system import is_async

CONCURRENCY = 4
"""Queries that a coroutine function is asked at once, as systems are."""

Result = TypeVar("Result")
_CUTOFF = re.compile(r"@(\d+)$")


@dataclass(slots=True)
class Retrieval:
    """What a retriever found by query id, best first, and the failures of the other queries."""

    k: int
    results: dict[str, Sequence[Retrieved]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    first_failure: Exception | None = None
    cut: int = 0

    def take(self, query: Query, ranked: object) -> None:
        """Keep the first k documents of a query; what can't be read is a failure."""
        try:
            found = self._read(ranked)
        except Exception as error:  # noqa: BLE001 - an iterator runs the retriever's own code
            self.fail(query, error)
            return
        self.cut += len(found) > self.k
        self.results[query.query_id] = found[: self.k]

    def _read(self, ranked: object) -> Sequence[Retrieved]:
        """Return the first documents, one more than k at most of those that are drawn."""
        if isinstance(ranked, Coroutine):
            ranked.close()
            raise TypeError("the retriever returned a coroutine; make it an `async def`")
        if isinstance(ranked, Iterator):
            ranked = list(islice(ranked, self.k + 1))
        return need_results(ranked, "results")

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
        for name in metrics:
            cutoff = _CUTOFF.search(name)
            if cutoff is not None and int(cutoff[1]) > self.k:
                told.append(
                    f"{name} is deeper than k = {self.k}, and nothing below rank {self.k} was "
                    f"asked for; evaluate with k={cutoff[1]} or name a metric @{self.k}"
                )
        return told


def retrieve_all(
    retriever: Retriever | RetrieverFunction, queries: Sequence[Query], k: int
) -> Retrieval:
    """Return what a retriever finds for queries. Raises its first failure if it never succeeds."""
    if isinstance(k, bool) or not isinstance(k, Integral):
        raise WrongType.of_field("k", f"must be a whole number, not {type(k).__name__}")
    if k < 1:
        raise InvalidArgument.of_field("k", "must be 1 or more")
    function, found = function_of(retriever), Retrieval(int(k))
    if takes_all(function):
        _ask_for_all(function, queries, found)
    elif is_async(function):
        _run(_ask_each(function, queries, found))
    else:
        for query in queries:
            try:
                ranked = function(query.text, found.k)
            except Exception as error:  # noqa: BLE001 - it is that query's failure
                found.fail(query, error)
            else:
                found.take(query, ranked)
    if found.first_failure is not None and not found.results:
        raise found.first_failure
    return found


def _ask_for_all(function: Callable[..., Any], queries: Sequence[Query], found: Retrieval) -> None:
    said = function([query.text for query in queries], found.k)
    if is_async(function):
        said = _run(said)
    rankings = need_list(said, "results", "lists of results, one a query")
    if len(rankings) != len(queries):
        rule = f"holds {len(rankings)} lists for {len(queries)} queries; return one a query"
        raise InvalidArgument.of_field("results", rule)
    for query, ranked in zip(queries, rankings, strict=True):
        found.take(query, ranked)


async def _ask_each(
    function: Callable[..., Any], queries: Sequence[Query], found: Retrieval
) -> None:
    waiting = iter(queries)

    async def work() -> None:
        for query in waiting:
            try:
                ranked = await function(query.text, found.k)
            except Exception as error:  # noqa: BLE001 - it is that query's failure
                found.fail(query, error)
            else:
                found.take(query, ranked)

    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of a coroutine, also where the caller is on an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, work).result()
