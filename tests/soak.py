"""Keeps a server busy with good and bad calls for a while, and holds it to what must not grow.

    python -m tests.soak [--nobody-leaves] [--warm-up-seconds 600] [--seconds 1200] [--seed 1]

Callers mix semantic, lexical and streamed judging, new texts and old ones, with cancels at any
moment, bytes that are no message, compressed requests, deadlines that are too short, and bursts
beyond what the model can do. Every second the server's memory in use, resident memory, descriptors
and threads are read. It fails (status 1) when

* any call ends as UNKNOWN or INTERNAL, or a code that its kind may not have,
* memory in use, after the warm-up, grows faster than `--slope-mb-h` (a line by least squares, two
  standard errors below it), and than what gRPC loses of calls that their callers leave; shorter
  runs than ten minutes can't tell,
* resident memory grows by more than MOST_LONG_GROWTH_MB, in shorter runs MOST_GROWTH_MB. Its slope
  is printed and not judged: it has in it what the heaps keep of bursts,
* descriptors or threads at the end, when nobody calls, are more than after the warm-up.

In use is what the C heap has given out, and Python's blocks at BLOCK_BYTES each. It goes up and
down by 1 MB with what is in work. The last line is JSON.

gRPC's asyncio server never frees the array of operations of a batch that fails, or whose awaiter is
cancelled (https://github.com/grpc/grpc/issues/43360, in all releases up to 1.85.3). With
`--nobody-leaves` no call is cancelled or late, gRPC loses nothing, and the limit is `--slope-mb-h`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import socket
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

from tests.integration.server_process import ServerProcess, running_server

CALLERS = 12
METHOD = "/judged.v1.JudgeService/BatchJudge"
NEVER = {"UNKNOWN", "INTERNAL"}
FLAGS = (
    "--log-level",
    "warning",
    "--embedding-backend",
    "onnxruntime",
    "--vector-cache",
    "memory",
    "--vector-cache-memory-bytes",
    str(4 << 20),
)
"""A small cache, so that it is full before the memory is looked at."""
LOST_BY_GRPC = {"call": 96, "stream": 96 + 176 + 96}
"""Bytes of a call that its caller leaves, at most, by kind, as pieces of malloc's: the batch of the
read that goes on (80); of a stream the batch of the write as well, with the initial metadata (160),
and the buffer of the reply (80)."""
SETTLE_S = 3.0
LONG_S, MOST_GROWTH_MB, MOST_LONG_GROWTH_MB = 600.0, 100.0, 20.0
BLOCK_BYTES = 96
"""Of a block of Python's allocator, in the mean."""
_IN_USE = re.compile(r"^(judged_heap_in_use_bytes|judged_python_blocks) (\S+)$", re.MULTILINE)
RawCall = grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]


