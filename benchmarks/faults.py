"""Counts what is lost in the long runs of the fault programme; every count must be 0.

drains_lost            calls neither answered nor refused with DRAINING, in 50 drains, each by
                       SIGTERM in the middle of a burst of 150 calls
drains_unclean         servers that did not exit with status 0 in those drains
oversize_unanswered    of 100 requests of 15 MB at once to a server in a control group of 1 GiB,
                       those neither answered nor refused with RESOURCE_EXHAUSTED
oversize_small_lost    small calls that were not answered afterwards
oversize_most_mb       peak memory of that server
contexts_lost          missing verdicts of 200,000 contexts in one client call to token_overlap
flood_lost             calls without a verdict, of 2,000 at once through the Python client to a
flood_lost_nginx       model that has room for a fraction of them; the same behind a proxy
flood_lost_haproxy
flood_lost_envoy

    python -m benchmarks.faults [--short] [--only drains,oversize,contexts,floods]

Exits with 1 if anything was lost. Takes some twenty minutes, `--short` two.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from judged import Client, QueryGroup
from judged.credentials import Tls

from benchmarks.harness import closing_line
from tests.fakes.authority import Authority
from tests.fakes.proxies import PROXIES, behind_proxies, missing, proxied
from tests.faults.loads import (
    FLOODED,
    TOLD_DRAINING,
    drained,
    flood,
    large_request,
    limited,
    resident,
    sent,
)
from tests.integration.server_process import running_server

CALLS_A_DRAIN = 150
SMALL_CALLS = 20
EXIT_S = 60


@dataclass(frozen=True, slots=True)
class Size:
    """The size of each run."""

    drains: int = 50
    oversize: int = 100
    contexts: int = 200_000
    flood: int = 2_000


SHORT = Size(drains=2, oversize=30, contexts=20_000, flood=200)


@dataclass(slots=True)
class Programme:
    """The runs, and the counts so far."""

    size: Size
    figures: dict[str, list[float]] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)
    facts: dict[str, object] = field(default_factory=dict)

    def drains(self) -> None:
        """Drain servers under load."""
        ended: Counter[str] = Counter()
        unclean = 0
        for _ in range(self.size.drains):
            with running_server("--log-level", "warning") as server:
                ended += asyncio.run(drained(server, CALLS_A_DRAIN))
                unclean += server.process.wait(EXIT_S) != 0
        calls = self.size.drains * CALLS_A_DRAIN
        self._count("drains_lost", calls - ended["OK"] - ended[TOLD_DRAINING])
        self._count("drains_unclean", unclean)
        self.facts |= {"drains": self.size.drains, "drain_calls": dict(ended)}

    def oversize(self) -> None:
        """Send more than a container's memory can hold."""
        with ExitStack() as stack:
            server = stack.enter_context(running_server("--log-level", "warning"))
            with limited(server.process.pid) as is_limited:
                codes = asyncio.run(sent(server.address, large_request(), self.size.oversize))
                known = codes["OK"] + codes["RESOURCE_EXHAUSTED"]
                self._count("oversize_unanswered", self.size.oversize - known)
                group = QueryGroup("q", ["a"], ["a"])
                with Client(server.address) as client:
                    answered = sum(
                        client.judge([group], "exact", timeout=30).n_ok for _ in range(SMALL_CALLS)
                    )
                self._count("oversize_small_lost", SMALL_CALLS - answered)
                self._count("oversize_most_mb", resident(server.process.pid, "VmHWM"))
                stack.close()
        self.facts |= {"oversize_calls": dict(codes), "oversize_in_cgroup": is_limited}
        if not is_limited:
            self.not_run["oversize_limit"] = "no control group could be made here; run as root"

    def contexts(self) -> None:
        """Judge a very large number of contexts in one call."""
        groups = [
            QueryGroup("q", [f"the answer {i} of many"], [f"an answer {i}", f"{i}"])
            for i in range(self.size.contexts // 2)
        ]
        with running_server("--log-level", "warning") as server, Client(server.address) as client:
            began = time.perf_counter()
            verdicts = client.judge(groups, "token_overlap", timeout=600)
            self.facts["contexts_s"] = round(time.perf_counter() - began, 2)
        self._count("contexts_lost", self.size.contexts - verdicts.n_ok)

    def floods(self) -> None:
        """Make many concurrent calls, directly and behind each installed proxy."""
        with ExitStack() as stack:
            signed = stack.enter_context(tempfile.TemporaryDirectory())
            authority = Authority(Path(signed))
            credentials = Tls(authority.ca)
            flags = *FLOODED, *behind_proxies(authority)
            server = stack.enter_context(running_server(*flags))
            answered = asyncio.run(flood(server.address, self.size.flood, credentials))
            self._count("flood_lost", self.size.flood - answered)
            for proxy in PROXIES:
                name = f"flood_lost_{proxy}"
                if lacks := missing(proxy):
                    self.not_run[name] = lacks
                    continue
                with (
                    tempfile.TemporaryDirectory() as folder,
                    proxied(proxy, (server, server), authority, Path(folder)) as address,
                ):
                    answered = asyncio.run(flood(address, self.size.flood, credentials))
                self._count(name, self.size.flood - answered)

    def _count(self, name: str, value: float) -> None:
        self.figures[name] = [value]
        print(f"{name} {value:g}", flush=True)


RUNS = {
    "drains": Programme.drains,
    "oversize": Programme.oversize,
    "contexts": Programme.contexts,
    "floods": Programme.floods,
}


def main() -> None:
    """Run the programme and print what was lost."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults")
    parser.add_argument("--short", action="store_true", help="a look, while developing")
    parser.add_argument("--only", default=",".join(RUNS), help="some of " + ", ".join(RUNS))
    arguments = parser.parse_args()
    chosen = arguments.only.split(",")
    if unknown := sorted(set(chosen) - set(RUNS)):
        parser.error(f"no run is called {', '.join(unknown)}: they are {', '.join(RUNS)}")
    programme = Programme(SHORT if arguments.short else Size())
    for name in chosen:
        RUNS[name](programme)
    print(closing_line("faults", programme.figures, programme.not_run, programme.facts))
    lost = [name for name in programme.figures if "_mb" not in name and programme.figures[name][0]]
    sys.exit(f"lost: {', '.join(lost)}" if lost else 0)


if __name__ == "__main__":
    main()
