"""Asks retrievers and systems about each query once; a resume file keeps earlier results.

Models prefer answers of their own kind (Panickssery, Bowman, Feng (2024), "LLM evaluators recognize
and favor their own generations", arXiv 2404.13076). A model's family is the letters that its name
begins with, after the last "/" and after a vendor with a ".": `gpt`, `claude`, `qwen`.

Failures are not written to the file, so that they are tried again.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import os
import queue
import re
import threading
import time
import uuid
import warnings
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import closing, contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from judged._files import FileError, Record, read_bytes, writing
from judged._inputs import need_list, refuse_set
from judged._transport.primitives import async_on_thread
from judged.errors import InvalidArgument, WrongType
from judged.evaluation.datasets.query import Query, Retrieved, order_warnings, scores_fall
from judged.values import ChatModelInfo, Judge, Rubric, ServerInfo, to_judge


class CircularJudging(UserWarning):
    """A judge's model is of the same family as the system's: models favour their own kind."""

    __module__ = "judged.evaluation"


def judging_models(info: ServerInfo, judges: Iterable[Judge | Rubric]) -> Iterator[ChatModelInfo]:
    """Yield the models that judges (with the members of panels) or rubrics ask."""
    for judge in judges:
        kind = "answers" if isinstance(judge, Rubric) else judge.kind or info.default_judge
        if kind in {"llm", "answers"}:
            named = judge.parameters.get("model")
            for model in info.chat_models:
                if model.name == named if named else model.is_default:
                    yield model
        members: Any = () if isinstance(judge, Rubric) else judge.members
        yield from judging_models(info, (member.judge for member in members))


def check_circular(
    info: ServerInfo,
    judge: Judge | str | None,
    system_models: str | Iterable[str],
) -> None:
    """Warn with CircularJudging if a judge asks a model of the system's family.

    `info` is the result of `Client.server_info`; `system_models` are the names of the language
    models that made the texts. None is the server's default judge. Evaluations call this
    themselves; `warnings.simplefilter("error", CircularJudging)` turns the warning into an error.
    """
    warn_circular(system_models, judging_models(info, [to_judge(judge or "")]))


def warn_circular(systems: str | Iterable[str], models: Iterable[ChatModelInfo]) -> None:
    """Warn about each pair of a system's model and a judging model of one family."""
    judges = list(dict.fromkeys(model.model for model in models))
    for system in models_of(None, systems):
        family = family_of(system)
        for judge in judges:
            if family and family == family_of(judge):
                warning = (
                    f"the judge's model {judge} is of the family {family!r}, as is that of the "
                    f"system, {system}: models favour answers of their own kind; judge with a "
                    "model of another family"
                )
                warnings.warn(warning, CircularJudging, stacklevel=4)


def models_of(source: object, named: str | Iterable[str] = ()) -> list[str]:
    """Return the models of a system: those in `named`, and those that it names itself.

    It names them in an attribute `system_models`, as Results do, or `system_model`.
    """
    own = getattr(source, "system_models", ()) or getattr(source, "system_model", ())
    lists = ([each] if isinstance(each, str) else each for each in (named, own))
    return list(dict.fromkeys(str(name) for names in lists for name in names))


_STEM = re.compile(r"(?:^|\.)([a-z]+)")


def family_of(model: str) -> str:
    """Return the family of a model by its name; "" for a name that begins without letters."""
    found = _STEM.findall(model.lower().rpartition("/")[2])
    return found[-1] if found else ""


Item = TypeVar("Item")
CONCURRENCY = 4
"""The default number of concurrent calls of a coroutine function."""


