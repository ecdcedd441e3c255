"""A server's models before a faulty provider: how to set them up, to ask, and to look for leaks."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import chain, repeat
from random import Random
from typing import Any

import pytest
from judged_server.llm.chat import ChatRequest, ProviderFault
from judged_server.llm.config import parse_configuration
from judged_server.llm.models import ChatModels
from judged_server.llm.transport.endpoint import Clock

from tests.fakes.canaries import KEY, TEXT, canaries
from tests.fakes.providers.faulty_http import (
    Behaviour,
    Connection,
    completion,
    reply,
)
from tests.fakes.still_clock import StillClock

REQUEST = ChatRequest("system", f"judge this: {TEXT}", None, 16, 0.0)


GOOD = reply(completion())


def configured(url: str, clock: Clock | None = None, **provider: Any) -> ChatModels:
    """The models of a server with one provider and a key."""
    document = {
        "providers": [{"name": "p", "base_url": url, "key_env": "THE_KEY", **provider}],
        "models": [{"name": "m", "provider": "p", "model": "m-1"}],
    }
    return ChatModels(
        parse_configuration(document, "test"), {"THE_KEY": KEY}, clock or StillClock(), Random(7)
    )


@asynccontextmanager
async def models_at(url: str, clock: Clock | None = None, **provider: Any) -> AsyncIterator[Any]:
    models = configured(url, clock, **provider)
    try:
        yield models.get("")
    finally:
        await models.close()


async def fault_of(model: Any, timeout_s: float = 100.0) -> ProviderFault:
    with pytest.raises(ProviderFault) as caught:
        await model.complete(REQUEST, timeout_s)
    return caught.value


def in_turn(*responses: bytes) -> Behaviour:
    """Answer the first request with the first response, and so on; then with the last."""
    left = chain(responses, repeat(responses[-1]))

    async def behave(connection: Connection) -> None:
        await connection.send(next(left))

    return behave


async def hang(connection: Connection) -> None:
    await connection.closed()


async def hang_after_headers(connection: Connection) -> None:
    await connection.send(GOOD[: GOOD.index(b"\r\n\r\n") + 4])
    await connection.closed()


async def hang_in_the_body(connection: Connection) -> None:
    await connection.send(GOOD[:-9])
    await connection.closed()


async def reset(connection: Connection) -> None:
    connection.reset()


async def a_moment() -> None:
    """Let what is under way on the loop happen."""
    for _ in range(20):
        await asyncio.sleep(0)


def leaks(fault: BaseException) -> list[str]:
    """The canaries in anything that could be printed of a fault, or of what it came from."""
    rendered = [*traceback.format_exception(fault), str(vars(fault))]
    seen: BaseException | None = fault
    while seen is not None:
        rendered += [str(seen), repr(seen), repr(vars(seen))]
        seen = seen.__cause__ or seen.__context__
    return canaries("".join(rendered))
