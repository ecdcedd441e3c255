"""Work over a client that is written once, as a generator, for Client and AsyncClient.

It yields what is to be done with the client, or on a thread, and is sent what that came to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from judged._batching.calls import Walk
from judged._inputs import need_kind
from judged.aio import AsyncClient
from judged.client import Client

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class OnThread:
    """A step that asks no client and may take long: on an event loop it runs on a thread."""

    work: Callable[[], Any]


Step = Callable[[Client], Any] | OnThread
Steps = Generator[Step, Any, Result]


def run_steps(client: Client, steps: Steps[Result]) -> Result:
    """Return the result of steps over a client."""
    with closing(steps):
        walk = Walk(steps)
        while (step := walk.step) is not None:
            try:
                outcome = step.work() if isinstance(step, OnThread) else step(client)
            except BaseException as error:  # noqa: BLE001 - raised again where the step stands
                walk.failed(error)
            else:
                walk.answered(outcome)
        return walk.whole


async def await_steps(client: AsyncClient, steps: Steps[Result]) -> Result:
    """Return the result of steps over an AsyncClient."""
    same = cast("Client", client)  # a contract test holds both to the same methods
    with closing(steps):
        walk = Walk(steps)
        while (step := walk.step) is not None:
            try:
                if isinstance(step, OnThread):
                    outcome = await asyncio.to_thread(step.work)
                else:
                    outcome = await step(same)
            except BaseException as error:  # noqa: BLE001 - raised again where the step stands
                walk.failed(error)
            else:
                walk.answered(outcome)
        return walk.whole


def need_client(client: object) -> None:
    """Raise WrongType for what is no Client."""
    rule = "a Client; judged.evaluation.aio has the same functions for an AsyncClient"
    need_kind(client, "client", Client, rule)


def need_async_client(client: object) -> None:
    """Raise WrongType for what is no AsyncClient."""
    rule = "an AsyncClient; judged.evaluation has the same functions for a Client"
    need_kind(client, "client", AsyncClient, rule)