class Callers:
    """Calls of all kinds to one server."""

    def __init__(self, address: str, seed: int, *, leave: bool = True) -> None:
        self._random = random.Random(seed)
        self._leave = leave
        self._channel = grpc.aio.insecure_channel(address)
        self._stub = JudgeServiceStub(self._channel)
        self._raw: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(
            METHOD
        )
        self.codes: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()
        self.left: Counter[str] = Counter()

    async def run(self, seconds: float) -> None:
        """Call until the time is over."""
        ends = time.monotonic() + seconds
        kinds: list[tuple[float, Callable[[], Coroutine[Any, Any, str]], set[str]]] = [
            (8, self._judge, {"OK", "RESOURCE_EXHAUSTED"}),
            (3, self._stream, {"OK"}),
            (1, self._garbage, {"INVALID_ARGUMENT"}),
            (0.2, self._burst, {"OK"}),
        ]
        if self._leave:
            kinds += [
                (2, self._cancelled, {"OK", "CANCELLED", "RESOURCE_EXHAUSTED"}),
                (1, self._hurried, {"OK", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"}),
            ]

        async def caller() -> None:
            while time.monotonic() < ends:
                _, kind, may = self._random.choices(kinds, [weight for weight, _, _ in kinds])[0]
                code = await kind()
                self.codes[code] += 1
                self.left["call"] += code in {"CANCELLED", "DEADLINE_EXCEEDED"}
                if code not in may:
                    self.wrong[f"{kind.__name__.strip('_')}: {code}"] += 1

        await asyncio.gather(*(caller() for _ in range(CALLERS)))

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()

    def _request(self, words: int = 60) -> pb.BatchJudgeRequest:
        kind = self._random.choice(["semantic", "token_overlap", "exact"])
        texts = []
        for _ in range(1 + self._random.randrange(6)):
            # A tenth of the texts come again.
            rng = random.Random(self._random.randrange(50)) if self._random.random() < 0.1 else None
            rng = rng or self._random
            count = 1 + rng.randrange(words)
            texts.append(" ".join(f"{rng.randrange(10**6):x}" for _ in range(count)))
        group = groups_pb2.QueryGroup(query="q", expected=texts[:1], retrieved=texts)
        return pb.BatchJudgeRequest(groups=[group], judge=groups_pb2.JudgeSpec(kind=kind))

    async def _judge(self) -> str:
        compression = grpc.Compression.Gzip if self._random.random() < 0.3 else None
        return await _code(
            self._raw(self._request().SerializeToString(), timeout=30, compression=compression)
        )

    async def _cancelled(self) -> str:
        call = self._raw(self._request(200).SerializeToString(), timeout=30)
        asyncio.get_running_loop().call_later(self._random.random() ** 3, call.cancel)
        return await _code(call)

    async def _garbage(self) -> str:
        raw = bytearray(self._request().SerializeToString())
        for _ in range(1 + len(raw) // 8):
            raw[self._random.randrange(len(raw))] = 0xFF  # never part of UTF-8
        return await _code(self._raw(bytes(raw), timeout=30))

    async def _hurried(self) -> str:
        body, seconds = self._request(200).SerializeToString(), 0.001 + self._random.random() / 50
        return await _code(self._raw(body, timeout=seconds))

    async def _burst(self) -> str:
        codes = await asyncio.gather(*(self._judge() for _ in range(64)))
        self.codes.update(codes)
        return "OK" if set(codes) <= {"OK", "RESOURCE_EXHAUSTED"} else max(codes)

    async def _stream(self) -> str:
        chunks = 1 + self._random.randrange(5)
        start = pb.StreamJudgeStart(judge=groups_pb2.JudgeSpec(kind="semantic"))

        async def requests() -> Any:
            yield pb.StreamJudgeRequest(start=start)
            for number in range(chunks):
                groups = self._request().groups
                yield pb.StreamJudgeRequest(chunk=pb.JudgeChunk(chunk_id=number, groups=groups))

        call: Any = self._stub.StreamJudge(requests(), timeout=60)
        leaves = self._leave and self._random.random() < 0.2
        try:
            async for _ in call:
                if leaves:
                    self.left["stream"] += 1
                    call.cancel()
                    return "OK"
        except grpc.aio.AioRpcError as error:
            return str(error.code().name)
        return "OK"


async def _code(call: Any) -> str:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return str(error.code().name)
    except asyncio.CancelledError:
        if call.cancelled():
            return "CANCELLED"
        raise
    return "OK"


def reading(server: ServerProcess) -> tuple[float, int, int]:
    """Return resident memory in MB, descriptors and threads."""
    proc = Path(f"/proc/{server.process.pid}")
    pages = int((proc / "statm").read_text().split()[1])
    memory = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    return memory, len(list((proc / "fd").iterdir())), len(list((proc / "task").iterdir()))


def in_use_mb(metrics: str) -> float:
    """Return the memory in use that a server tells, in MB."""
    with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=60) as reply:
        told = dict(_IN_USE.findall(reply.read().decode()))
    heap, blocks = (float(told[f"judged_{n}"]) for n in ("heap_in_use_bytes", "python_blocks"))
    return (heap + BLOCK_BYTES * blocks) / 1e6


def free_address() -> str:
    """Return an address of this machine where nobody listens."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{closed.getsockname()[1]}"


def slope_mb_h(samples: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the slope of memory over time, and the least that it could be at two standard errors.

    Samples a minute apart at most count as one, since neighbours resemble each other.
    """
    times, memory = (np.array(column) for column in zip(*samples, strict=True))
    parts = max(3, int((times[-1] - times[0]) // 60))
    times, memory = (
        np.array([part.mean() for part in np.array_split(a, parts)]) for a in (times, memory)
    )
    centred = times - times.mean()
    slope = float((centred * memory).sum() / (centred**2).sum())
    rest = memory - memory.mean() - slope * centred
    error = float(np.sqrt((rest**2).sum() / max(1, parts - 2) / (centred**2).sum()))
    return slope * 3600, (slope - 2 * error) * 3600


async def soak(
    server: ServerProcess, metrics: str, callers: Callers, warm_up_s: float, seconds: float
) -> dict[str, Any]:
    """Return what was seen. `metrics` is where the server tells its own."""
    await callers.run(warm_up_s)
    callers.left.clear()
    await asyncio.sleep(SETTLE_S)
    _, descriptors, threads = reading(server)
    started = time.monotonic()
    work = asyncio.create_task(callers.run(seconds))
    samples, resident = [], []
    while not work.done():
        await asyncio.wait({work}, timeout=1.0)
        in_use = await asyncio.to_thread(in_use_mb, metrics)
        samples.append((time.monotonic() - started, in_use))
        resident.append(reading(server)[0])
    await work
    await asyncio.sleep(SETTLE_S)
    _, descriptors_after, threads_after = reading(server)
    await callers.close()
    slope, at_least = slope_mb_h(samples)
    resident_slope, _ = slope_mb_h(
        [(at, mb) for (at, _), mb in zip(samples, resident, strict=True)]
    )
    lost = sum(LOST_BY_GRPC[kind] * count for kind, count in callers.left.items())
    return {
        "warm_up_seconds": warm_up_s,
        "seconds": seconds,
        "calls": callers.codes.total(),
        "codes": dict(callers.codes.most_common()),
        "wrong": dict(callers.wrong),
        "left": dict(callers.left),
        "in_use_mb": [round(samples[0][1], 1), round(samples[-1][1], 1)],
        "resident_mb": [round(resident[0], 1), round(resident[-1], 1)],
        "slope_mb_h": round(slope, 2),
        "slope_mb_h_at_least": round(at_least, 2),
        "slope_mb_h_resident": round(resident_slope, 2),
        "slope_mb_h_of_grpc": round(lost / 1e6 / seconds * 3600, 2),
        "descriptors": [descriptors, descriptors_after],
        "threads": [threads, threads_after],
    }


def problems(seen: dict[str, Any], most_mb_h: float) -> list[str]:
    """Return what is wrong."""
    found = [f"{count} calls ended as {what}" for what, count in seen["wrong"].items()]
    found += [f"{code} was seen" for code in NEVER & seen["codes"].keys()]
    first, last = seen["resident_mb"]
    most_mb_h += seen["slope_mb_h_of_grpc"]
    if seen["seconds"] >= LONG_S and seen["slope_mb_h_at_least"] > most_mb_h:
        found.append(f"memory in use grows by {seen['slope_mb_h']} MB/h, over {most_mb_h:.1f}")
    if last - first > (MOST_LONG_GROWTH_MB if seen["seconds"] >= LONG_S else MOST_GROWTH_MB):
        found.append(f"resident memory grew by {last - first:.0f} MB")
    # One more thread may begin on its first need: of the pool that inflates messages.
    for what, allowed in (("descriptors", 2), ("threads", 4)):
        before, after = seen[what]
        if after > before + allowed:
            found.append(f"{after - before} {what} more than after the warm-up")
    return found


def main() -> int:
    """Soak, print, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--warm-up-seconds", type=float, default=600.0)
    parser.add_argument("--seconds", type=float, default=1200.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slope-mb-h", type=float, default=1.0)
    parser.add_argument(
        "--nobody-leaves", action="store_true", help="without cancels, and without late calls"
    )
    arguments = parser.parse_args()

    async def run(server: ServerProcess) -> dict[str, Any]:
        callers = Callers(server.address, arguments.seed, leave=not arguments.nobody_leaves)
        times = arguments.warm_up_seconds, arguments.seconds
        return await soak(server, metrics, callers, *times)

    metrics = free_address()
    with running_server(*FLAGS, "--metrics-listen", metrics) as server:
        seen = asyncio.run(run(server))
        status = server.process.poll()
    found = problems(seen, arguments.slope_mb_h)
    if status is not None:
        found.append(f"the server ended with status {status}")
    for problem in found:
        print(problem, file=sys.stderr)
    print(json.dumps({"soak": seen, "problems": found}))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
