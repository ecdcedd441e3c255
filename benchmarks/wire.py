"""Compares the service with a null server of the same contract.

The null server runs on the same stack with gRPC's defaults and returns constant verdicts.

contexts_over_null      30,000 contexts in one judge() call of the Python client, `exact` judge:
                        contexts a second of ours over those of the null server.
requests_over_null_64   requests of 64 contexts (2 groups of 16 by 2) by the asynchronous Python
                        client, 16 in flight, `exact` judge: requests a second of ours over those
                        of the null server.
grouped_over_naive      30,000 contexts in their groups, and the same with one group per context,
                        through the client to our server: contexts a second of the first over the
                        second.

In a round the small requests go to the two servers in TURNS short turns, over open connections; the
servers alternate in going first, and the round's ratio is the median over turns. With two long
turns a busy half second of the machine would affect one side only. The benchmark's own objects are
frozen, so that passes of the garbage collector do not slow either side by chance.

    python -m benchmarks.wire
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Awaitable, Callable

import uvloop
from judged import AsyncClient, Client, Context, QueryGroup
from judged.credentials import Credentials

from benchmarks.harness import closing_line, ratios, serving
from tests.conformance.prose import build_groups

SEED = 20
ROUNDS = 9
TURNS = 20
REQUESTS = 150
"""Small requests to each server in a turn, which takes about 0.1 s."""
IN_FLIGHT = 16


def small_request(groups: list[QueryGroup]) -> list[QueryGroup]:
    """Return 64 contexts in two groups."""
    return [
        QueryGroup(g.query, g.expected[:2], [*g.retrieved, *g.retrieved][:16]) for g in groups[:2]
    ]


def batch_seconds(client: Client, groups: list[QueryGroup]) -> float:
    """Return the wall seconds of one judge() call."""
    started = time.perf_counter()
    client.judge(groups, "exact")
    return time.perf_counter() - started


def naive_seconds(client: Client, contexts: list[Context]) -> float:
    """Return the wall seconds of the same contexts, each sent as its own group."""
    alone = [QueryGroup(c.query, [c.expected_text], [c.retrieved_text]) for c in contexts]
    started = time.perf_counter()
    client.judge(alone, "exact")
    return time.perf_counter() - started


async def many(send: Callable[[], Awaitable[object]]) -> float:
    """Return the wall seconds of REQUESTS sends, IN_FLIGHT at once."""
    left = iter(range(REQUESTS))

    async def worker() -> None:
        for _ in left:
            await send()

    started = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
    return time.perf_counter() - started


async def in_turns(
    ours: str, null: str, groups: list[QueryGroup], credentials: Credentials | None = None
) -> list[tuple[float, float]]:
    """Return the wall seconds of small requests to (our server, the null server) for each turn.

    `credentials` are for our server.
    """
    async with (
        AsyncClient(ours, credentials=credentials) as our_client,
        AsyncClient(null) as null_client,
    ):

        async def seconds(client: AsyncClient) -> float:
            return await many(lambda: client.judge(groups, "exact", timeout=30))

        await seconds(our_client)  # connects
        await seconds(null_client)
        turns: list[tuple[float, float]] = []
        for turn in range(TURNS):
            if turn % 2:
                null_first = await seconds(null_client)
                turns.append((await seconds(our_client), null_first))
            else:
                turns.append((await seconds(our_client), await seconds(null_client)))
        return turns


def main() -> None:
    """Measure and print."""
    groups = [QueryGroup(g.query, g.expected, g.retrieved) for g in build_groups(SEED)]
    contexts = [Context(g.query, e, r) for g in groups for r in g.retrieved for e in g.expected]
    small = small_request(groups)
    names = ("ours", "null", "naive", "ours_64", "null_64")
    rows: dict[str, list[float]] = {name: [] for name in names}
    requests_over_null: list[float] = []
    gc.collect()
    gc.freeze()
    with (
        serving("judged_server") as real,
        serving("benchmarks.peers.null_server") as null,
        Client(real.address) as our_client,
        Client(null.address) as null_client,
    ):
        for round_number in range(ROUNDS + 1):
            turns = uvloop.run(in_turns(real.address, null.address, small))
            ours_64, null_64 = zip(*turns, strict=True)
            row = {
                "ours": batch_seconds(our_client, groups),
                "null": batch_seconds(null_client, groups),
                "naive": naive_seconds(our_client, contexts),
                "ours_64": sum(ours_64),
                "null_64": sum(null_64),
            }
            if round_number:  # the first round warms up
                requests_over_null.append(statistics.median(ratios(null_64, ours_64)))
                for name, seconds in row.items():
                    rows[name].append(seconds)
    for name, row_seconds in rows.items():
        print(f"{name:>10}: {min(row_seconds):.3f} to {max(row_seconds):.3f} s")
    print(
        closing_line(
            "wire",
            {
                "contexts_over_null": ratios(rows["null"], rows["ours"]),
                "requests_over_null_64": requests_over_null,
                "grouped_over_naive": ratios(rows["naive"], rows["ours"]),
            },
        )
    )


if __name__ == "__main__":
    main()
