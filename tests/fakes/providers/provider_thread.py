"""A scripted provider on a thread of its own, for tests whose server is another process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.fakes.providers.scripted_provider import (
    Asked,
    Script,
    ScriptedProvider,
    scripted_provider,
)


def yes(_: Asked) -> dict[str, str]:
    """Say that it is so, whatever is asked."""
    return {"reasoning": "so it is", "verdict": "yes"}


@contextmanager
def provider_on_a_thread(script: Script = yes, port: int = 0) -> Iterator[ScriptedProvider]:
    """Yield a running provider; its counters may be read from any thread. Port 0 picks one."""
    ready: list[ScriptedProvider] = []
    started = threading.Event()
    loop = asyncio.new_event_loop()
    over = asyncio.Event()

    async def serve() -> None:
        async with scripted_provider(script, port=port) as provider:
            ready.append(provider)
            started.set()
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert started.wait(60)
        yield ready[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(10)
        loop.close()
