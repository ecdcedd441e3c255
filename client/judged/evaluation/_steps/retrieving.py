"""Asks a retriever about all queries, and keeps what it found, what failed and what to mind."""

from __future__ import annotations

import asyncio
import re
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from numbers import Integral
from typing import Any, TypeVar

from judged._inputs import need_list, refuse_set
from judged.errors import InvalidArgument, WrongType
from judged.evaluation.datasets.query import Query
from judged.evaluation.datasets.results import Retrieved
from judged.evaluation.retriever import as_retrieved, function_of, takes_all
from judged.evaluation.system import is_async

CONCURRENCY = 4
"""Queries that a coroutine function is asked at once, as systems are."""

Result = TypeVar("Result")
Kept = Callable[[Query, Sequence[Retrieved]], object]
"""Is told what was found for a query."""
_Called = tuple[object, Exception | None]
"""What a retriever returned for a query, or what it raised instead."""
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
        refuse_set(ranked, field)
        listed = need_list(ranked, field, "texts or Retrieved(doc_id, score, text)")
        return [as_retrieved(value, f"{field}[{rank}]") for rank, value in enumerate(listed)]

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
            cutoff = _CUTOFF.search(name)
            if cutoff is not None and int(cutoff[1]) > self.k:
                told.append(
                    f"{name} is deeper than k = {self.k}, and nothing below rank {self.k} was "
                    f"asked for; evaluate with k={cutoff[1]} or name a metric @{self.k}"
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


def deepest_cutoff(metrics: Sequence[str]) -> int | None:
    """Return the largest cutoff of metrics, as in ndcg@10; None where one has no cutoff."""
    cutoffs = [_CUTOFF.search(name) for name in metrics]
    found = [int(cutoff[1]) for cutoff in cutoffs if cutoff is not None]
    return max(found) if found and len(found) == len(cutoffs) else None


def checked_count(count: object, field: str) -> int:
    """Return a number of documents or queries. Raises WrongType and InvalidArgument."""
    if isinstance(count, bool) or not isinstance(count, Integral):
        raise WrongType.of_field(field, f"must be a whole number, not {type(count).__name__}")
    if count < 1:
        raise InvalidArgument.of_field(field, "must be 1 or more")
    return int(count)


def retrieve_all(
    retriever: object,
    queries: Sequence[Query],
    k: int,
    *,
    concurrency: int | None = None,
    known: Mapping[str, Sequence[Retrieved]] | None = None,
    kept: Kept | None = None,
    progress: Callable[[int, int], object] | None = None,
    stopped: threading.Event | None = None,
) -> Retrieval:
    """Return what a retriever finds for queries. Raises its first failure if it never succeeds.

    What is `known` by query id is not asked again. `concurrency` is how many queries are asked at
    once, by default one on this thread, of a coroutine function four. Once it is `stopped`, no more
    queries are asked, and what is under way is let go.
    """
    function, found = function_of(retriever), Retrieval(checked_count(k, "k"), kept=kept)
    known = known or {}
    for query in queries:
        if query.query_id in known:
            found.have(query, known[query.query_id])
    left = [query for query in queries if query.query_id not in known]
    asked = _Asked(function, found, len(queries), progress, stopped or threading.Event())
    if not left:
        pass
    elif takes_all(function):
        asked.all_at_once(left)
    elif is_async(function):
        _run(asked.each_awaited(left, concurrency or CONCURRENCY))
    elif concurrency is None or concurrency == 1:
        asked.one_by_one(left)
    else:
        asked.on_threads(left, concurrency)
    if found.first_failure is not None and not found.results:
        raise found.first_failure
    # Answers come in any order; what is made of them should not depend on it.
    places = {query.query_id: place for place, query in enumerate(queries)}
    found.failures = dict(sorted(found.failures.items(), key=lambda item: places[item[0]]))
    return found


@dataclass(slots=True)
class _Asked:
    """The asking of one retriever; outcomes are taken on one thread."""

    function: Callable[..., Any]
    found: Retrieval
    total: int
    progress: Callable[[int, int], object] | None
    stopped: threading.Event

    def one_by_one(self, queries: Sequence[Query]) -> None:
        for query in queries:
            if self.stopped.is_set():
                break
            self._take(query, *self._call(query))

    def _call(self, query: Query) -> _Called:
        try:
            ranked = self.function(query.text, self.found.k)
            if isinstance(ranked, Iterator):  # what it draws is the retriever's work
                ranked = list(islice(ranked, self.found.k + 1))
        except Exception as error:  # noqa: BLE001 - it is that query's failure
            return None, error
        return ranked, None

    def _take(self, query: Query, ranked: object, error: Exception | None) -> None:
        if self.stopped.is_set():
            return
        if error is not None:
            self.found.fail(query, error)
        else:
            self.found.take(query, ranked)
        if self.progress is not None:
            self.progress(len(self.found.results) + len(self.found.failures), self.total)

    def on_threads(self, queries: Sequence[Query], concurrency: int) -> None:
        asked: list[tuple[Query, Future[_Called]]] = [(query, Future()) for query in queries]
        waiting = deque(asked)

        def work() -> None:
            with suppress(IndexError):  # none is left
                while True:
                    query, future = waiting.popleft()
                    if self.stopped.is_set():
                        future.cancel()
                        continue
                    try:
                        future.set_result(self._call(query))
                    except BaseException as error:  # noqa: BLE001 - raised again where it is taken
                        future.set_exception(error)

        for _ in range(min(concurrency, len(asked))):
            # Daemons: a retriever that hangs must not keep the interpreter from ending.
            threading.Thread(target=work, daemon=True, name="judged-retrieving").start()
        try:
            for query, future in asked:
                self._take(query, *future.result())
        except CancelledError:
            pass  # it was stopped
        finally:
            waiting.clear()  # who leaves early wants no more

    async def each_awaited(self, queries: Sequence[Query], concurrency: int) -> None:
        waiting = iter(queries)

        async def work() -> None:
            for query in waiting:
                if self.stopped.is_set():
                    break
                try:
                    ranked = await self.function(query.text, self.found.k)
                except Exception as error:  # noqa: BLE001 - it is that query's failure
                    self._take(query, None, error)
                else:
                    self._take(query, ranked, None)

        await asyncio.gather(*(work() for _ in range(concurrency)))

    def all_at_once(self, queries: Sequence[Query]) -> None:
        said = self.function([query.text for query in queries], self.found.k)
        if is_async(self.function):
            said = _run(said)
        rankings = need_list(said, "results", "lists of results, one a query")
        if len(rankings) != len(queries):
            rule = f"holds {len(rankings)} lists for {len(queries)} queries; return one a query"
            raise InvalidArgument.of_field("results", rule)
        for query, ranked in zip(queries, rankings, strict=True):
            self._take(query, ranked, None)


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of a coroutine, also where the caller is on an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, work).result()