@dataclass(slots=True)
class Outcome(Generic[Item]):
    """The result of a function for an item, or its exception, and the seconds that it took.

    `resumed` is True for a result of an earlier run.
    """

    item: Item
    result: Any = None
    failure: BaseException | None = None
    seconds: float = 0.0
    resumed: bool = False

    @property
    def failure_text(self) -> str | None:
        """The failure as text; None without one."""
        return None if self.failure is None else f"{type(self.failure).__name__}: {self.failure}"

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Record an exception of the body as the failure, and the time that the body took."""
        started = time.monotonic()
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - the caller raises it again
            self.failure = error
        self.seconds = time.monotonic() - started


@dataclass(frozen=True, slots=True)
class Asked(Generic[Item]):
    """A function to call with an item, the reader of its results, and whether to await it."""

    function: Callable[[Item], Any]
    read: Callable[[Any, Item], Any]
    awaited: bool

    def outcome(self, item: Item) -> Outcome[Item]:
        """Call the function for an item and return the outcome."""
        outcome = Outcome(item)
        with outcome.timed():
            outcome.result = self.read(self.function(item), item)
        return outcome

    async def outcome_async(self, item: Item) -> Outcome[Item]:
        """Call or await the function and return the outcome; a plain function runs on a thread."""
        if not self.awaited:
            return await async_on_thread(partial(self.outcome, item))
        outcome = Outcome(item)
        with outcome.timed():
            outcome.result = self.read(await self.function(item), item)
        return outcome


def ask_each(
    asked: Asked[Item], items: Sequence[Item], concurrency: int | None
) -> Generator[Outcome[Item], None, None]:
    """Yield the outcome of each item as it arrives, with at most `concurrency` calls at once.

    The default is one at a time on this thread, to which the function may be bound, or four at a
    time on a separate event loop for coroutine functions. Closing the generator stops new calls.
    """
    if (concurrency or 1) == 1 and not asked.awaited:
        yield from map(asked.outcome, items)
        return
    done: queue.SimpleQueue[Outcome[Item]] = queue.SimpleQueue()
    waiting, stopped = iter(items), threading.Event()

    async def work() -> None:
        for item in waiting:
            if stopped.is_set():
                return
            done.put(await asked.outcome_async(item))

    async def ask_all() -> None:
        await asyncio.gather(*(work() for _ in range(concurrency or CONCURRENCY)))

    # A daemon: a function that hangs must not keep the interpreter from exiting.
    threading.Thread(
        target=copy_context().run, args=(asyncio.run, ask_all()), daemon=True, name="judged-asking"
    ).start()
    try:
        for _ in items:
            yield done.get()
    finally:
        stopped.set()


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a stage: `done` of `total` queries retrieved, or contexts judged.

    Its text is a readable line, so that `progress=print` works.
    """

    stage: str
    done: int
    total: int
    elapsed_s: float

    @property
    def remaining_s(self) -> float | None:
        """The estimated seconds left, at the pace so far; None before anything is done."""
        return self.elapsed_s * (self.total - self.done) / self.done if self.done else None

    def __str__(self) -> str:
        left = self.remaining_s
        ahead = "" if left is None else f", {left:.0f} s left"
        return f"{self.stage} {self.done}/{self.total}{ahead}"


OnProgress = Callable[[Progress], object]


def stage(name: str, report: OnProgress | None) -> Callable[[int, int], object] | None:
    """Return a callback of (done, total) that reports a stage's Progress; None without `report`."""
    if report is None:
        return None
    started = time.monotonic()
    return lambda done, total: report(Progress(name, done, total, time.monotonic() - started))


def is_async(system: Callable[..., object]) -> bool:
    """Return whether calls of a system must be awaited."""
    call = getattr(system, "__call__", None)  # noqa: B004 - an object with an async __call__
    return inspect.iscoroutinefunction(system) or inspect.iscoroutinefunction(call)


def signature_of(system: object) -> str:
    """Return the identity of a system: its `signature` if it has one, else its name."""
    signature = getattr(system, "signature", None)
    if isinstance(signature, str):
        return signature
    kind = type(system)
    return str(getattr(system, "__qualname__", f"{kind.__module__}.{kind.__qualname__}"))


class ResumeFile(Generic[Item]):
    """A file of JSON lines that keeps results for later runs; without a path nothing is written.

    The first line describes the evaluation and has the `run` that request_ids are derived from.
    `known` has the outcomes of earlier runs by item id. Raises FileError for a file of another
    evaluation, and for one that can't be read or written.
    """

    id_field = "query_id"
    """The attribute of an item that has its id."""

    def __init__(self, path: Path | str | None, about: Mapping[str, object]) -> None:
        self.name, self._path = str(path), None if path is None else Path(path)
        head = {"format": "judged.resume", "version": 3, **about}
        self._head = json.loads(json.dumps(head))
        self.known: dict[str, Outcome[Any]] = {}
        self.run = ""
        if self._path is not None and self._path.exists():
            self._read_all(self._path)
        if not self.run:
            self.begin_run(**self._head)

    def _read_all(self, path: Path) -> None:
        lines = read_bytes(path).split(b"\n")
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                record = Record.parse(line, self.name, number)
            except FileError:
                if number < len(lines) or not line.startswith(b"{"):
                    raise
                with writing(path):  # a partial line: the run that wrote it was killed
                    os.truncate(path, path.stat().st_size - len(line))
                return
            self._read(record)
        self._add(b"\n" if lines[-1] else b"")  # raises if the file can't be written

    def _read(self, record: Record) -> None:
        if self.run and record.get("run") is None:
            self.take(record)
            return
        if not self.run and record.get("format") != self._head["format"]:
            raise record.error("is no file to resume an evaluation from; name another one")
        for name, value in ({} if self.run else self._head).items():
            if record.get(name) != value:
                raise record.error(
                    f"is of an evaluation with {name} {record.get(name)!r}, and now it is "
                    f"{value!r}; name another file, or remove this one to start again"
                )
        self.run = record.text("run")

    def take(self, record: Record) -> None:
        """Read a line of an earlier run."""
        raise NotImplementedError

    def append(self, outcome: Outcome[Item]) -> None:
        """Write the outcome of an item."""

    def outcomes(
        self, items: Sequence[Item], asked: Asked[Item], concurrency: int | None
    ) -> Iterator[Outcome[Item]]:
        """Yield the outcome of each item: first those of earlier runs, then new ones.

        New outcomes are written as they arrive. KeyboardInterrupt and the like are raised again.
        """
        left = []
        for item in items:
            if (known := self.known.get(getattr(item, self.id_field))) is None:
                left.append(item)
            else:
                yield replace(known, item=item, resumed=True)
        with closing(ask_each(asked, left, concurrency)) as outcomes:
            for outcome in outcomes:
                if outcome.failure is None:
                    self.append(outcome)
                elif not isinstance(outcome.failure, Exception | asyncio.CancelledError):
                    raise outcome.failure
                yield outcome

    def begin_run(self, **head: object) -> None:
        """Start a new run and write its line."""
        self.run = str(uuid.uuid4())
        self.write({**head, "run": self.run})

    def write(self, line: Mapping[str, object]) -> None:
        """Add a line."""
        self._add(json.dumps(line, ensure_ascii=False, default=str).encode() + b"\n")

    def _add(self, raw: bytes) -> None:
        if self._path is not None:
            with writing(self.name), self._path.open("ab") as file:
                file.write(raw)


