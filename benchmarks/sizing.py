"""Estimates how many contexts 1, 10 and 1,000 cores judge a second, and the first bottleneck.

First the CPU time of a request is measured on a real server at a modest rate. Then a simulation
sends requests at random instants, faster until p99 exceeds a bound: one replica per core serves
them one after the other, each for the measured time. Requests to models also pass one store of
claims and replies, and one provider. Cores scale linearly here; the store and the provider are
shared, and the table shows when they are the limit.

cpu_ms_NAME                 CPU of the server for a request of that name, see REQUESTS
contexts_a_s_NAME_CORES     contexts a second that so many cores judge at a p99 of --p99 ms
first_NAME_CORES, in facts  the first bottleneck: the station with the highest utilisation then

Not included: the cores of clients (see `judged load`), the network, and proxies.

    python -m benchmarks.sizing [--p99 1000] [--provider-a-s 167] [--store-a-s 10000] [--seconds 6]
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from judged._load.measuring import Search, Step, find_rate
from judged._load.open_loop import drive
from judged._load.request_mix import arrivals, parse_mix, requests

from benchmarks.fanout.processes import provider_url, running, to_toml
from benchmarks.fanout.worker import configuration
from benchmarks.harness import Server, closing_line, serving

CORES = (1, 10, 1_000)
PROVIDER_S = 0.2
_MOST_REQUESTS = 300_000
_LONGEST_S, _BOUNDS = 600.0, 5
_SEED = 97


@dataclass(frozen=True, slots=True)
class Asked:
    """A kind of request: its mix, the rate at which its CPU is measured, questions to models."""

    mix: str
    rps: float
    repeat: float = 0.0
    questions: int = 0

    @property
    def contexts(self) -> int:
        """Number of contexts in a request."""
        return parse_mix(self.mix)[0].contexts


REQUESTS = {
    "token_overlap": Asked("token_overlap:3x10@100", 20.0),
    "semantic_new": Asked("semantic:1x10", 1.5),
    "semantic_known": Asked("semantic:1x10", 20.0, repeat=1.0),
    "llm": Asked("llm:1x10", 20.0, questions=10),
}
"""The measured requests; `semantic_known` repeats the texts of an earlier request."""


@dataclass(frozen=True, slots=True)
class Station:
    """A queue of the simulation: `servers` take requests in turn, each for `busy_s`."""

    name: str
    busy_s: float
    servers: int = 1

    def leave(self, come: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return when requests that arrive at the ascending times `come` have been served.

        At one server the n-th departs at max(its arrival, departure of the one before) + busy_s.
        """
        rounds = -(-len(come) // self.servers)
        turns = np.full(rounds * self.servers, np.inf)
        turns[: len(come)] = come
        before = self.busy_s * np.arange(rounds)[:, None]
        begun = np.maximum.accumulate(turns.reshape(rounds, self.servers) - before, axis=0)
        left: npt.NDArray[np.float64] = (begun + before + self.busy_s).reshape(-1)[: len(come)]
        return left


def capacity(stations: Sequence[Station], p99_s: float) -> tuple[Search, str]:
    """Return the search for the highest rate, and the station with the highest utilisation."""
    first = max(stations, key=lambda each: each.busy_s / each.servers)
    most = first.servers / first.busy_s
    seconds = min(_LONGEST_S, max(_BOUNDS * p99_s, _MOST_REQUESTS / most))
    random = np.random.default_rng(_SEED)

    def attempt(rps: float) -> Step:
        due = np.cumsum(random.exponential(1 / rps, size=max(1, round(rps * seconds))))
        at, order = due, np.arange(len(due))
        for station in stations:
            left = station.leave(at)
            by_time = np.argsort(left, kind="stable")
            at, order = left[by_time], order[by_time]
        took_ms = 1e3 * (at - due[order])
        p50, p99 = np.percentile(took_ms, (50, 99))
        # At a station's maximum rate or above, its queue grows without limit.
        passed, n = bool(p99 <= p99_s * 1e3) and rps < most, len(due)
        return Step(rps, passed, None if passed else "server", n, n, float(p50), float(p99), 0.0)

    return find_rate(attempt, most / 2, seconds), first.name


def stations_of(
    asked: Asked, cpu_s: float, cores: int, provider_a_s: float, store_a_s: float
) -> list[Station]:
    """Return the stations of a request; all its questions together are one visit."""
    found = [Station("cores", cpu_s, cores)]
    if asked.questions:
        found.append(Station("store", asked.questions / store_a_s))
        if provider_a_s:
            found.append(Station("provider", asked.questions / provider_a_s))
    return found


def cpu_seconds(server: Server, asked: Asked, seconds: float) -> float:
    """Return the server's CPU seconds per request."""
    made = requests(parse_mix(asked.mix), time.time_ns(), asked.repeat)
    due = list(arrivals(asked.rps, seconds, poisson=False, seed=1))
    asyncio.run(drive(server.address, [0.0], made, 60.0))
    before = server.cpu_seconds()
    outcome = asyncio.run(drive(server.address, due, made, 60.0, warm_up=0))
    if not outcome.total.is_whole:
        raise SystemExit(f"{asked.mix}: {dict(outcome.total.errors)}")
    return (server.cpu_seconds() - before) / len(due)


@contextmanager
def asked_server() -> Iterator[Server]:
    """Run a server whose models are served by a scripted provider."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running("benchmarks.fanout.provider", str(PROVIDER_S)) as provider,
    ):
        config = Path(folder, "llm.toml")
        config.write_text(to_toml(configuration(provider_url(provider), 256)), encoding="utf-8")
        with serving("judged_server", "--llm-config", str(config)) as server:
            yield server


def main() -> None:
    """Measure, simulate and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizing")
    parser.add_argument("--p99", type=float, default=1000.0, help="ms")
    parser.add_argument(
        "--provider-a-s", type=float, default=167.0, help="questions it admits; 0: no limit"
    )
    parser.add_argument(
        "--store-a-s", type=float, default=10_000.0, help="claims and replies that it takes"
    )
    parser.add_argument("--seconds", type=float, default=6.0, help="of each measurement")
    arguments = parser.parse_args()
    samples: dict[str, list[float]] = {}
    first: dict[str, str] = {}
    with asked_server() as server:
        cpu = {n: cpu_seconds(server, each, arguments.seconds) for n, each in REQUESTS.items()}
    rows = [(name, name, arguments.provider_a_s) for name in REQUESTS]
    for name, request, provider_a_s in [*rows, ("llm_no_limit", "llm", 0.0)]:
        asked = REQUESTS[request]
        samples[f"cpu_ms_{request}"] = [1e3 * cpu[request]]
        for cores in CORES:
            stations = stations_of(asked, cpu[request], cores, provider_a_s, arguments.store_a_s)
            found, busiest = capacity(stations, arguments.p99 / 1e3)
            figure = f"{name}_{cores}"
            rate = (found.capacity_rps or 0.0) * asked.contexts
            samples[f"contexts_a_s_{figure}"], first[f"first_{figure}"] = [rate], busiest
            print(f"{name}, {cores} cores: {rate:,.0f} contexts a second, then {busiest}")
    facts: dict[str, object] = {"p99_ms": arguments.p99, "store_a_s": arguments.store_a_s}
    facts |= {"provider_a_s": arguments.provider_a_s, **first}
    print(closing_line("sizing", samples, facts=facts))


if __name__ == "__main__":
    main()
