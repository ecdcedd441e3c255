"""Puts a load on any deployment and tells its latency: an open-loop generator for users.

    python -m benchmarks.load --target 127.0.0.1:8470 --rps 20 --duration 60 \
        --mix semantic:1x10=3,token_overlap:3x10x8@100=1

Requests are due at random instants (Poisson) or evenly (`--arrivals fixed`), and leave when they
are due whether or not earlier ones are back; latency runs from the due instant. Nothing is sent
again after a failure: failures are counted by gRPC code, and verdicts without an answer beside
them. The last line is one JSON object.

Exit status: 0 fine, 1 when not every request was answered with every verdict, 2 a bad flag or no
server at the target.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys

from judged import Client
from judged.errors import JudgedError

from benchmarks.harness import machine
from benchmarks.load.open_loop import PERCENTILES, Outcome, Tally, arrivals, drive
from benchmarks.load.request_mix import RequestMaker, parse_mix

LATE_MS = 5.0
"""A generator that sends later than this, at its 99th percentile, is part of what it measures."""


def main() -> int:
    """Put the load on and print."""
    arguments = _parser().parse_args()
    maker = RequestMaker(arguments.mix, arguments.seed, arguments.repeat)
    due = list(
        arrivals(
            arguments.rps,
            arguments.duration,
            poisson=arguments.arrivals == "poisson",
            seed=arguments.seed,
        )
    )
    try:
        with Client(arguments.target) as client:
            version = client.server_info(timeout=10).version
            target = client.target
    except JudgedError as error:
        print(f"load: {error}", file=sys.stderr)
        return 2
    outcome = asyncio.run(drive(target, due, maker.make, arguments.timeout))
    facts: dict[str, object] = {
        "target": target,
        "server": version,
        "rps": arguments.rps,
        "arrivals": arguments.arrivals,
        "duration_s": arguments.duration,
        "repeat": arguments.repeat,
        "seed": arguments.seed,
        "generator_late_p99_ms": outcome.lag.milliseconds(99),
    }
    for name, tally in series(outcome).items():
        print(describe(name, tally))
    if outcome.lag.milliseconds(99) > LATE_MS:
        print(
            f"the generator was {outcome.lag.milliseconds(99):.1f} ms late at its p99: take a "
            "lower rate, or another machine for it",
            file=sys.stderr,
        )
    print(json.dumps(document(outcome, facts)))
    total = outcome.total
    return int(total.answered != total.sent or total.missing_verdicts > 0)


def series(outcome: Outcome) -> dict[str, Tally]:
    """Return the tallies by name, all together first where there is more than one."""
    tallies = dict(sorted(outcome.tallies.items()))
    return {"all": outcome.total, **tallies} if len(tallies) > 1 else tallies


def describe(name: str, tally: Tally) -> str:
    """Return one line about the requests of a kind."""
    line = f"{name}: {tally.answered} of {tally.sent} answered"
    if tally.answered:
        told = (f"p{p:g} {tally.milliseconds(p):.1f}" for p in PERCENTILES if p < 100)
        line += f"; ms {', '.join(told)}, max {tally.milliseconds(100):.1f}"
    if tally.missing_verdicts:
        line += f"; {tally.missing_verdicts} verdicts missing"
    return line + "".join(f"; {code} {count}" for code, count in sorted(tally.errors.items()))


def document(outcome: Outcome, facts: dict[str, object]) -> dict[str, object]:
    """Return the JSON object of a run; latencies are null where nothing was answered."""
    seconds = outcome.seconds or 1.0
    kinds = {
        name: {
            "sent": tally.sent,
            "answered": tally.answered,
            "answered_a_s": round(tally.answered / seconds, 3),
            "contexts_a_s": round(tally.contexts / seconds, 3),
            "missing_verdicts": tally.missing_verdicts,
            "errors": dict(sorted(tally.errors.items())),
            "latency_ms": {
                f"p{p:g}": tally.milliseconds(p) if tally.answered else None for p in PERCENTILES
            },
        }
        for name, tally in series(outcome).items()
    }
    return {"benchmark": "load", "machine": machine(), "facts": facts, "requests": kinds}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.load", description="An open-loop load on a judge daemon."
    )
    parser.add_argument("--target", help="HOST:PORT or unix:PATH; default: JUDGED_TARGET")
    parser.add_argument("--rps", type=_positive, required=True, help="requests a second")
    parser.add_argument("--duration", type=_positive, required=True, help="seconds")
    parser.add_argument(
        "--mix",
        type=parse_mix,
        default="semantic:1x10",
        help="KIND[/PROFILE]:EXPECTEDxRETRIEVED[xGROUPS][@WORDS][=WEIGHT], with commas between "
        "(default semantic:1x10)",
    )
    parser.add_argument("--arrivals", choices=("poisson", "fixed"), default="poisson")
    parser.add_argument(
        "--repeat", type=_share, default=0.0, help="share of requests that repeat an earlier one"
    )
    parser.add_argument(
        "--timeout", type=_positive, default=30.0, help="seconds from due to answer"
    )
    parser.add_argument("--seed", type=int, default=1)
    return parser


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError("must be above 0")
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError("must be from 0 to 1")
    return value


if __name__ == "__main__":
    sys.exit(main())
