"""Keeping the event loop free of work that would hold it up.

Owns one function. What counts as heavy is up to those who call it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


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
