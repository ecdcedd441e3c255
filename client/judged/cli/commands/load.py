"""`judged load`: sends requests at a rate and measures their latency.

`judged._load` sends and counts them.
"""

from __future__ import annotations

import asyncio
import math
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from enum import Enum
from functools import partial
from importlib import metadata
from typing import Any

from judged._load import request_mix
from judged._load.measuring import Bound, Step, document, find_rate
from judged._load.open_loop import PERCENTILES, Outcome, Request, Tally, drive
from judged._views import of_all, plural
from judged.cli.frame import Document, opt
from judged.cli.output import Output, Problem, Table, explained, say
from judged.cli.server import ResultCommand

_FIRST_RPS = 10.0
_DURATION_S = 60.0
_STEP_S = 10.0
_BOUNDS_A_STEP = 50
"""Length of a step in bounds: within it, a rate that is 2 % too high exceeds the bound."""
_FEWEST_BOUNDS = 20


class Arrivals(Enum):
    """When requests are due."""

    POISSON = "poisson"
    CONSTANT = "constant"


class LoadCommand(ResultCommand):
    """Put a load on a server: requests are sent when they are due, without waiting for answers.

    Latency is measured from the time a request was due, so that stalls of the server show in it.
    Nothing is sent again. Ends with 1 if requests or verdicts failed, or no rate was within --p99.
    Each question to a language model is paid for.

    Examples:
    judged load --target 127.0.0.1:8470 --rps 20 --mix semantic:1x10=3,exact:3x10=1
    judged load --target 127.0.0.1:8470 --p99 200 --report load.html
    judged load --target 127.0.0.1:8470 --replay server.log --rps 50
    """

    rps: float | None = opt(
        "X",
        "Requests a second; with --p99 the first rate to try, by default 10, with --replay that of "
        "the file.",
        low=0.001,
    )
    duration: float | None = opt(
        "SECONDS", "How long; 60 by default, with --p99 10 for each rate.", low=0.1
    )
    p99: float | None = opt(
        "MS", "Find the highest rate of which 99 % are answered within this.", low=0.001
    )
    mix: str = opt(
        "MIX",
        "Requests, with commas between: KIND[/PROFILE]:ExR[xG][@W][=S] has E expected and R "
        "retrieved texts of about W words in each of G groups, and S is its share.",
        "semantic:1x10",
    )
    arrivals: Arrivals = opt(None, "When requests are due: at random, or evenly.", Arrivals.POISSON)
    replay: str | None = opt(
        "FILE",
        "Send when calls came as this log of a server has them, or lines of {at: SECONDS}.",
        reads=True,
    )
    repeat: float = opt(
        "SHARE", "Share of requests that repeat an earlier one.", 0.0, low=0, high=1
    )
    seed: int = opt("N", "The same seed makes the same requests.", 1)
    timeout: float = opt(
        "SECONDS", "From when a request is due to when it has failed.", 30.0, low=0.001
    )
    report: str | None = opt("FILE.html", "Write the result as a page.", writes=True)

    def settle(self) -> None:
        """Refuse steps that are too short for their bound."""
        super().settle()
        if self.replay is not None:
            self.leave_out("arrivals", "--replay says when; leave it out")
        if self.rps is None and self.p99 is None and self.replay is None:
            raise Problem("--rps: say how many a second, or --p99 MS to find out how many it takes")
        bound_s = (self.p99 or 0.0) / 1e3
        if self.duration is None:
            step_s = max(_STEP_S, _BOUNDS_A_STEP * bound_s)
            self.duration = _DURATION_S if self.p99 is None else step_s
        elif self.duration < (least := _FEWEST_BOUNDS * bound_s):
            raise Problem(
                f"--duration: {self.duration:g} s are too short to see a rate that is a little "
                f"too high break --p99 {self.p99:g}; take {least:g} s or more"
            )

    def run(self, out: Output) -> Document:
        """Send the requests, and report."""
        with explained(self.places()):
            mix = request_mix.parse_mix(self.mix)
        due: Callable[[float, float], Iterator[float]]
        if self.replay is None:
            poisson = self.arrivals is Arrivals.POISSON
            due = partial(request_mix.arrivals, poisson=poisson, seed=self.seed)
            arrivals, rps = self.arrivals.value, _FIRST_RPS
        else:
            replay = request_mix.read_replay(self.replay)
            due, arrivals, rps = replay.arrivals, f"as in {self.replay}", replay.rate
        rps = self.rps or rps
        requests = request_mix.requests(mix, self.seed, self.repeat)
        with self.connect() as (client, info):
            load = _Load(self, client.target, requests, due, self.duration or _DURATION_S)
            facts: Document = {
                "target": load.target,
                "server": info.version,
                "machine": _machine(),
                "mix": self.mix,
                "arrivals": arrivals,
                "duration_s": load.seconds,
                "repeat": self.repeat,
                "seed": self.seed,
            }
            headline = "{rps:.4g} requests a second"
            if self.p99 is None:
                load.put(rps)
            else:
                search = find_rate(load.put, rps, load.seconds)
                facts |= {"p99_ms": self.p99, **asdict(search)}
                if search.capacity_rps is None:
                    out.worse, headline = True, "no rate holds"
                elif search.limited_by == "client":
                    headline = f"at least {headline}"
                headline += f" at p99 <= {self.p99:g} ms"
        rps, outcome = load.kept
        headline = headline.format(rps=rps)
        late = facts.get("limited_by") == "client" or (self.p99 is None and outcome.client_is_late)
        total = outcome.total
        out.worse = out.worse or not total.is_whole
        out.warn(*_warnings(total, outcome, late=late))
        whole = {"headline": headline, "rps": rps, **facts, **document(outcome, load.seconds)}
        rows = [
            [name, each["sent"], each["answered"], *each["latency_ms"].values()]
            for name, each in whole["requests"].items()
        ]
        heads = ["requests", "sent", "answered", *(f"p{each:g}" for each in PERCENTILES)]
        out.show(Table(heads, rows), "")
        contexts = f"{total.contexts / outcome.seconds:.4g} contexts a second"
        out.show(f"{headline}, {contexts}; latencies in ms, from when a request was due")
        if self.report is not None:
            from judged._load.page import to_html  # noqa: PLC0415 - jinja2 takes its time

            out.write("--report", self.report, [to_html({**whole, "warnings": out.warnings})])
            say(f"wrote {self.report}")
        return whole


