"""`judged canary record` and `judged canary check`: whether a judge has changed.

`judged.canary` asks the judge, and defines the files.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from judged._views import plural, row_of
from judged.canary import (
    ASKS,
    ROUNDS,
    Canary,
    CanaryItem,
    Check,
    History,
    check_canary,
    record_canary,
)
from judged.cli.frame import Document, arg, opt
from judged.cli.inputs import ContextFile, Line, check_expectations
from judged.cli.judging import CascadeOptions, MaxCost
from judged.cli.output import Output, Problem, say
from judged.cli.server import JudgingCommand
from judged.evaluation import FileError

ENOUGH_ITEMS = 20
_IDENTITY = "signature models"
NOISY = 0.1
"""The largest share of differing verdicts for which docs/ci.md says how soon a change shows."""


class RecordCommand(CascadeOptions, MaxCost):
    """Record a judge's verdicts on fixed items, and how often they vary.

    Examples:
    judged canary record contexts.jsonl -o judge.canary.json --judge llm
    judged canary record contexts.jsonl -o judge.canary.json --judge semantic --asks 10
    """

    items: str = arg(
        "CONTEXTS.jsonl",
        "Lines of {query, expected_text, retrieved_text}, as for `judged judge`; 50 are enough.",
    )
    output: str = opt("CANARY.json", "Where the canary goes.", None, writes=True, required=True)
    min_score: float | None = opt("X", "Score from which a verdict is relevant.")
    asks: int = opt(
        "N",
        "How often each item is asked; the first 11, or half, choose its verdict, the others "
        "measure how noisy the judge is.",
        ASKS,
        low=2,
    )

    def run(self, out: Output) -> Document:
        """Ask, and write the canary."""
        lines = ContextFile(self.items)
        with self.asking("recording", self.asks) as (client, info, how):
            spec = self.spec(info, self.min_score)
            check_expectations(out, spec, lines, client)
            how |= {"asks": self.asks, "max_cost": self.max_cost}
            canary = record_canary(client, list(map(_item, lines)), spec, **how)
        canary.write(self.output)
        n, noisy = len(canary.items), sum(item.flips > 0 for item in canary.items)
        flips, asks, share = canary.flips, canary.asks, canary.evidence().share
        say(f"{canary.signature}{_answered_by(canary.models)}")
        out.show(
            f"{n} items recorded in {self.output}; a verdict differs from the recorded one in "
            f"{share:.1%} of asks ({flips} of {asks}), on {noisy} items"
        )
        if n < ENOUGH_ITEMS:
            out.warn(
                f"{n} items are few: it takes long to see a change; take {ENOUGH_ITEMS} or more"
            )
        if share > NOISY:
            out.warn(
                f"{noisy} of {n} items changed their verdict between rounds, so small changes of "
                "the judge don't show; lower --judge-temperature, raise --judge-samples, or take "
                "items on which it is more certain"
            )
        counted = {"items": n, "flips": flips, "asks": asks, "share": share, "noisy_items": noisy}
        return counted | row_of(canary, _IDENTITY)


class CheckCommand(JudgingCommand, MaxCost):
    """Ask again, and end with 1 if the judge has changed since it was recorded.

    Examples:
    judged canary check judge.canary.json
    judged canary check judge.canary.json --rounds 1 --json check.json
    """

    canary: str = arg("CANARY.json", "What `judged canary record` wrote.")
    history: str | None = opt(
        "FILE",
        "Where the checks are kept, a line each; by default beside CANARY.json, as "
        "CANARY.history.jsonl.",
        writes=True,
    )
    rounds: int = opt(
        "N",
        "How often each item is asked at most: again while it flips more than it used to.",
        ROUNDS,
        low=1,
    )
    false_alarms: float = opt(
        "P",
        "The probability that a judge that never changes raises an alarm, ever.",
        0.05,
        low=0.0001,
        high=0.5,
    )

    def check_files(self) -> None:
        """Set the default file of the history, then check all files."""
        self.history = self.history or f"{Path(self.canary).with_suffix('')}.history.jsonl"
        super().check_files()

    def run(self, out: Output) -> Document:
        """Ask, and compare the answers with the recorded ones."""
        canary, kept = Canary.read(self.canary), self.history or ""
        try:
            history = History.read(kept, canary)
        except FileError as error:
            step = "name a file that `judged canary check` has kept, or one that is not there yet"
            raise Problem(f"{error}; --history: {step}") from error
        if history.others:
            say(f"{kept}: {history.others} checks are of another recording, and are not counted")
        with self.asking("checking", self.rounds) as (client, _, how):
            how |= {"rounds": self.rounds, "max_cost": self.max_cost}
            found = check_canary(client, canary, history, **how)
        level = math.log(1 / self.false_alarms)
        out.worse = history.highest >= level
        out.warn(*_other_judge(canary, found))
        asks, flips = sum(found.asked.values()), sum(found.flips.values())
        rounds, usual = len(found.rounds), canary.evidence().share
        if missing := rounds * len(canary.items) - asks:
            out.warn(f"{missing} of {missing + asks} asks have no verdict, and are left out")
        say(f"{found.signature}{_answered_by(found.models)}")
        out.show(
            f"{flips} of {asks} verdicts differ from the recorded ones ({flips / asks:.1%}; "
            f"{usual:.1%} when it was recorded), in {plural(rounds, 'round')}, check "
            f"{len(history.checks)}"
        )
        flipped = [
            {
                "id": item.item_id,
                "recorded": item.verdict.value,
                "flips": found.flips.get(item.item_id, 0),
                "asks": found.asked[item.item_id],
                "recorded_flips": item.flips,
                "recorded_asks": item.asks,
            }
            for item in canary.items
            if item.item_id in set(found.flipped())
        ]
        if flipped:
            out.show(f"flipped: {', '.join(found.flipped())}")
        now = f"evidence of a change {_exp(found.evidence[-1]):.3g}, an alarm is at"
        changed = "the judge has changed; this stays until it is recorded again"
        conclusion = changed if out.worse else "no sign that the judge has changed"
        out.show(f"{now} {1 / self.false_alarms:.4g}: {conclusion}")
        return {
            "changed": out.worse,
            "evidence": _exp(found.evidence[-1]),
            "highest_evidence": _exp(history.highest),
            "alarm_at": 1 / self.false_alarms,
            "checks": len(history.checks),
            "flips": flips,
            "asks": asks,
            "rounds": rounds,
            "share_recorded": usual,
            "flipped": flipped,
            "recorded_signature": canary.signature,
            "recorded_models": canary.models,
            **row_of(found, _IDENTITY),
        }


def _item(line: Line) -> CanaryItem:
    """Return the item of a line, with the line's id, else its number."""
    given, first = line.fields.get("id"), line.contexts[0]
    return CanaryItem(
        f"line {line.number}" if given is None else str(given),
        first.query,
        [context.expected_text for context in line.contexts],
        first.retrieved_text,
    )


def _answered_by(models: Sequence[str]) -> str:
    return f"; answered by {', '.join(models)}" if models else ""


def _other_judge(canary: Canary, found: Check) -> Iterator[str]:
    """Yield a warning for each direct sign that another judge answers; no statistics needed."""
    if found.fingerprint != canary.fingerprint:
        yield (
            f"the judge is set up differently: it was {canary.signature}, and is "
            f"{found.signature}; record it again if that is intended"
        )
    if set(found.models) - set(canary.models):
        yield (
            f"other models answer: {', '.join(found.models)}; when it was recorded "
            f"{', '.join(canary.models) or 'none reported its name'}"
        )


def _exp(log_value: float) -> float:
    return math.exp(min(log_value, 700.0))  # exp of much more overflows
