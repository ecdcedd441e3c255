"""Models of a scripted provider in this process, and what is left of the calls that asked them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from judged_server.llm.config import parse_configuration
from judged_server.llm.models import ChatModels
from judged_server.llm.transport.endpoint import RequestQueue, Turn
from judged_server.tenant import SENDER

from tests.fakes.providers.scripted_provider import (
    Asked,
    Script,
    ScriptedProvider,
    scripted_provider,
)

_BLOCK = re.compile(r'<data-\w+ name="(\w+)">\n(.*)\n</data-')


def texts_of(asked: Asked) -> dict[str, Any]:
    """The texts in the prompt of a rubric, by name."""
    return {name: json.loads(text) for name, text in _BLOCK.findall(asked.user)}


@asynccontextmanager
async def provider_and_models(
    script: Script, **model: object
) -> AsyncIterator[tuple[ScriptedProvider, ChatModels]]:
    async with scripted_provider(script) as provider:
        configuration = parse_configuration(provider.configuration(**model), "test")
        models = ChatModels(configuration, {})
        try:
            yield provider, models
        finally:
            await models.close()


def note_classes(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """A list that gets, for each question from now on, whether it waits as batch work."""
    waits: list[bool] = []
    turn = RequestQueue.turn

    async def noted(self: RequestQueue, *given: Any, **named: Any) -> Turn:
        waits.append(SENDER.get().is_batch)
        return await turn(self, *given, **named)

    monkeypatch.setattr(RequestQueue, "turn", noted)
    return waits


async def until(fact: Callable[..., bool], seconds: float = 60.0) -> None:
    """Return once something is so."""
    async with asyncio.timeout(seconds):
        while not fact():  # noqa: ASYNC110 - the fact is in many places
            await asyncio.sleep(0.001)


def others_than(tasks: set[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """Our own tasks that are left; those of the provider's connections are not our own."""
    return {
        task
        for task in asyncio.all_tasks() - tasks
        if "judged_server" in str(task.get_coro()) and not task.done()
    }
