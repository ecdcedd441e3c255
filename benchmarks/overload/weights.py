"""Measures the shares of two tenants of weights 1 and 3 at six times the server's capacity.

Part of `overload` (`--weights`): the same requests and deadlines; each tenant has its own process
and its own token. Each round measures the peak first, by a closed loop of the heavier tenant alone.

share_of_one, share_of_three   share of the work done in time over the share by weight: a quarter,
                               three quarters; 1 is exact
weights_goodput                work done for both over the peak
alone_over_peak                work done for the lighter tenant over the peak while the other is
                               idle: idle capacity is used
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from judged_server.tenants import changing, tokens_beside

from benchmarks.overload.clients import AT_ONCE, MIX, Load, start

WEIGHTS = {"one": 1, "three": 3}
OVER_PEAK = 3.0
"""Load of each tenant, in multiples of the peak."""


def tenants_file(folder: Path) -> tuple[Path, dict[str, str]]:
    """Write the file of tenants; return its path and a token for each."""
    path = folder / "tenants.toml"
    path.write_text(
        "".join(f"[tenants.{name}]\nweight = {weight}\n" for name, weight in WEIGHTS.items())
    )
    tokens = {}
    for name in WEIGHTS:
        with changing(tokens_beside(path)) as saved:
            saved[0], tokens[name] = saved[0].with_new(name, datetime.now(UTC), timedelta(0), None)
    return path, tokens


def measure_weights(rounds: int, spell_s: float, flags: Sequence[str]) -> dict[str, list[float]]:
    """Return the samples of each figure for a server with these flags and two tenants."""
    samples: dict[str, list[float]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        path, tokens = tenants_file(folder)
        load = start(stack, spell_s, ("--tenants", str(path), *flags))
        for number in range(rounds):
            found = _round(load, tokens)
            print("; ".join(f"{name} {value:.3f}" for name, value in found.items()), flush=True)
            for name, value in found.items() if number else ():
                samples.setdefault(name, []).append(value)
    return samples


def _round(load: Load, tokens: dict[str, str]) -> dict[str, float]:
    def plan(tenant: str, **how: float) -> dict[str, Any]:
        return load.plan(MIX, **how) | {"token": tokens[tenant]}

    (peak,), _ = load.run([plan("three", at_once=AT_ONCE)])
    rate = OVER_PEAK * peak.done_a_s
    (three,), (one,) = load.run([plan("three", rate=rate)], [plan("one", rate=rate)])
    (alone,), _ = load.run([plan("one", at_once=AT_ONCE)])
    both = one.work_a_s + three.work_a_s
    whole = sum(WEIGHTS.values())
    return {
        "share_of_one": one.work_a_s / both * whole / WEIGHTS["one"],
        "share_of_three": three.work_a_s / both * whole / WEIGHTS["three"],
        "weights_goodput": both / peak.work_a_s,
        "alone_over_peak": alone.work_a_s / peak.work_a_s,
    }
