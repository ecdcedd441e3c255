"""Keeping the event loop free of work that would hold it up. What is heavy, the callers say."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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


async def off_loop_if(
    heavy: bool,
    work: Callable[_Arguments, _Result],
    *args: _Arguments.args,
    **kwargs: _Arguments.kwargs,
) -> _Result:
    """Return work(...), done on a thread when it is heavy: handing over costs about 0.1 ms."""
    if heavy:
        return await asyncio.to_thread(work, *args, **kwargs)
    return work(*args, **kwargs)


async def compute_off_loop(
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
