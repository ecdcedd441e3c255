"""`judged canary record` and `judged canary check`: whether a judge is still the one it was.

What is asked and what the files hold is in `judged.canary`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from judged.canary import Canary, CanaryItem, Check, History, check_canary, record_canary
from judged.canary.asking import ASKS, ROUNDS
from judged.canary.evidence import LEAST_FACTOR
from judged.cli.connection import connect
from judged.cli.inputs.contexts import Line, check_expectations, count_lines, read_contexts
from judged.cli.options import common
from judged.cli.options.asking import (
    MaxCost,
    ModelFlags,
    check_max_cost,
    named_as_typed,
    with_parameters,
)
from judged.cli.options.judges import JudgeFlags, stages_as_typed
from judged.cli.options.server import JudgingFlags
from judged.cli.output.writer import (
    check_apart,
    check_writable,
    new_table,
    progress_bar,
)
from judged.cli.problems import Problem, explained
from judged.evaluation import FileError

FALSE_ALARMS = 0.05

CanaryFile = Annotated[
    str, typer.Argument(metavar="CANARY.json", help="What `judged canary record` wrote.")
]
HistoryFile = Annotated[
    str | None,
    typer.Option(
        "--history",
        metavar="FILE",
        help="Where the checks are kept, a line each; by default beside CANARY.json, as "
        "CANARY.history.jsonl.",
    ),
]


def record(
    items: Annotated[
        str,
        typer.Argument(
            metavar="CONTEXTS.jsonl",
            help="Lines of {query, expected_text, retrieved_text}, as for `judged judge`; 50 will "
            "do.",
        ),
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="CANARY.json", help="Where the canary goes.")
    ],
    judge: common.JudgeKind = None,
    profile: common.Profile = None,
    min_score: common.MinScore = None,
    *,
    of_judge: JudgeFlags,
    model: ModelFlags,
    asks: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=2,
            help="How often each item is asked; the first 11, or half, choose its verdict, the "
            "others measure how noisy the judge is.",
        ),
    ] = ASKS,
    max_cost: MaxCost = None,
    shared: JudgingFlags,
) -> None:
    """Record what a judge says of fixed items, and how often it says something else."""
    out = shared.output()
    check_writable(output, "--output")
    check_apart({"CONTEXTS.jsonl": items}, output=output, json=shared.json_to)
    judge = of_judge.kind(judge)
    flags = model.parameters(judge)
    given = with_parameters(flags, of_judge.param)
    check_max_cost(max_cost)
    with out.told_misspellings():
        lines = list(read_contexts(items))
    with (
        connect(shared) as server,
        named_as_typed(flags),
        stages_as_typed(judge, of_judge.stage),
        explained(),
        progress_bar("recording", asks) as progress,
    ):
        spec = of_judge.judge(server.info, judge, profile, min_score, given)
        check_expectations(out, items, spec, count_lines(lines), server.client)
        canary = record_canary(
            server.client,
            list(map(_item, lines)),
            spec,
            asks=asks,
            max_cost=max_cost,
            timeout=shared.timeout,
            progress=progress,
        )
    canary.write(output)
    noisy = sum(item.flips > 0 for item in canary.items)
    share = canary.flips / canary.asks if canary.asks else 0.0
    out.note(f"{canary.signature}{_answered_by(canary.models)}")
    out.show(
        f"{len(canary.items)} items recorded in {output}; a verdict differs from the recorded one "
        f"in {share:.1%} of asks ({canary.flips} of {canary.asks}), on {noisy} items"
    )
    if len(canary.items) < ENOUGH_ITEMS:
        out.warn(
            f"{len(canary.items)} items are few: it takes long to see a change; take "
            f"{ENOUGH_ITEMS} or more"
        )
    if share > NOISY:
        out.warn(
            f"{noisy} of {len(canary.items)} items ({noisy / len(canary.items):.0%}) changed their "
            "verdict between rounds, so a change shows only if more than "
            f"{min(1.0, share * LEAST_FACTOR):.0%} of verdicts differ then, and another judge that "
            "is as unsteady looks unchanged; lower --judge-temperature, raise --judge-samples, or "
            "take items on which the judge is surer"
        )
    out.write_json(
        {
            "items": len(canary.items),
            "flips": canary.flips,
            "asks": canary.asks,
            "share": share,
            "noisy_items": noisy,
            "signature": canary.signature,
            "models": list(canary.models),
            "system_fingerprints": list(canary.system_fingerprints),
            "warnings": out.warnings,
        }
    )
    out.finish()


ENOUGH_ITEMS = 20
NOISY = 0.1
"""The largest share of differing verdicts for which docs/ci.md says how soon a change shows."""


def check(
    canary_file: CanaryFile,
    history_file: HistoryFile = None,
    rounds: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="How often each item is asked at most: again while it flips more than it used to.",
        ),
    ] = ROUNDS,
    false_alarms: Annotated[
        float,
        typer.Option(
            metavar="P",
            min=0.0001,
            max=0.5,
            help="The probability that a judge that never changes raises an alarm, ever.",
        ),
    ] = FALSE_ALARMS,
    max_cost: MaxCost = None,
    *,
    shared: JudgingFlags,
) -> None:
    """Ask again, and end with 1 where the judge is no longer the one that was recorded."""
    out = shared.output()
    check_max_cost(max_cost)
    canary = Canary.read(canary_file)
    kept = history_file or str(Path(canary_file).with_suffix("")) + ".history.jsonl"
    check_writable(kept, "--history")
    check_apart({"CANARY.json": canary_file}, history=kept, json=shared.json_to)
    try:
        history = History.read(kept, canary)
    except FileError as error:
        step = "name a file that `judged canary check` has kept, or one that is not there yet"
        raise Problem(f"{error}; --history: {step}") from error
    if history.others:
        out.note(f"{kept}: {history.others} checks are of another recording and don't count")
    with (
        connect(shared) as server,
        explained(),
        progress_bar("checking", rounds) as progress,
    ):
        found = check_canary(
            server.client,
            canary,
            history,
            rounds=rounds,
            max_cost=max_cost,
            timeout=shared.timeout,
            progress=progress,
        )
    level = math.log(1 / false_alarms)
    changed = history.highest >= level
    out.warn(*_other_judge(canary, found))
    asks, flips = sum(found.asked.values()), sum(found.flips.values())
    usual = canary.flips / canary.asks if canary.asks else 0.0
    missing = len(found.rounds) * len(canary.items) - asks
    if missing:
        out.warn(f"{missing} of {missing + asks} asks have no verdict, and are left out")
    out.note(f"{found.signature}{_answered_by(found.models)}")
    out.show(
        f"{flips} of {asks} verdicts differ from the recorded ones ({flips / asks:.1%}; "
        f"{usual:.1%} when it was recorded), in {len(found.rounds)} "
        f"{'round' if len(found.rounds) == 1 else 'rounds'}, check {len(history.checks)}"
    )
    flipped = [item for item in canary.items if item.item_id in set(found.flipped())]
    if flipped:
        out.show("", flipped_table(flipped, found), "")
    out.show(_conclusion(history, level, false_alarms))
    out.write_json(
        {
            "changed": changed,
            "evidence": _exp(found.evidence[-1]),
            "highest_evidence": _exp(history.highest),
            "alarm_at": 1 / false_alarms,
            "checks": len(history.checks),
            "flips": flips,
            "asks": asks,
            "rounds": len(found.rounds),
            "share_recorded": usual,
            "flipped": [
                {
                    "id": item.item_id,
                    "recorded": item.verdict.value,
                    "flips": found.flips.get(item.item_id, 0),
                    "asks": found.asked[item.item_id],
                    "recorded_flips": item.flips,
                    "recorded_asks": item.asks,
                }
                for item in flipped
            ],
            "signature": found.signature,
            "recorded_signature": canary.signature,
            "models": list(found.models),
            "recorded_models": list(canary.models),
            "system_fingerprints": list(found.system_fingerprints),
            "warnings": out.warnings,
        }
    )
    out.finish(fell_short=changed)


def _item(line: Line) -> CanaryItem:
    """Return the item of a line, by its id or else its number."""
    given, first = line.fields.get("id"), line.contexts[0]
    return CanaryItem(
        f"line {line.number}" if given is None else str(given),
        first.query,
        [context.expected_text for context in line.contexts],
        first.retrieved_text,
    )


def flipped_table(items: Sequence[CanaryItem], found: Check) -> Table:
    """Return a row for each item that flips now, those that never did before first."""
    view = new_table("item", "query", "recorded", "flips now", "when recorded", names=2)
    for item in sorted(items, key=lambda item: item.flips / max(item.asks, 1)):
        now = f"{found.flips.get(item.item_id, 0)} of {found.asked[item.item_id]}"
        view.add_row(
            item.item_id, item.query, item.verdict.value, now, f"{item.flips} of {item.asks}"
        )
    return view


def _answered_by(models: Sequence[str]) -> str:
    return f"; answered by {', '.join(models)}" if models else ""


def _other_judge(canary: Canary, found: Check) -> list[str]:
    """Return a warning for all that shows, without any statistics, that another judge answers."""
    told = []
    if found.fingerprint != canary.fingerprint:
        told.append(
            f"the judge is set up differently: it was {canary.signature}, and is "
            f"{found.signature}; record anew if that is meant"
        )
    if set(found.models) - set(canary.models):
        told.append(
            f"other models answer: {', '.join(found.models)}; when it was recorded "
            f"{', '.join(canary.models) or 'none said its name'}"
        )
    new = set(found.system_fingerprints) - set(canary.system_fingerprints)
    if new and canary.system_fingerprints:
        told.append(f"the provider reports a new system fingerprint: {', '.join(sorted(new))}")
    return told


def _conclusion(history: History, level: float, false_alarms: float) -> str:
    evidence = history.checks[-1].evidence[-1]
    now = f"evidence of a change {_exp(evidence):.3g}, an alarm is at {math.exp(level):.4g}"
    if history.highest < level:
        return f"{now}: no sign that the judge has changed"
    first = next(check for check in history.checks if max(check.evidence) >= level)
    since = (
        "this check"
        if first is history.checks[-1]
        else f"the check of {first.checked_at.isoformat(timespec='minutes')}"
    )
    return (
        f"{now}: the judge has changed; the alarm began with {since} and stays until it is "
        f"recorded anew. An unchanged judge gets here with a probability of {false_alarms:g} at "
        "most"
    )


def _exp(log_value: float) -> float:
    return math.exp(min(log_value, 700.0))  # about the largest that has a number