def sha256_of(content: object) -> str:
    """Return the SHA-256 of a value as JSON, in hex."""
    text = json.dumps(content, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


Found = Retrieved | str | Mapping[str, Any]
"""One retrieved document: a Retrieved, its text, or a mapping with `doc_id` or `id`, `text` (or
`metadata.text`) and `score`."""


class Retriever(Protocol):
    """Finds documents for a query. Any object with this method will do; no base class is needed."""

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
    """Return the function to call with queries and k, and whether it takes all queries at once.

    It is a method of the retriever, or the retriever itself. Raises WrongType for other objects.
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
    """Return one retrieved document. Raises WrongType, with the path `field`, for other values."""
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
    """Return the results of a query. Raises WrongType, with the path, for other values."""
    refuse_set(ranked, field)
    listed = need_list(ranked, field, "texts or Retrieved(doc_id, score, text)")
    return [_as_retrieved(value, f"{field}[{rank}]") for rank, value in enumerate(listed)]


@dataclass(slots=True)
class Retrieval:
    """The results of a retriever by query id, best first, and the failures of other queries."""

    k: int
    results: dict[str, Sequence[Retrieved]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def warnings(self, metrics: Sequence[str]) -> Iterator[str]:
        """Yield warnings for the reader of the metrics."""
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
        rising = [query_id for query_id, of in self.results.items() if not scores_fall(of)]
        yield from order_warnings(rising, n)


def cutoff_of(metric: str) -> int | None:
    """Return the cutoff of a metric, 10 for ndcg@10; None without one."""
    found = _CUTOFF.search(metric)
    return None if found is None else int(found[1])


def retrieve_all(
    retriever: object,
    queries: Sequence[Query],
    k: int,
    *,
    concurrency: int | None = None,
    log: ResumeFile[Query] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Retrieval:
    """Return a retriever's results for queries. Raises its first failure if it never succeeds.

    Queries in the log are not asked again. See `ask_each` for `concurrency`.
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
        if outcome.failure_text is None:
            found.results[name] = outcome.result[:k]
        else:
            first, failures[name] = first or outcome.failure, outcome.failure_text
        if progress is not None and not outcome.resumed:
            progress(len(found.results) + len(failures), len(queries))
    if first is not None and not found.results:
        raise first
    # Outcomes arrive in any order; the result must not depend on it.
    names = (query.query_id for query in queries)
    found.failures = {name: failures[name] for name in names if name in failures}
    return found


def _rankings(ranked: Iterable[object], queries: Sequence[str]) -> Sequence[object]:
    """Return the rankings of a batch. Raises InvalidArgument unless there is one per query."""
    rankings = list(ranked)
    if len(rankings) != len(queries):
        rule = f"holds {len(rankings)} lists for {len(queries)} queries; return one a query"
        raise InvalidArgument.of_field("results", rule)
    return rankings


def _read(ranked: Any, k: int, field: str) -> Sequence[Retrieved]:  # noqa: ANN401 - whatever the retriever returns
    """Return the documents of a query; only the first k are taken from an iterator."""
    if ranked is None or isinstance(ranked, Coroutine):
        rule = "the retriever returned None for this query; return [] where it finds nothing"
        if ranked is not None:
            ranked.close()
            rule = "the retriever returned a coroutine; make it an `async def`"
        raise WrongType.of_field(field, rule)
    return read_ranking(islice(ranked, k) if isinstance(ranked, Iterator) else ranked, field)
