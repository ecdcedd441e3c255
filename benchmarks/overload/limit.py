"""What no service on gRPC's Python could exceed on this machine, whatever its policy.

Part of `overload` (`--limit`). The server is kept busy by the closed loop that measures its peak,
and beside it the clients of `goodput_10x` send nine times the peak to a second server, which
refuses every call in its first line and does nothing else (`refusing_server`). What the
clients spend on sending, and gRPC on taking calls in and turning them away, is then gone from the
same cores; what the judging server still gets done is the limit of `goodput_10x`. It is a generous
one: the work is done by a process that has its interpreter to itself. The light callers of
`light_caller_p99_ratio` are measured beside the same flood as well, with a server of their own that
has nothing else to do: what they lose then no order of the queue gives back.

goodput_limit_10x       work done beside nine times the peak of refusals, over the peak
health_p99_limit_ms     of health checks of the refusing server meanwhile, 20 a second; of all
                        rounds together
light_p99_ratio_limit   p99 of the light callers beside ten times the peak of refusals, over their
                        p99 when they are alone; of all rounds together
refused_a_s             calls that were refused a second
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from benchmarks.harness import serving
from benchmarks.overload.clients import (
    AT_ONCE,
    LEAD_S,
    LIGHT_SHARE,
    MIX,
    PROBES_A_S,
    Clients,
    Load,
    Spell,
    percentile,
    start,
)
from benchmarks.overload.worker import HEALTH, Row

REFUSED_OVER_PEAK = 9.0
"""Of ten times the peak one is done."""


def measure_limit(rounds: int, spell_s: float, flags: Sequence[str]) -> dict[str, list[float]]:
    """Return the samples of each figure; the first round is left out."""
    samples: dict[str, list[float]] = {}
    health: list[Row] = []
    light: tuple[list[Row], list[Row]] = ([], [])
    with ExitStack() as stack:
        load = start(stack, spell_s, flags)
        refusing = stack.enter_context(serving("benchmarks.overload.refusing_server"))
        flood, probes = (Clients(stack, refusing.address) for _ in range(2))
        load.peak(MIX)
        for number in range(rounds):
            peak = load.peak(MIX)
            rate = peak.done_a_s
            worked, refused, probed = _together(
                load,
                (load.hog, [load.plan(MIX, at_once=AT_ONCE)]),
                (flood, [load.plan(MIX, rate=REFUSED_OVER_PEAK * rate)]),
                (probes, [load.plan(HEALTH, rate=PROBES_A_S)]),
            )
            alone = _together(load, (load.others, load.light(LIGHT_SHARE * rate, spell_s)))
            *beside, _ = _together(
                load,
                (load.others, load.light(LIGHT_SHARE * rate, spell_s)),
                (flood, [load.plan(MIX, rate=(REFUSED_OVER_PEAK + 1) * rate)]),
            )
            found = {
                "goodput_limit_10x": worked.work_a_s / peak.work_a_s,
                "refused_a_s": len(refused.refused) / spell_s,
            }
            print("; ".join(f"{name} {value:.2f}" for name, value in found.items()), flush=True)
            if number:
                health += probed.rows
                for rows, spells in zip(light, (alone, beside), strict=True):
                    rows += [row for spell in spells for row in spell.answered]
                for name, value in found.items():
                    samples.setdefault(name, []).append(value)
    alone_p99, beside_p99 = (percentile(rows, 99) for rows in light)
    return samples | {
        "health_p99_limit_ms": [percentile(health, 99)],
        "light_p99_ratio_limit": [beside_p99 / alone_p99 if alone_p99 else 0.0],
    }


def _together(load: Load, *work: tuple[Clients, Sequence[dict[str, Any]]]) -> list[Spell]:
    """Run streams of several processes side by side; return what became of each, in order."""
    load.settle()
    for clients, plans in work:
        clients.prepare(plans)
    instant = time.perf_counter() + LEAD_S
    for clients, _ in work:
        clients.start(instant)
    rows = (rows for clients, _ in work for rows in clients.rows())
    return [Spell(stream, load.spell_s) for stream in rows]
