"""What no service on gRPC's Python could exceed on this machine, whatever its policy.

Part of `overload` (`--limit`). The server is kept busy by the closed loop that measures its peak,
and beside it the clients of `goodput_10x` send nine times the peak to a second server, which
refuses every call in its first line and does nothing else (`refusing_server`). What the
clients spend on sending, and gRPC on taking calls in and turning them away, is then gone from the
same cores; what the judging server still gets done is the limit of `goodput_10x`. It is a generous
one: the work is done by a process that has its interpreter to itself.

goodput_limit_10x       work done beside nine times the peak of refusals, over the peak
health_p99_limit_ms     of health checks of the refusing server meanwhile, 20 a second; of all
                        rounds together
refused_a_s             calls that were refused a second
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack

from benchmarks.harness import serving
from benchmarks.overload.clients import (
    AT_ONCE,
    LEAD_S,
    MIX,
    PROBES_A_S,
    Clients,
    Spell,
    percentile,
    start,
)
from benchmarks.overload.worker import HEALTH, Row

REFUSED_OVER_PEAK = 9.0


def measure_limit(rounds: int, spell_s: float, flags: Sequence[str]) -> dict[str, list[float]]:
    """Return the samples of each figure; the first round is left out."""
    samples: dict[str, list[float]] = {}
    health: list[Row] = []
    with ExitStack() as stack:
        load = start(stack, spell_s, flags)
        refusing = stack.enter_context(serving("benchmarks.overload.refusing_server"))
        flood, probes = (Clients(stack, refusing.address) for _ in range(2))
        load.peak(MIX)
        for number in range(rounds):
            peak = load.peak(MIX)
            rate = REFUSED_OVER_PEAK * peak.done_a_s
            load.settle()
            load.hog.prepare([load.plan(MIX, at_once=AT_ONCE)])
            flood.prepare([load.plan(MIX, rate=rate)])
            probes.prepare([load.plan(HEALTH, rate=PROBES_A_S)])
            instant = time.perf_counter() + LEAD_S
            for clients in (load.hog, flood, probes):
                clients.start(instant)
            worked, refused, probed = (
                Spell(clients.rows()[0], spell_s) for clients in (load.hog, flood, probes)
            )
            found = {
                "goodput_limit_10x": worked.work_a_s / peak.work_a_s,
                "refused_a_s": len(refused.refused) / spell_s,
            }
            print("; ".join(f"{name} {value:.2f}" for name, value in found.items()), flush=True)
            if number:
                health += probed.rows
                for name, value in found.items():
                    samples.setdefault(name, []).append(value)
    return samples | {"health_p99_limit_ms": [percentile(health, 99)]}
