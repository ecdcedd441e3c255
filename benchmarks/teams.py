"""Asks what it costs to be ready for several teams.

Two servers: one as it comes, and one with tenants, a token for each call, the port of metrics, an
audit log, and the ledger that tenants bring. The same work goes to both in the same round; a figure
is what the second does in a second over what the first does, 1 for no cost.

requests_on_over_off    requests of 64 contexts to the judge `exact`, 16 in flight
requests_cpu_off_over_on    CPU seconds of the first server for these requests over the second's
contexts_on_over_off    30,000 contexts in one judge() call, `exact`
questions_on_over_off   contexts in one BatchJudge to the judge `llm`, whose scripted provider
                        answers after 20 ms, 64 at once
questions_cpu_off_over_on   CPU seconds, as above, for these questions
paid_on_over_off, paid_cpu_off_over_on    the same to a model with prices, by a tenant with a budget

    python -m benchmarks.teams [--rounds 9] [--calls 2000]
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import uvloop
from judged import Client, QueryGroup
from judged.credentials import Token

from benchmarks.fanout.processes import batch, provider_url, running, to_toml
from benchmarks.fanout.worker import PAID, configuration
from benchmarks.harness import closing_line, ratios, serving
from benchmarks.overload.weights import tenants_file
from benchmarks.wire import SEED, batch_seconds, in_turns, small_request
from tests.conformance.prose import build_groups

LATENCY_S, AT_ONCE = 0.02, 64


def measure(rounds: int, calls: int, url: str) -> dict[str, list[float]]:
    """Return the samples of each figure; the first round warms up."""
    groups = [QueryGroup(g.query, g.expected, g.retrieved) for g in build_groups(SEED)]
    samples: dict[str, list[float]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        config = folder / "llm.toml"
        config.write_text(to_toml(configuration(url, AT_ONCE)))
        os.environ["XDG_STATE_HOME"] = str(folder)  # for the ledger
        path, tokens = tenants_file(folder)
        with path.open("a") as tenants:
            tenants.write("per_day = 1e8\n")  # of the last one, "three"
        token, payer = Token(tokens["one"]), Token(tokens["three"])
        off = stack.enter_context(serving("judged_server", "--llm-config", str(config)))
        on = stack.enter_context(
            serving(
                *("judged_server", "--llm-config", str(config), "--tenants", str(path)),
                *("--metrics-listen", "127.0.0.1:0", "--audit-log", str(folder / "audit.jsonl")),
            )
        )
        clients = (
            stack.enter_context(Client(on.address, credentials=token)),
            stack.enter_context(Client(off.address)),
        )
        gc.collect()
        gc.freeze()
        for number in range(rounds + 1):
            before = on.cpu_seconds(), off.cpu_seconds()
            turns = uvloop.run(in_turns(on.address, off.address, small_request(groups), token))
            seconds_on, seconds_off = zip(*turns, strict=True)
            cpu_on, cpu_off = on.cpu_seconds() - before[0], off.cpu_seconds() - before[1]
            # Who begins changes: what the first of two leaves behind meets either side as often.
            swapped = number % 2 == 1
            order = clients[::-1] if swapped else clients
            wholes = [batch_seconds(client, groups) for client in order]
            # New texts each time: nothing may come from a cache.
            seed = time.time_ns()
            sides = [(off, None, None), (on, token, payer)][:: 1 if swapped else -1]
            asked = [
                batch(server, calls, seed + place, credentials=shown)
                for place, (server, shown, _) in enumerate(sides)
            ]
            paid = [
                batch(server, calls, seed + place + 2, PAID, shown)
                for place, (server, _, shown) in enumerate(sides)
            ]
            if swapped:
                wholes, asked, paid = wholes[::-1], asked[::-1], paid[::-1]
            found = {
                "requests_on_over_off": statistics.median(ratios(seconds_off, seconds_on)),
                "requests_cpu_off_over_on": cpu_off / cpu_on,
                "contexts_on_over_off": wholes[1] / wholes[0],
                "questions_on_over_off": asked[1]["wall_s"] / asked[0]["wall_s"],
                "questions_cpu_off_over_on": asked[1]["cpu_s"] / asked[0]["cpu_s"],
                "paid_on_over_off": paid[1]["wall_s"] / paid[0]["wall_s"],
                "paid_cpu_off_over_on": paid[1]["cpu_s"] / paid[0]["cpu_s"],
            }
            print("; ".join(f"{name} {value:.3f}" for name, value in found.items()), flush=True)
            for name, value in found.items() if number else ():
                samples.setdefault(name, []).append(value)
    return samples


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.teams")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=2000, help="questions in a round")
    arguments = parser.parse_args()
    with running("benchmarks.fanout.provider", str(LATENCY_S)) as provider:
        samples = measure(arguments.rounds, arguments.calls, provider_url(provider))
    facts = {"calls": arguments.calls, "latency_s": LATENCY_S, "at_once": AT_ONCE}
    print(closing_line("teams", samples, facts=facts))


if __name__ == "__main__":
    main()
