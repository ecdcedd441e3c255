"""Keeping the event loop free of work that would hold it up. What is heavy, the callers say."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import ParamSpec, TypeVar

from judged_server.checkpoint import watched

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

_COMPUTATIONS = ThreadPoolExecutor(
    max(1, (os.cpu_count() or 1) - 1), thread_name_prefix="computation"
)
"""For computations of seconds: with threads of their own they leave the others, and a core, to
short work. No thread begins before it is needed."""

_SLICES = ThreadPoolExecutor(1, thread_name_prefix="slices")
"""For short slices of long work. One thread, because the judges in Python hold the interpreter
lock: a second would add switches only. Calls hand in one slice at a time, so they take turns."""


async def run_in_thread_if(
    heavy: bool,
    work: Callable[_Arguments, _Result],
    *args: _Arguments.args,
    **kwargs: _Arguments.kwargs,
) -> _Result:
    """Return work(...), done on a thread when it is heavy: handing over costs about 0.1 ms."""
    if heavy:
        return await asyncio.to_thread(work, *args, **kwargs)
    return work(*args, **kwargs)


async def run_computation(
    long: bool,
    work: Callable[_Arguments, _Result],
    *args: _Arguments.args,
    **kwargs: _Arguments.kwargs,
) -> _Result:
    """Return work(...), done on a thread; `long` says that it may take more than a moment.

    When the caller is cancelled, the work ends at its next `checkpoint`, or never begins.
    """
    abandoned = threading.Event()
    context = contextvars.copy_context()
    run = partial(context.run, partial(watched, abandoned.is_set, work, *args, **kwargs))
    pool = _COMPUTATIONS if long else None
    try:
        return await asyncio.get_running_loop().run_in_executor(pool, run)
    except asyncio.CancelledError:
        abandoned.set()
        raise


async def run_slice(
    work: Callable[_Arguments, _Result], *args: _Arguments.args, **kwargs: _Arguments.kwargs
) -> _Result:
    """Return work(*args), a slice of some 10 ms, done in turn with the slices of other calls."""
    return await asyncio.get_running_loop().run_in_executor(_SLICES, partial(work, *args, **kwargs))


async def run_steps(steps: Generator[None, None, _Result]) -> _Result:
    """Return the result of work that yields between its slices, done in turn with other calls.

    A cancel takes effect after the slice in work.
    """
    while True:
        done = await run_slice(_advance, steps)
        if done is not None:
            return done[0]


def _advance(steps: Generator[None, None, _Result]) -> tuple[_Result] | None:
    """Do one slice; return the result, in a tuple, if it was the last."""
    try:
        next(steps)
    except StopIteration as end:
        return (end.value,)
    return None


@contextmanager
def batch_scheduling() -> Iterator[None]:
    """Run all threads that are begun in a `with`, by this one or by those, under SCHED_BATCH.

    For threads of gRPC, which only hand work on: they wake six times in a call, and would each time
    take the place of the one thread that judges, where both share a core. A small request took the
    server 13 to 15 % more CPU. A core that is free they get as soon as before.

    Linux alone has that policy (sched(7)). Elsewhere, or where the process was given another
    policy or may not change its own, threads are as they would be.
    """
    changed = _set_policy("SCHED_OTHER", "SCHED_BATCH")
    try:
        yield
    finally:
        if changed:
            _set_policy("SCHED_BATCH", "SCHED_OTHER")


def _set_policy(before: str, after: str) -> bool:
    """Change the policy of this thread, which those that it begins inherit; say whether it was."""
    if not hasattr(os, before) or not hasattr(os, after):
        return False
    try:
        if os.sched_getscheduler(0) != getattr(os, before):
            return False
        os.sched_setscheduler(0, getattr(os, after), os.sched_param(0))
    except OSError:  # a sandbox forbids it
        return False
    return True
