"""Compares the service with the bare wire.

Three questions, each against a null server of the same contract on the same stack:

contexts_over_null      30,000 contexts in one judge() call of the Python client, `exact` judge:
                        contexts a second of ours over those of the null server.
requests_over_null_64   requests of 64 contexts, 16 in flight from one process that sends ready
                        bytes and reads none, so that the server is what limits: requests a second
                        of ours over those of the null server.
grouped_over_naive      30,000 contexts as groups over the same ones as a group each, through the
                        client to our server: contexts a second of the first over the second.

    python -m benchmarks.wire
"""

from __future__ import annotations

import asyncio
import time

import grpc
import uvloop
from judged import Client, Context, QueryGroup
from judged._channel import OPTIONS
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import types_pb2

from benchmarks.harness import Server, closing_line, ratios, serving
from tests.conformance.prose import build_groups

SEED = 20
ROUNDS = 9
REQUESTS = 1500
IN_FLIGHT = 16


def batch_seconds(client: Client, groups: list[QueryGroup]) -> float:
    """Return the wall seconds of one judge() call."""
    started = time.perf_counter()
    client.judge(groups, "exact")
    return time.perf_counter() - started


def naive_seconds(client: Client, contexts: list[Context]) -> float:
    """Return the wall seconds of the same contexts, each sent as a group of its own."""
    alone = [QueryGroup(c.query, [c.expected_text], [c.retrieved_text]) for c in contexts]
    started = time.perf_counter()
    client.judge(alone, "exact")
    return time.perf_counter() - started


def small_request(groups: list[QueryGroup]) -> bytes:
    """Return a ready request of 64 contexts: four groups of 8 by 2."""
    return pb.BatchJudgeRequest(
        groups=[
            types_pb2.QueryGroup(query=g.query, expected=g.expected[:2], retrieved=g.retrieved[:8])
            for g in groups[:4]
        ],
        judge=types_pb2.JudgeSpec(kind="exact"),
    ).SerializeToString()


async def requests_seconds(address: str, request: bytes) -> float:
    """Return the wall seconds of REQUESTS small requests, IN_FLIGHT at once."""
    async with grpc.aio.insecure_channel(address, options=OPTIONS) as channel:
        call = channel.unary_unary("/judged.v1.JudgeService/BatchJudge")
        await call(request, timeout=30)
        left = iter(range(REQUESTS))

        async def worker() -> None:
            for _ in left:
                await call(request, timeout=30)

        started = time.perf_counter()
        await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
        return time.perf_counter() - started


def small_seconds(server: Server, request: bytes) -> float:
    """Return requests_seconds, run on a loop of its own."""
    return uvloop.run(requests_seconds(server.address, request))


def main() -> None:
    """Measure and print."""
    groups = [QueryGroup(g.query, g.expected, g.retrieved) for g in build_groups(SEED)]
    contexts = [Context(g.query, e, r) for g in groups for r in g.retrieved for e in g.expected]
    request = small_request(groups)
    rows: dict[str, list[float]] = {
        name: [] for name in ("ours", "null", "naive", "ours_64", "null_64")
    }
    with (
        serving("judged_server") as real,
        serving("benchmarks.null_server") as null,
        Client(real.address) as our_client,
        Client(null.address) as null_client,
    ):
        for round_number in range(ROUNDS + 1):
            row = {
                "ours": batch_seconds(our_client, groups),
                "null": batch_seconds(null_client, groups),
                "naive": naive_seconds(our_client, contexts),
                "ours_64": small_seconds(real, request),
                "null_64": small_seconds(null, request),
            }
            if round_number:  # the first round warms up
                for name, seconds in row.items():
                    rows[name].append(seconds)
    for name, seconds in rows.items():
        print(f"{name:>8}: {min(seconds):.3f} to {max(seconds):.3f} s")
    print(
        closing_line(
            "wire",
            {
                "contexts_over_null": ratios(rows["null"], rows["ours"]),
                "requests_over_null_64": ratios(rows["null_64"], rows["ours_64"]),
                "grouped_over_naive": ratios(rows["naive"], rows["ours"]),
            },
        )
    )


if __name__ == "__main__":
    main()
