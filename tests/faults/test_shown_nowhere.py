"""Keys, tokens, texts and replies through a whole server that has every fault of a provider.

What it logs, counts, traces and answers has none of them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from judged import AnswerItem, Client, Judge, QueryGroup, Rubric
from judged.credentials import Token
from judged.errors import JudgedError

from tests.fakes.canaries import BODY_CANARY, KEY, TEXT, TOKEN, refuse_canaries
from tests.fakes.otlp_collector import Collector, running_collector
from tests.fakes.providers.faulty_http import FaultyHttp, always, completion, faulty_http, reply
from tests.faults.providers.test_provider_leaks import LEAKY
from tests.integration.server_process import ServerProcess, running_server
from tests.integration.tenant_files import new_token

ITEM = AnswerItem("i", TEXT, TEXT, [TEXT])
GROUP = QueryGroup(f"q {TEXT}", [TEXT], [f"{TEXT} again"], "1")
BEHAVIOURS = {**LEAKY, "prose": always(reply(completion(f"{TEXT} {BODY_CANARY}")))}
METHOD = "/judged.v1.JudgeService/BatchJudge"


@contextmanager
def faulty_providers() -> Iterator[Mapping[str, FaultyHttp]]:
    """A provider for each behaviour, on a loop of their own."""
    ready, over = threading.Event(), asyncio.Event()
    found: dict[str, FaultyHttp] = {}
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with AsyncExitStack() as stack:
            for name, behaviour in BEHAVIOURS.items():
                found[name] = await stack.enter_async_context(faulty_http(behaviour))
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert ready.wait(30)
        yield found
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()


@dataclass(frozen=True)
class World:
    server: ServerProcess
    token: str
    providers: Mapping[str, FaultyHttp]
    collector: Collector


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    tenants, config = tmp_path / "t.toml", tmp_path / "llm.toml"
    tenants.write_text("[tenants.search]\n")
    token = new_token(tenants, "search")
    with faulty_providers() as providers, running_collector() as collector:
        lines = []
        for number, provider in enumerate(providers.values()):
            lines.append(
                f'[[providers]]\nname = "p{number}"\nbase_url = "{provider.url}"\n'
                f'key_env = "THE_KEY"\n[[models]]\nname = "m{number}"\nprovider = "p{number}"\n'
                'model = "m-1"\n'
            )
        config.write_text("\n".join(lines))
        with running_server(
            "--tenants",
            str(tenants),
            "--llm-config",
            str(config),
            "--llm-cache",
            "off",
            "--metrics-listen",
            "127.0.0.1:0",
            "--log-level",
            "debug",
            "--otlp-endpoint",
            collector.address,
            env={"THE_KEY": KEY},
        ) as server:
            yield World(server, token, providers, collector)


def answers_of(world: World, number: int) -> list[str]:
    """What callers are told of verdicts and scores by a provider with one of the faults."""
    with Client(world.server.address, credentials=Token(world.token), max_retries=0) as client:
        said = []
        model = {"model": f"m{number}"}
        judge, rubric = Judge("llm", parameters=model), Rubric("answer_match", parameters=model)
        for ask in (
            lambda: repr(client.judge([GROUP], judge, timeout=3).errors),
            lambda: repr(client.score_answers([ITEM], [rubric], timeout=3)),
        ):
            try:
                said.append(ask())
            except JudgedError as error:
                said.append(f"{error!r} {vars(error)}")
        return said


def refused(world: World, raw: bytes, **metadata: str) -> str:
    """What a caller is told of bytes that are no call of the contract, or not of anybody."""
    with grpc.insecure_channel(world.server.address) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
        with pytest.raises(grpc.RpcError) as caught:
            call(raw, timeout=20, metadata=tuple(metadata.items()))
        return f"{caught.value} {caught.value.trailing_metadata()}"


def test_nothing_that_a_server_shows_has_a_key_a_token_or_a_text(world: World):
    with ThreadPoolExecutor(len(BEHAVIOURS)) as pool:
        numbers = range(len(BEHAVIOURS))
        said = [
            each
            for answers in pool.map(lambda n: answers_of(world, n), numbers)
            for each in answers
        ]
    assert len(said) == 2 * len(BEHAVIOURS)
    bearer = f"Bearer {world.token}"
    said += [
        refused(world, b"\xff\xff" + TEXT.encode(), authorization=bearer),
        refused(world, b"\x12\x08" + TEXT.encode() + b"\xff", authorization=bearer),
        refused(world, b"", authorization=f"Bearer {TOKEN}"),
        refused(world, b"", authorization=TOKEN),
    ]
    with Client(world.server.address, credentials=Token(world.token)) as client:
        for groups in ([QueryGroup(TEXT, [TEXT * 70_000], [TEXT])], []):
            with pytest.raises(JudgedError) as caught:
                client.judge(groups, "exact")
            said.append(f"{caught.value!r} {vars(caught.value)}")
    for each in said:
        refuse_canaries("an answer", each)
    # All of it was there to be shown.
    sent = b"".join(request for each in world.providers.values() for request in each.requests)
    assert KEY.encode() in sent
    assert TEXT.encode() in sent
    assert all(provider.requests for provider in world.providers.values())
    world.server.process.terminate()
    assert world.server.process.wait(40) == 0
    assert world.collector.spans
    refuse_canaries("a trace", b"".join(world.collector.bodies).decode(errors="replace"))
    assert world.token not in world.server.log_text()
    # Standard error and the metrics are searched where the server ends.
