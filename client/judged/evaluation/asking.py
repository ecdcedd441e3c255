"""Asking systems and judges: each query once, what was kept taken from files, own answers told.

Models prefer answers of their own kind (Panickssery, Bowman, Feng (2024), "LLM evaluators recognize
and favor their own generations", arXiv 2404.13076). A family is told by the letters that the name
of a model begins with, behind the last "/" and what stands before a ".": `gpt`, `claude`, `qwen`.

What failed is not written, so that it is tried again.
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
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from judged._files import FileError, Record, read_bytes, writing
from judged._transport.primitives import async_on_thread
from judged.values import ChatModelInfo, Judge, Rubric, ServerInfo, to_judge


class CircularJudging(UserWarning):
    """A judge's model is that of the system, or of its family: models favour their own kind."""

    __module__ = "judged.evaluation"


def judging_models(info: ServerInfo, judges: Iterable[Judge | Rubric]) -> Iterator[ChatModelInfo]:
    """Yield the models that judges ask, their members included, or that score by rubrics."""
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
    """Warn with CircularJudging where a judge asks a model of a system, or one of its family.

    `info` is the server's, as `Client.server_info` returns it; `system_models` are the names of the
    language models that made the texts. The server's default judge is meant by None. Evaluations do
    so by themselves; `warnings.simplefilter("error", CircularJudging)` makes them end there.
    """
    tell_circular(system_models, judging_models(info, [to_judge(judge or "")]))


def tell_circular(systems: str | Iterable[str], models: Iterable[ChatModelInfo]) -> None:
    """Warn of every pair of related models."""
    for remark in circular_remarks(models_of(None, systems), models):
        warnings.warn(remark, CircularJudging, stacklevel=4)


def circular_remarks(systems: Iterable[str], models: Iterable[ChatModelInfo]) -> Iterator[str]:
    """Yield a remark on each model of a system that is of the family of one that judges."""
    judges = list(dict.fromkeys(model.model for model in models))
    for system in systems:
        family = family_of(system)
        for judge in judges:
            if family and family == family_of(judge):
                yield (
                    f"the judge's model {judge} is of the family {family!r}, as is that of the "
                    f"system, {system}: models favour answers of their own kind; judge with a "
                    "model of another family"
                )


def models_of(source: object, named: str | Iterable[str] = ()) -> list[str]:
    """Return the models of a system: those named, and those that it says itself it is made of.

    It says so by an attribute `system_models`, as Results have it, or `system_model`.
    """
    own = getattr(source, "system_models", ()) or getattr(source, "system_model", ())
    lists = ([each] if isinstance(each, str) else each for each in (named, own))
    return list(dict.fromkeys(str(name) for names in lists for name in names))


_STEM = re.compile(r"(?:^|\.)([a-z]+)")


def family_of(model: str) -> str:
    """Return the family of a model by its name, "" for a name without letters in front."""
    found = _STEM.findall(model.lower().rpartition("/")[2])
    return found[-1] if found else ""


Item = TypeVar("Item")
CONCURRENCY = 4
"""Items that a coroutine function is asked about at once by default."""


