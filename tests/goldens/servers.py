"""The servers that goldens ask: one without language models, two with scripted ones."""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from judged_server.embedding.models.store import ModelStore

from tests.fakes.models.tiny_model import NAME, add_to
from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Asked, Said
from tests.integration.http_calls import http_address
from tests.integration.llm_config import llm_config, priced
from tests.integration.scoring.scripted_scores import form_of, texts_of
from tests.integration.scoring.scripted_scores import script as scored
from tests.integration.server_process import ServerProcess, running_server

PLAIN, LLM, COMMANDS = "plain", "llm", "commands"
_PROVIDERS = {LLM: 18471, COMMANDS: 18472}
"""Ports of the providers: a judge's fingerprint has the URL of what it asks."""


async def script(asked: Asked) -> Said:
    """Reply by the texts alone: what has "bad" is bad, and grades are drawn from the words."""
    if "response_format" in asked.body and "grade" in form_of(asked):
        grades = form_of(asked)["grade"]["enum"]
        drawn = zlib.crc32(json.dumps(texts_of(asked), sort_keys=True).encode())
        return {"reasoning": "graded", "grade": grades[drawn % len(grades)]}
    return await scored(asked)


@contextmanager
def running_servers(*names: str) -> Iterator[dict[str, ServerProcess]]:
    """Yield servers by their names, each with the small model and a provider of its own."""
    with ExitStack() as stack:
        lock = stack.enter_context(Path(gettempdir(), "judged-goldens.lock").open("w"))
        fcntl.flock(lock, fcntl.LOCK_EX)  # another checkout's goldens have the ports until they end
        scratch = Path(stack.enter_context(TemporaryDirectory()))
        add_to(ModelStore(scratch / "models"), scratch)
        flags = ["--models-dir", str(scratch / "models"), "--model", NAME]
        flags += ["--http-listen", "127.0.0.1:0", "--vector-cache", "memory"]
        found = {}
        for name in names:
            more, folder = [], scratch / name
            folder.mkdir()
            if name in _PROVIDERS:
                provider = stack.enter_context(provider_on_a_thread(script, _PROVIDERS[name]))
                models = {"small": priced(1.0, 2.0), "other": ""}
                one = "max_concurrency = 1"  # or who shares whose reply would be chance
                config = llm_config(folder, provider, models, provider_lines=one)
                more += ["--llm-config", config, "--llm-cache", "memory"]
            running = running_server(*flags, *more, env=_settings(folder))
            found[name] = stack.enter_context(running)
        yield found


def _settings(home: Path) -> dict[str, str]:
    folders = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"), str(home))
    return {**folders, "JUDGED_EMBEDDING_BACKEND": "onnxruntime"}


def addresses(server: ServerProcess) -> tuple[str, tuple[str, int]]:
    """Return where a server takes calls by gRPC, and by HTTP."""
    host, _, port = http_address(server).rpartition(":")
    return server.address, (host, int(port))


def clean_environment(home: Path) -> dict[str, str]:
    """Return variables for commands: nothing of the user's, and the same width everywhere."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
    width = {"COLUMNS": "100", "TZ": "UTC", "NO_COLOR": "1"}
    caches = {"JUDGED_LLM_CACHE": "memory", "JUDGED_VECTOR_CACHE": "memory"}
    return {**kept, **width, **caches, **_settings(home)}
