"""Work over a client that is written once, as a generator, for Client and AsyncClient.

It yields what is to be done with the client, or on a thread, and is sent what that came to.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from contextvars import copy_context
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
                    outcome = await _on_daemon(step.work)
                else:
                    outcome = await step(same)
            except BaseException as error:  # noqa: BLE001 - raised again where the step stands
                walk.failed(error)
            else:
                walk.answered(outcome)
        return walk.whole


async def _on_daemon(work: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever it returns
    """Return the result of work on a thread of its own, which does not keep Python from exiting.

    Who is cancelled here leaves at once; the thread goes on until the work has noticed.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Any] = loop.create_future()
    context = copy_context()

    def settle(result: object, error: BaseException | None) -> None:
        if outcome.done():
            return
        if error is None:
            outcome.set_result(result)
        else:
            outcome.set_exception(error)

    def run() -> None:
        result: object = None
        failure: BaseException | None = None
        try:
            result = context.run(work)
        except StopIteration as error:  # which no future takes
            failure = RuntimeError(f"the work raised {error!r}")
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            failure = error
        with suppress(RuntimeError):  # the loop has ended, and nobody waits
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=run, daemon=True, name="judged-step").start()
    return await outcome


def need_client(client: object) -> None:
    """Raise WrongType for what is no Client."""
    rule = "a Client; judged.evaluation.aio has the same functions for an AsyncClient"
    need_kind(client, "client", Client, rule)


def need_async_client(client: object) -> None:
    """Raise WrongType for what is no AsyncClient."""
    rule = "an AsyncClient; judged.evaluation has the same functions for a Client"
    need_kind(client, "client", AsyncClient, rule)