@dataclass(slots=True)
class Outcome(Generic[Item]):
    """What a function returned about an item, or the exception in its place; and the seconds.

    `resumed` says that an earlier run asked.
    """

    item: Item
    result: Any = None
    failure: BaseException | None = None
    seconds: float = 0.0
    resumed: bool = False

    @property
    def told(self) -> str | None:
        """The failure in words; None without one."""
        return None if self.failure is None else f"{type(self.failure).__name__}: {self.failure}"

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Take what is raised as the failure, and how long it took."""
        started = time.monotonic()
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - raised again where the caller waits
            self.failure = error
        self.seconds = time.monotonic() - started


@dataclass(frozen=True, slots=True)
class Asked(Generic[Item]):
    """A function that is asked about items, what reads its results, and if it is to be awaited."""

    function: Callable[[Item], Any]
    read: Callable[[Any, Item], Any]
    awaited: bool

    def outcome(self, item: Item) -> Outcome[Item]:
        """Return what came of asking about an item."""
        outcome = Outcome(item)
        with outcome.timed():
            outcome.result = self.read(self.function(item), item)
        return outcome

    async def outcome_async(self, item: Item) -> Outcome[Item]:
        """Return what came of it; a function that is not to be awaited runs on a thread."""
        if not self.awaited:
            return await async_on_thread(partial(self.outcome, item))
        outcome = Outcome(item)
        with outcome.timed():
            outcome.result = self.read(await self.function(item), item)
        return outcome


def ask_each(
    asked: Asked[Item], items: Sequence[Item], concurrency: int | None
) -> Generator[Outcome[Item], None, None]:
    """Yield an outcome for each item as they come, at most `concurrency` asked at once.

    By default that is one, on this thread, where the function may have to stay; of what is to be
    awaited, four, on an event loop of its own. To leave the iteration asks no more of them.
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

    # A daemon: a function that hangs must not keep the interpreter from ending.
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
    """How far a stage is: `done` of `total` queries retrieved, or contexts judged.

    As text it is a line for people, so that `progress=print` shows it.
    """

    stage: str
    done: int
    total: int
    elapsed_s: float

    @property
    def remaining_s(self) -> float | None:
        """The seconds that are left at the pace so far; None while nothing is done."""
        return self.elapsed_s * (self.total - self.done) / self.done if self.done else None

    def __str__(self) -> str:
        left = self.remaining_s
        ahead = "" if left is None else f", {left:.0f} s left"
        return f"{self.stage} {self.done}/{self.total}{ahead}"


OnProgress = Callable[[Progress], object]


def stage(name: str, told: OnProgress | None) -> Callable[[int, int], object] | None:
    """Return what a stage calls with (done, total); None where nobody listens."""
    if told is None:
        return None
    started = time.monotonic()
    return lambda done, total: told(Progress(name, done, total, time.monotonic() - started))


def is_async(system: Callable[..., object]) -> bool:
    """Return whether a call of a system is to be awaited."""
    call = getattr(system, "__call__", None)  # noqa: B004 - an object with an async __call__
    return inspect.iscoroutinefunction(system) or inspect.iscoroutinefunction(call)


def signature_of(system: Callable[..., object]) -> str:
    """Return what a system is known by: its `signature` if it has one, else its name."""
    signature = getattr(system, "signature", None)
    if isinstance(signature, str):
        return signature
    kind = type(system)
    return str(getattr(system, "__qualname__", f"{kind.__module__}.{kind.__qualname__}"))


class ResumeFile(Generic[Item]):
    """A file of lines that are read at first, and added to; without a path nothing is written.

    The first says what it is about, and has the `run` that request_ids are made of. `known` is what
    earlier runs were answered about items, by their ids. Raises FileError for a file about
    something else, and for one that can't be read or written.
    """

    id_field = "query_id"
    """Where items have their ids."""

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
                with writing(path):  # the run that wrote it was killed there
                    os.truncate(path, path.stat().st_size - len(line))
                return
            self._read(record)
        self._add(b"\n" if lines[-1] else b"")  # which tells if it can't be written

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
                    f"{value!r}; name another file, or remove this one to begin anew"
                )
        self.run = record.text("run")

    def take(self, record: Record) -> None:
        """Take a line of an earlier run."""
        raise NotImplementedError

    def append(self, outcome: Outcome[Item]) -> None:
        """Write down what came of asking about an item."""

    def outcomes(
        self, items: Sequence[Item], asked: Asked[Item], concurrency: int | None
    ) -> Iterator[Outcome[Item]]:
        """Yield the outcome of each item: those of earlier runs first, then those of the others.

        These are written down as they come. Raises what was raised to end the run.
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
        """Write a line with another run."""
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