@dataclass
class _Load:
    """Runs loads by a command's options; `kept` is the last run that passed, else the last."""

    command: LoadCommand
    target: str
    requests: Iterator[Request]
    arrivals: Callable[[float, float], Iterator[float]]
    seconds: float
    passed: bool = False
    kept: tuple[float, Outcome] = field(init=False)

    def put(self, rps: float) -> Step:
        """Run a load at a rate and return the result; ends early if --p99 is out of reach.

        Raises Problem if nothing was answered.
        """
        due = list(self.arrivals(rps, self.seconds))
        if not due:
            raise Problem(f"--duration: nothing is due in {self.seconds:g} s; take more, or --rps")
        is_search = self.command.p99 is not None
        bound = Bound(self.command.p99 or math.inf, len(due))
        outcome = asyncio.run(
            drive(
                self.target,
                due,
                self.requests,
                self.command.timeout,
                credentials=self.command.credentials(),
                go_on=bound.allows_more if is_search else lambda _: True,
            )
        )
        if not (total := outcome.total).answered:
            ((code, n),) = total.errors.most_common(1)
            raise Problem(f"no request was answered: {n} times {code}: {outcome.messages[code]}")
        step = bound.step(rps, outcome)
        if step.held or not self.passed:
            self.passed, self.kept = step.held, (rps, outcome)
        if is_search:
            verdict = "held" if step.held else "not held"
            say(f"{rps:.4g} a second: p99 {step.p99_ms:.1f} ms, {verdict}")
        return step


def _warnings(total: Tally, outcome: Outcome, *, late: bool) -> Iterator[str]:
    """Yield warnings about the result."""
    if late:
        yield (
            f"the client was the bottleneck: requests left {outcome.late_ms:.1f} ms "
            f"late at their p99, and its thread worked {outcome.busy:.0%} of the time; take a "
            "lower rate, or load from several machines"
        )
    for code, count in sorted(total.errors.items()):
        failed = of_all(count, total.sent, "request")
        yield f"{failed} failed with {code}: {outcome.messages[code]}"
    if total.missing_verdicts:
        yield f"{of_all(total.missing_verdicts, total.contexts, 'verdict')} missing"
    if total.changed:
        yield f"{plural(total.changed, 'answer')} to a repeated request had other verdicts"


def _machine() -> dict[str, Any]:
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "python": platform.python_version(),
        "judged": metadata.version("judged"),
        "grpcio": metadata.version("grpcio"),
    }
