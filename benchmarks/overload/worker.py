"""One client process of `overload`: streams of requests that are sent when they are due.

Each line of input is a JSON list of streams that run in parallel, each on its own connection; their
requests are built before the clock starts. The worker prints "ready", reads a line with the start
instant (in seconds of `time.perf_counter`, which all processes of a machine share), and answers
with one JSON line: for each stream a row `[due, latency_s, code, work]` per request.

    {"mix": "semantic:1x2@40", "rate": 100.0, "seconds": 4.0, "seed": 1}   open loop, Poisson
    {"mix": "semantic:1x2@40", "at_once": 8, "seconds": 4.0, "seed": 1}    closed loop
    {"mix": "health", "rate": 20.0, "seconds": 4.0, "seed": 1}             health checks

An optional "token" authenticates the stream as a tenant.

    python -m benchmarks.overload.worker TARGET
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Mapping
from itertools import islice
from typing import Any

import grpc
from grpc_health.v1 import health_pb2
from judged._load.departures import depart
from judged._load.open_loop import METHOD
from judged._load.request_mix import arrivals, parse_mix, requests

from tests.conformance.prose import words

DEADLINE_S = 1.0
HEALTH = "health"
HEALTH_METHOD = "/grpc.health.v1.Health/Check"
CLOSED_LOOP_DEADLINE_S = 30.0
REFUSED_S = 0.05
_MADE_AHEAD = 400

Call = grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
Row = tuple[float, float, str, int]
"""A request: due, in seconds from the start; its latency in seconds; status code; bytes of work."""


class Stream:
    """Prepared requests of one caller, and their outcomes."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        self._plan = plan
        self._rows: list[Row] = []
        token = plan.get("token")
        self._metadata = None if token is None else (("authorization", f"Bearer {token}"),)
        seed = int(plan["seed"])
        self._due = []
        if "rate" in plan:
            self._due = list(arrivals(plan["rate"], plan["seconds"], poisson=True, seed=seed))
        count = len(self._due) if "rate" in plan else _MADE_AHEAD
        if plan["mix"] == HEALTH:
            self._method = HEALTH_METHOD
            self._bodies = [health_pb2.HealthCheckRequest().SerializeToString()] * count
        else:
            self._method = METHOD
            # Texts that no earlier run used, in the order of the seed.
            made = requests(
                parse_mix(plan["mix"]), random.Random(seed).getrandbits(60), words=words()
            )
            self._bodies = [request.body for request in islice(made, count)]

    async def run(self, target: str, start: float) -> list[Row]:
        """Send the requests; return their outcomes."""
        options = [("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(target, options=options) as channel:
            call: Call = channel.unary_unary(self._method)
            await channel.channel_ready()
            if "rate" in self._plan:
                bodies = iter(self._bodies)
                await depart(
                    start, self._due, lambda due: self._send(call, next(bodies), due, start)
                )
            else:
                await self._in_turns(call, start)
        return self._rows

    async def _in_turns(self, call: Call, start: float) -> None:
        """Keep `at_once` calls of the plan in flight until its time is over."""
        await asyncio.sleep(max(0.0, start - time.perf_counter()))
        ends, number = start + self._plan["seconds"], 0

        async def caller() -> None:
            nonlocal number
            while (now := time.perf_counter()) < ends:
                number += 1
                body = self._bodies[number % len(self._bodies)]
                await self._send(call, body, now, start, CLOSED_LOOP_DEADLINE_S)
                if self._rows[-1][2] != "OK":  # do not retry at once after a refusal
                    await asyncio.sleep(REFUSED_S)

        await asyncio.gather(*(caller() for _ in range(self._plan["at_once"])))

    async def _send(
        self,
        call: Call,
        body: bytes,
        due: float,
        start: float,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        code = "OK"
        # The time limit counts from the due instant, so that queueing in this process counts.
        left = max(0.001, due + deadline_s - time.perf_counter())
        try:
            await call(body, timeout=left, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            code = error.code().name
        self._rows.append((due - start, time.perf_counter() - due, code, len(body)))


async def serve(target: str) -> None:
    """Run plans until standard input ends."""
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        streams = [Stream(plan) for plan in json.loads(line)]
        print("ready", flush=True)
        start = float(await loop.run_in_executor(None, sys.stdin.readline))
        rows = await asyncio.gather(*(stream.run(target, start) for stream in streams))
        print(json.dumps(rows), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
