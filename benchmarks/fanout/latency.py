"""Measures the latency of small calls, RATE a second: a part of `benchmarks.fanout`.

Latency runs from the instant at which a context was due, minus the provider's time, which the
provider reports as prompt tokens; see `provider`. For calls of one context the server's own
measurement, from its access log, is reported too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import orjson
import uvloop
from judged._load.departures import depart
from judged._load.open_loop import Request, Tally, drive
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb
from judged_server.telemetry import FLUSH_AFTER_S

from benchmarks.fanout.provider import TICKS_A_S
from benchmarks.fanout.worker import bodies, make_groups

RATE = 200.0
WARM_UP_CALLS = 256
MOST_IN_FLIGHT = 256
"""Chunks of one stream; the server must allow as many."""

_TIMEOUT_S = 60.0
_FIRST_CALLS = 3
"""Warm-up calls, sent one after the other; not measured."""
_LEAD_S = 0.05
_LOGGED_WITHIN_S = 5.0
_STREAM = "/judged.v1.JudgeService/StreamJudge"


def called(address: str, calls: int, seed: int, kind: str = "llm", model: str = "") -> Tally:
    """Return the latencies of BatchJudge calls of one context each to the judge `kind`."""
    contexts = _contexts(calls, seed)
    judge = groups_pb2.JudgeSpec(kind=kind)
    if model:
        judge.parameters["model"].string_value = model

    requests = (
        Request(kind, pb.BatchJudgeRequest(judge=judge, groups=[context]).SerializeToString(), 1)
        for context in contexts
    )
    due = _instants(calls)
    outcome = uvloop.run(
        drive(address, due, requests, _TIMEOUT_S, _FIRST_CALLS, elsewhere_s=_of_provider_s)
    )
    total = outcome.total
    if total.answered != len(due) or total.missing_verdicts:
        raise SystemExit(f"{len(due) - total.answered} calls failed: {dict(total.errors)}")
    if outcome.client_is_late:
        late = f"{outcome.late_ms:.1f} ms late at its p99"
        print(f"the generator was {late}: part of what it measured")
    return total


class AccessLog:
    """Reads what a server logs about calls to models from now on."""

    def __init__(self, log: Path) -> None:
        time.sleep(2 * FLUSH_AFTER_S)  # until the lines of earlier calls are written
        self._log = log
        self._from = log.stat().st_size

    def overheads(self, calls: int) -> Tally:
        """Return the time that the server added to each of the last `calls` calls of `called`.

        Measured by the server, from the read message to the reply.
        """
        ends = time.monotonic() + _LOGGED_WITHIN_S
        while len(lines := self._of_models()) < _FIRST_CALLS + calls:
            if time.monotonic() > ends:
                raise SystemExit(f"the server logged {len(lines)} calls to models")
            time.sleep(0.01)
        tally = Tally()
        for line in lines[_FIRST_CALLS:]:
            if line["code"] != "OK" or line["model_calls"] != 1:
                raise SystemExit(f"not one question that was answered: {line}")
            tally.record(line["ms"] / 1e3 - line["input_tokens"] / TICKS_A_S)
        return tally

    def _of_models(self) -> list[dict[str, Any]]:
        with self._log.open("rb") as file:
            file.seek(self._from)
            whole = file.read().rpartition(b"\n")[0]
        lines = map(orjson.loads, whole.splitlines())
        return [line for line in lines if line.get("part") == "call" and "model_calls" in line]


def streamed(address: str, calls: int, seed: int, kind: str = "llm") -> Tally:
    """Return the latencies of chunks of one context each in one StreamJudge."""
    return uvloop.run(_streamed(address, calls, seed, kind))


async def _streamed(address: str, calls: int, seed: int, kind: str) -> Tally:
    contexts, tally = _contexts(calls, seed), Tally()
    dues = _instants(calls)
    chunks = [
        pb.StreamJudgeRequest(chunk=pb.JudgeChunk(chunk_id=number, groups=[next(contexts)]))
        for number in range(len(dues))
    ]
    start = pb.StreamJudgeStart(judge=groups_pb2.JudgeSpec(kind=kind))
    async with grpc.aio.insecure_channel(address) as channel:
        open_stream: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
            _STREAM
        )
        stream = open_stream(timeout=_TIMEOUT_S + calls / RATE)
        await stream.write(pb.StreamJudgeRequest(start=start).SerializeToString())
        if not await stream.read():
            raise SystemExit("the stream did not start")
        began = time.perf_counter() + _LEAD_S
        ready = iter([chunk.SerializeToString() for chunk in chunks])
        turn = asyncio.Lock()

        async def send(_: float) -> None:
            async with turn:  # gRPC takes one message at a time
                await stream.write(next(ready))

        async def receive() -> None:
            for _ in chunks:
                raw = await stream.read()
                ended = time.perf_counter()
                if not isinstance(raw, bytes):
                    raise SystemExit("the stream ended before its last answer")
                chunk = pb.StreamJudgeResponse.FromString(raw).chunk
                if chunk.WhichOneof("result") != "verdicts":
                    raise SystemExit(f"a chunk failed: {chunk.error.message}")
                took_s = ended - began - dues[chunk.chunk_id] - _of_provider_s(chunk)
                tally.record(took_s)

        await asyncio.gather(depart(began, dues, send), receive())
        await stream.done_writing()
    return tally


def bare(url: str, calls: int, seed: int) -> Tally:
    """Return the latencies of the same questions in a bare aiohttp loop."""
    return uvloop.run(_bare(url, calls, seed))


async def _bare(url: str, calls: int, seed: int) -> Tally:
    asked = bodies(make_groups(calls + WARM_UP_CALLS, seed))
    tally = Tally()

    async def ask(due: float) -> float:
        async with session.post(f"{url}/chat/completions", data=next(ready)) as reply:
            answer = orjson.loads(await reply.read())
        return time.perf_counter() - due - float(answer["usage"]["prompt_tokens"]) / TICKS_A_S

    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), headers={"Content-Type": "application/json"}
    ) as session:
        ready = iter([orjson.dumps(body) for body in asked])
        await asyncio.gather(*(ask(0.0) for _ in range(WARM_UP_CALLS)))
        for took_s in await depart(time.perf_counter() + _LEAD_S, _instants(calls), ask):
            tally.record(took_s)
    return tally


def _instants(calls: int) -> list[float]:
    """Return when each call is due, in seconds from the start."""
    return [number / RATE for number in range(calls)]


def _contexts(calls: int, seed: int) -> Iterator[groups_pb2.QueryGroup]:
    """Yield contexts, including those of the warm-up, each in its own group."""
    return iter(
        [
            groups_pb2.QueryGroup(query=group.query, expected=group.expected, retrieved=[retrieved])
            for group in make_groups(calls + WARM_UP_CALLS, seed)
            for retrieved in group.retrieved
        ]
    )


def _of_provider_s(answer: pb.BatchJudgeResponse | pb.JudgedChunk) -> float:
    return answer.usage.input_tokens / TICKS_A_S
