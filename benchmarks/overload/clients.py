"""Runs the server under load and its clients, and records the outcome of requests."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from judged._load.open_loop import Tally

from benchmarks.harness import ROOT, Server, serving
from benchmarks.memory import memory_mb
from benchmarks.overload.worker import HEALTH, Row

SEED = 17
SMALL, LARGE = "semantic:1x2@40", "semantic:1x15@60"
MIX = SMALL
HEAVY_MIX = f"{SMALL}=15,{LARGE}=2"
AT_ONCE = 8
LIGHT_CALLERS, LIGHT_SHARE = 4, 0.2
PROBES_A_S = 20.0
AFTER_S = 4.0
SETTLE_S = 10.0
FILLED_S = 1.0
"""Seconds until the queue is full: work admitted then ends about .4 s later."""
INFLATING_S = 6.0
LEAD_S = 0.3


class Clients:
    """A process of clients."""

    def __init__(self, stack: ExitStack, target: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.overload.worker", target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        stack.callback(self._process.wait)
        stack.callback(self._process.kill)

    def prepare(self, plans: Sequence[dict[str, Any]]) -> None:
        """Have the process build its requests."""
        self._write(json.dumps(plans))
        self._read()

    def start(self, instant: float) -> None:
        """Have the process send them from this instant on."""
        self._write(repr(instant))

    def rows(self) -> list[list[Row]]:
        """Return the outcomes of each stream, after all have ended."""
        rows: list[list[Row]] = json.loads(self._read())
        return rows

    def _write(self, line: str) -> None:
        if self._process.stdin is not None:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def _read(self) -> str:
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line:
            raise SystemExit("a process of clients ended")
        return line


@dataclass(slots=True)
class Spell:
    """The outcomes of one stream that ran for `seconds`."""

    rows: list[Row]
    seconds: float

    @property
    def answered(self) -> list[Row]:
        """Requests answered in time."""
        return [row for row in self.rows if row[2] == "OK"]

    @property
    def done(self) -> list[Row]:
        """Requests answered after the queue had filled and before the spell ended."""
        return [row for row in self.answered if FILLED_S < row[0] + row[1] <= self.seconds]

    @property
    def refused(self) -> list[Row]:
        """Requests refused with RESOURCE_EXHAUSTED."""
        return [row for row in self.rows if row[2] == "RESOURCE_EXHAUSTED"]

    @property
    def work_a_s(self) -> float:
        """Work done in time, in bytes a second."""
        return sum(row[3] for row in self.done) / (self.seconds - FILLED_S)

    @property
    def done_a_s(self) -> float:
        """Requests done in time a second."""
        return len(self.done) / (self.seconds - FILLED_S)

    @property
    def codes(self) -> str:
        """Number of requests by status code, as text."""
        counted = Counter(row[2] for row in self.rows)
        return ", ".join(f"{code} {count}" for code, count in counted.most_common())

    @property
    def late_share(self) -> float:
        """Share of admitted requests that were not answered in time."""
        admitted = len(self.rows) - len(self.refused)
        return 1 - len(self.answered) / admitted if admitted else 0.0


def percentile(rows: Iterable[Row], percent: float) -> float:
    """Return a percentile of the latencies in ms; 0 without rows."""
    tally = Tally([row[1] for row in rows])
    return tally.milliseconds(percent) if tally.answered else 0.0


@dataclass(slots=True)
class Load:
    """The server under load, its clients, and the measurements so far."""

    server: Server
    hog: Clients
    others: Clients
    spell_s: float
    seeds: random.Random = field(default_factory=lambda: random.Random(SEED))
    samples: dict[str, list[float]] = field(default_factory=dict)
    light_alone: list[Row] = field(default_factory=list)
    light_beside: list[Row] = field(default_factory=list)
    health: list[Row] = field(default_factory=list)
    most_mb: float = 0.0

    def plan(self, mix: str, **how: float) -> dict[str, Any]:
        """Return a stream of new requests."""
        return {"mix": mix, "seconds": self.spell_s, "seed": self.seeds.getrandbits(40), **how}

    def run(
        self, hog: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]] = ()
    ) -> tuple[list[Spell], list[Spell]]:
        """Run streams in parallel; `others` in a second process, which is not overloaded."""
        self.settle()
        self.hog.prepare(hog)
        self.others.prepare(others)
        instant = time.perf_counter() + LEAD_S
        self.hog.start(instant)
        self.others.start(instant)
        done = [clients.rows() for clients in (self.hog, self.others)]
        self.most_mb = max(self.most_mb, memory_mb(self.server.pid, "VmRSS"))
        plans = (hog, others)
        first, second = (
            [Spell(rows, plan["seconds"]) for rows, plan in zip(streams, planned, strict=True)]
            for streams, planned in zip(done, plans, strict=True)
        )
        return first, second

    def settle(self) -> None:
        """Wait until the server is idle, at most SETTLE_S."""
        ends = time.monotonic() + SETTLE_S
        while time.monotonic() < ends:
            before = self.server.cpu_seconds()
            time.sleep(0.2)
            if self.server.cpu_seconds() - before <= 0.02:
                return

    def peak(self, mix: str) -> Spell:
        """Return the outcome of a closed loop that keeps the server busy."""
        ((peak,), _) = self.run([self.plan(mix, at_once=AT_ONCE)])
        return peak

    def light(self, rate: float, seconds: float) -> list[dict[str, Any]]:
        """Return the streams of the light callers; together they send `rate` requests a second."""
        return [
            self.plan(SMALL, rate=rate / LIGHT_CALLERS) | {"seconds": seconds}
            for _ in range(LIGHT_CALLERS)
        ]

    def round(self, *, counted: bool) -> None:
        """Measure every figure once; `counted` is false for the warm-up."""
        found: dict[str, float] = {}
        peak = self.peak(MIX)
        rate = peak.done_a_s
        lines = [f"peak {rate:.0f} requests/s"]
        for factor, name in ((0.9, "09x"), (3, "3x"), (10, "10x")):
            (spell,), _ = self.run([self.plan(MIX, rate=factor * rate)])
            found[f"goodput_{name}"] = spell.work_a_s / peak.work_a_s
            lines.append(f"{factor}x {found[f'goodput_{name}']:.2f} ({spell.codes})")
            if name == "3x":
                found["refusal_p99_ms_3x"] = percentile(spell.refused, 99)
                found["refused_3x"] = len(spell.refused) / len(spell.rows)
                found["admitted_but_late"] = spell.late_share
                found["admitted_p99_ms_3x"] = percentile(spell.answered, 99)
        heavy_peak = self.peak(HEAVY_MIX)
        heavy_rate = heavy_peak.done_a_s
        (heavy,), _ = self.run([self.plan(HEAVY_MIX, rate=10 * heavy_rate)])
        found["goodput_heavy_mix_10x"] = heavy.work_a_s / heavy_peak.work_a_s
        found["goodput_heavy_mix_drop"] = found["goodput_10x"] - found["goodput_heavy_mix_10x"]
        lines.append(f"heavy 10x {found['goodput_heavy_mix_10x']:.2f} ({heavy.codes})")
        light = LIGHT_SHARE * rate
        _, alone = self.run([], self.light(light, self.spell_s))
        alone_p99 = percentile([row for s in alone for row in s.answered], 99)
        probes = [self.plan(HEALTH, rate=PROBES_A_S)]
        _, beside = self.run(
            [self.plan(MIX, rate=10 * rate)], self.light(light, self.spell_s + AFTER_S) + probes
        )
        *beside, health = beside
        during = [row for s in beside for row in s.rows if row[0] <= self.spell_s]
        after = [row for s in beside for row in s.rows if row[0] > self.spell_s]
        slow = [row for row in after if row[2] != "OK" or 1e3 * row[1] > 2 * alone_p99]
        found["recovery_s"] = max((row[0] for row in slow), default=self.spell_s) - self.spell_s
        served = [row for row in during if row[2] == "OK"]
        found["light_caller_success"] = len(served) / len(during)
        lines.append(f"light {found['light_caller_success']:.2f} of {len(during)}")
        print("; ".join(lines), flush=True)
        if not counted:
            return
        for name, value in found.items():
            self.samples.setdefault(name, []).append(value)
        self.light_alone += [row for s in alone for row in s.answered]
        self.light_beside += served
        self.health += health.rows


def start(stack: ExitStack, spell_s: float, flags: Sequence[str]) -> Load:
    """Return a server and its clients."""
    server = stack.enter_context(
        serving("judged_server", "--vector-cache", "off", "--log-level", "warning", *flags)
    )
    return Load(server, Clients(stack, server.address), Clients(stack, server.address), spell_s)


def watch_health(server: Server, work: Callable[[], None]) -> float:
    """Return the slowest health check, in ms, of INFLATING_S seconds in which `work` runs."""
    with ExitStack() as stack:
        clients = Clients(stack, server.address)
        plan = {"mix": HEALTH, "rate": PROBES_A_S, "seconds": INFLATING_S, "seed": SEED}
        clients.prepare([plan])
        clients.start(time.perf_counter() + LEAD_S)
        work()
        (rows,) = clients.rows()
        return percentile(rows, 100)
