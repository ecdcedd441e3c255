"""Keeping the event loop free of work that would hold it up. What is heavy, the callers say."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import ParamSpec, TypeVar

from judged_server.scheduling.admission import Admission, Resource
from judged_server.scheduling.checkpoint import watched
from judged_server.scheduling.fair_threads import FairThreads

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

_COMPUTATIONS = FairThreads("computation", max(1, (os.cpu_count() or 1) - 1))
"""For computations of seconds: with threads of their own they leave the others, and a core, to
short work."""

IN_PYTHON = FairThreads(
    "slices",
    1,
    Admission(Resource("judging by texts", "characters", 40e6, 1_000_000_000, 100_000)),
)
"""For work in Python that is cut into slices of some 10 ms. One thread, because such work holds the
interpreter lock: a second would add switches only. 40 million characters a second is what a lexical
judge does."""


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

    When the caller is cancelled, the work ends at its next `checkpoint`, or never begins. Long work
    of several callers takes turns.
    """
    if long:
        return await _COMPUTATIONS.run(partial(work, *args, **kwargs))
    abandoned = threading.Event()
    context = contextvars.copy_context()
    run = partial(context.run, partial(watched, abandoned.is_set, work, *args, **kwargs))
    try:
        return await asyncio.get_running_loop().run_in_executor(None, run)
    except asyncio.CancelledError:
        abandoned.set()
        raise


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
