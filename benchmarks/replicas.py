"""Measures the throughput of two replicas over one, on each path from clients to them.

A replica asks a scripted provider up to AT_ONCE questions at once; each takes PROVIDER_S. Replicas
mostly wait and use little of the cores that all processes of this benchmark share. So the figures
show whether calls are spread and nothing on the path is a bottleneck, not how fast a core is.
Texts are new in each run, and all paths use TLS. Each round measures a path with one replica, then
with both.

two_over_one_PATH     questions answered a second by both replicas, over those by one
questions_a_s_PATH    questions answered a second by both; at most 2 * AT_ONCE / PROVIDER_S

    python -m benchmarks.replicas [--rounds 3] [--calls 160]
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from judged import AsyncClient, QueryGroup
from judged.credentials import Tls

from benchmarks.fanout.processes import provider_url, running, to_toml
from benchmarks.fanout.worker import configuration, make_groups
from benchmarks.harness import closing_line, ratios
from tests.fakes.authority import Authority
from tests.fakes.proxies import PATHS, behind_proxies, missing, reached
from tests.integration.server_process import running_server

AT_ONCE = 8
PROVIDER_S = 0.4


async def rate(target: str, calls: int, credentials: Tls) -> float:
    """Return how many questions a second are answered, with `calls` concurrent calls."""
    warm_up = 2 * AT_ONCE  # so that each replica has a connection
    groups = [
        QueryGroup(group.query, group.expected, [retrieved])
        for group in make_groups(warm_up + calls, time.time_ns())
        for retrieved in group.retrieved
    ]

    async def asked(some: Sequence[QueryGroup]) -> None:
        answers = await asyncio.gather(*(client.judge([group], "llm") for group in some))
        if lost := len(some) - sum(verdicts.n_ok for verdicts in answers):
            raise SystemExit(f"{lost} of {len(some)} verdicts are missing")

    async with AsyncClient(target, credentials=credentials) as client:
        await asked(groups[:warm_up])
        began = time.perf_counter()
        await asked(groups[warm_up:])
        return calls / (time.perf_counter() - began)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replicas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=160)
    arguments = parser.parse_args()
    not_run = {f"two_over_one_{path}": lacks for path in PATHS if (lacks := missing(path))}
    one: dict[str, list[float]] = {path: [] for path in PATHS if not missing(path)}
    both: dict[str, list[float]] = {path: [] for path in one}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        authority = Authority(folder)
        credentials = Tls(authority.ca, name="localhost")
        provider = stack.enter_context(running("benchmarks.fanout.provider", str(PROVIDER_S)))
        config = folder / "llm.toml"
        config.write_text(to_toml(configuration(provider_url(provider), AT_ONCE)))
        first, second = (
            stack.enter_context(
                running_server("--llm-config", str(config), *behind_proxies(authority))
            )
            for _ in range(2)
        )
        for _ in range(arguments.rounds):
            for path in one:
                for servers, rates in (((first, first), one), ((first, second), both)):
                    with reached(path, servers, authority, folder) as target:
                        rates[path].append(asyncio.run(rate(target, arguments.calls, credentials)))
                print(f"{path}: {one[path][-1]:.1f}, {both[path][-1]:.1f} a second", flush=True)
    samples = {f"two_over_one_{path}": ratios(both[path], one[path]) for path in one}
    samples |= {f"questions_a_s_{path}": rates for path, rates in both.items()}
    facts = {"at_once": AT_ONCE, "provider_s": PROVIDER_S, "calls": arguments.calls}
    print(closing_line("replicas", samples, not_run, facts))


if __name__ == "__main__":
    main()
