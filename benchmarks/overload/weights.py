"""Two tenants of the weights 1 and 3 who together ask for six times what the server can do.

Part of `overload` (`--weights`): the same requests and deadlines, each tenant in a process of its
own, with a token of its own. Each round measures the peak first, by a closed loop of the heavier
tenant alone.

share_of_one, share_of_three   of the work done in time over what the weights give: a quarter, three
                               quarters; 1 is exact
weights_goodput                what both got done over the peak
alone_over_peak                what the lighter tenant gets done over the peak while the other one
                               asks for nothing: idle capacity is used
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
"""Times the peak that each of them asks for."""


def tenants_file(folder: Path) -> tuple[Path, dict[str, str]]:
    """Write a file of the tenants; return it, and a token of each."""
    path = folder / "tenants.toml"
    path.write_text(
        "".join(f"[tenants.{name}]\nweight = {weight}\n" for name, weight in WEIGHTS.items())
    )
    tokens = {}
    for name in WEIGHTS:
        with changing(tokens_beside(path)) as held:
            held[0], tokens[name] = held[0].with_new(name, datetime.now(UTC), timedelta(0), None)
    return path, tokens


def measure_weights(rounds: int, spell_s: float, flags: Sequence[str]) -> dict[str, list[float]]:
    """Return the samples of each figure, of a server with these flags and two tenants."""
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
