"""The server under load, its clients, and what became of their requests."""

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
"""Seconds until as much waits as will: work that is let in then ends some .4 s later."""
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
        """Let it make the requests."""
        self._write(json.dumps(plans))
        self._read()

    def start(self, instant: float) -> None:
        """Let it send them from this instant on."""
        self._write(repr(instant))

    def rows(self) -> list[list[Row]]:
        """Return what became of them, stream by stream, when all have ended."""
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
    """What became of the requests of one stream that ran for some seconds."""

    rows: list[Row]
    seconds: float

    @property
    def answered(self) -> list[Row]:
        """Those answered in time."""
        return [row for row in self.rows if row[2] == "OK"]

    @property
    def done(self) -> list[Row]:
        """Those answered once the queue has filled, and before the spell was over."""
        return [row for row in self.answered if FILLED_S < row[0] + row[1] <= self.seconds]

    @property
    def refused(self) -> list[Row]:
        """Those turned away."""
        return [row for row in self.rows if row[2] == "RESOURCE_EXHAUSTED"]

    @property
    def work_a_s(self) -> float:
        """Work done in time in a second."""
        return sum(row[3] for row in self.done) / (self.seconds - FILLED_S)

    @property
    def done_a_s(self) -> float:
        """Requests done in time in a second."""
        return len(self.done) / (self.seconds - FILLED_S)

    @property
    def codes(self) -> str:
        """How many ended in which way."""
        counted = Counter(row[2] for row in self.rows)
        return ", ".join(f"{code} {count}" for code, count in counted.most_common())

    @property
    def late_share(self) -> float:
        """Share of those not refused that were not answered in time."""
        admitted = len(self.rows) - len(self.refused)
        return 1 - len(self.answered) / admitted if admitted else 0.0


def percentile(rows: Iterable[Row], percent: float) -> float:
    """Return the latency in ms that so many per cent do not exceed; 0 without rows."""
    tally = Tally([row[1] for row in rows])
    return tally.milliseconds(percent) if tally.answered else 0.0


@dataclass(slots=True)
class Load:
    """The server under load, its clients, and what was measured so far."""

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
        """Run streams side by side; those of `others` in a process that has time for them."""
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
        """Return when the server is idle."""
        ends = time.monotonic() + SETTLE_S
        while time.monotonic() < ends:
            before = self.server.cpu_seconds()
            time.sleep(0.2)
            if self.server.cpu_seconds() - before <= 0.02:
                return

    def peak(self, mix: str) -> Spell:
        """Return a closed loop that keeps the server busy."""
        ((peak,), _) = self.run([self.plan(mix, at_once=AT_ONCE)])
        return peak

    def light(self, rate: float, seconds: float) -> list[dict[str, Any]]:
        """Return the streams of the light callers, who send `rate` requests a second together."""
        return [
            self.plan(SMALL, rate=rate / LIGHT_CALLERS) | {"seconds": seconds}
            for _ in range(LIGHT_CALLERS)
        ]

    def round(self, *, counted: bool) -> None:
        """Measure everything once."""
        found: dict[str, float] = {}
        peak = self.peak(MIX)
        rate = peak.done_a_s
        told = [f"peak {rate:.0f} requests/s"]
        for factor, name in ((0.9, "09x"), (3, "3x"), (10, "10x")):
            (spell,), _ = self.run([self.plan(MIX, rate=factor * rate)])
            found[f"goodput_{name}"] = spell.work_a_s / peak.work_a_s
            told.append(f"{factor}x {found[f'goodput_{name}']:.2f} ({spell.codes})")
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
        told.append(f"heavy 10x {found['goodput_heavy_mix_10x']:.2f} ({heavy.codes})")
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
        told.append(f"light {found['light_caller_success']:.2f} of {len(during)}")
        print("; ".join(told), flush=True)
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
    """Return the slowest health check, in ms, while work is done; at least two seconds of them."""
    with ExitStack() as stack:
        clients = Clients(stack, server.address)
        plan = {"mix": HEALTH, "rate": PROBES_A_S, "seconds": INFLATING_S, "seed": SEED}
        clients.prepare([plan])
        clients.start(time.perf_counter() + LEAD_S)
        work()
        (rows,) = clients.rows()
        return percentile(rows, 100)
