"""Gates: what a metric must reach, and how far it may fall, for a command to end with 0.

Owns their syntax, the check against an earlier document, and the lines that say what fell short.
A gate that can't be checked (no such metric, another signature) is a problem, exit status 2, and
found before a result is printed where that is possible; a gate that fell short is exit status 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from judged import MetricResult, MetricTable, NegativeReport
from judged.cli.output import Output
from judged.cli.problems import Problem
from judged.cli.report_file import Report, read_report
from judged.cli.tables import of_all, plural, word

_ROUNDING = 1e-9
"""A mean printed equal to the bar passes it."""


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate as it was typed: its flag, the metric (empty for negatives) and the number."""

    flag: str
    metric: str
    bar: float

    def __str__(self) -> str:
        return f"{self.flag} {self.metric}{'=' if self.metric else ''}{self.bar:g}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a gate. `value` is the mean, drop or count; None where there is no mean."""

    gate: Gate
    value: float | None
    passed: bool
    message: str


class Gates:
    """The gates of one command over the metrics that it asks for."""

    def __init__(
        self,
        metrics: Sequence[str],
        min_scores: Sequence[str],
        max_drops: Sequence[str],
        baseline: Path | None,
        *,
        max_negatives: int | None = None,
        allow_other_signature: bool,
    ) -> None:
        """Read the gates and the baseline. Raises Problem and FileError."""
        self._metrics = list(metrics)
        self._gates = [_read(text, "--min-score", self._metrics) for text in min_scores]
        drops = [_read(text, "--max-drop", self._metrics) for text in max_drops]
        self._gates += drops
        self._max_negatives = max_negatives
        self._allow = allow_other_signature
        if drops and baseline is None:
            raise Problem(
                f"{drops[0]}: needs --baseline FILE, the JSON document of the run to compare with"
            )
        if baseline is not None and not drops:
            raise Problem(f"--baseline {baseline}: has no use without --max-drop METRIC=X")
        self._baseline = None if baseline is None else read_report(baseline)

    def check(
        self,
        table: MetricTable,
        signature: str | None,
        out: Output,
        negatives: NegativeReport | None = None,
    ) -> list[Outcome]:
        """Return the outcome of every gate. Raises Problem for one that can't be checked.

        `signature` is that of the judge, None when nobody judged.
        """
        outcomes = []
        for gate in self._gates:
            metric = table.metrics[self._metrics.index(gate.metric)]
            if gate.flag == "--max-drop" and self._baseline is not None:
                before = self._comparable(self._baseline, metric, signature, out)
                outcomes.append(_drop(gate, metric, before))
            else:
                outcomes.append(_score(gate, metric))
        if self._max_negatives is not None:
            outcomes.append(_negatives(self._max_negatives, negatives))
        return outcomes

    def _comparable(
        self, report: Report, metric: MetricResult, signature: str | None, out: Output
    ) -> float:
        before = report.metric(metric.name)
        if before.mean is None:
            raise Problem(f"--baseline {report.name}: {metric.name} has no mean there")
        for what, theirs, ours in (
            (metric.name, before.signature, metric.signature),
            ("the judge", report.signature or "none", signature or "none"),
        ):
            if theirs != ours:
                difference = f"{what} is {theirs} there and {ours} here"
                if not self._allow:
                    raise Problem(
                        f"--baseline {report.name}: {difference}; make a new baseline, or pass "
                        "--allow-other-signature"
                    )
                out.warn(f"--baseline {report.name}: {difference}")
        if before.n != metric.n:
            out.warn(
                f"--baseline {report.name}: {metric.name} is a mean of "
                f"{plural(before.n, 'query', 'queries')} there and of {metric.n} here"
            )
        return before.mean


def finish(out: Output, outcomes: Sequence[Outcome]) -> None:
    """End the command: with 1 when a gate fell short, after a line for each that did."""
    failed = [outcome for outcome in outcomes if not outcome.passed]
    for outcome in failed:
        out.note(outcome.message)
    out.finish(fell_short=bool(failed))


def gates_document(outcomes: Sequence[Outcome]) -> dict[str, object]:
    """Return what the JSON document says of gates: nothing when there are none."""
    if not outcomes:
        return {}
    return {
        "gates": [
            {
                "gate": outcome.gate.flag.removeprefix("--").replace("-", "_"),
                "metric": outcome.gate.metric or None,
                "bar": outcome.gate.bar,
                "value": outcome.value,
                "passed": outcome.passed,
            }
            for outcome in outcomes
        ]
    }


def split_min_scores(texts: Sequence[str]) -> tuple[float | None, list[str]]:
    """Return the judge's bar (a bare number, or None) and the gates (METRIC=X). Raises Problem."""
    gates = [text for text in texts if "=" in text]
    bars = [text for text in texts if "=" not in text]
    if len(bars) > 1:
        raise Problem(
            f"--min-score {bars[1]}: the judge's bar is {bars[0]} already; a gate is written "
            "METRIC=X, as in ndcg@10=0.8"
        )
    if not bars:
        return None, gates
    bar = read_number(bars[0])
    if bar is None:
        raise Problem(
            f"--min-score {bars[0]}: is not a number; the judge's bar is written 0.7, a gate "
            "METRIC=X, as in ndcg@10=0.8"
        )
    return bar, gates


def _read(text: str, flag: str, metrics: Sequence[str]) -> Gate:
    metric, equals, number = text.rpartition("=")
    bar = read_number(number)
    if not equals or not metric or bar is None:
        raise Problem(f"{flag} {text}: is not METRIC=X, as in ndcg@10=0.8")
    if metric not in metrics:
        raise Problem(
            f"{flag} {text}: {metric} is not measured; add --metric {metric}, or name one of "
            f"{', '.join(metrics)}"
        )
    if bar < 0 and flag == "--max-drop":
        raise Problem(f"{flag} {text}: a drop is 0 or more")
    return Gate(flag, metric, bar)


def read_number(text: str) -> float | None:
    """Return the finite number that a text is, as people write one; None when it is none."""
    # float() takes more than people write: "1_0" is ten to it, and so are digits of other scripts.
    if "_" in text or not text.isascii():
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _score(gate: Gate, metric: MetricResult) -> Outcome:
    if metric.mean is None:
        return _no_mean(gate, metric)
    short = gate.bar - metric.mean
    message = f"fell short: {metric.name} is {metric.mean:.4f}, {_size(short)} below {gate}"
    return Outcome(gate, metric.mean, short <= _ROUNDING, message)


def _drop(gate: Gate, metric: MetricResult, before: float) -> Outcome:
    if metric.mean is None:
        return _no_mean(gate, metric)
    drop = before - metric.mean
    message = (
        f"fell short: {metric.name} fell from {before:.4f} to {metric.mean:.4f}, by "
        f"{_size(drop - gate.bar)} more than {gate} allows"
    )
    return Outcome(gate, drop, drop <= gate.bar + _ROUNDING, message)


def _negatives(most: int, report: NegativeReport | None) -> Outcome:
    gate = Gate("--max-negatives", "", most)
    if report is None:
        raise Problem(f"{gate}: the data set has no negative_answers; add some, or drop the gate")
    found = len(report.matches)
    missing = report.counts.total - report.counts.ok
    message = (
        f"fell short: {plural(found, 'retrieved text matches', 'retrieved texts match')} a "
        f"negative answer, {found - most} more than {gate} allows"
    )
    if missing:
        message = (
            f"fell short: {of_all(missing, report.counts.total, 'verdict', 'verdicts')} on "
            f"negative answers {word(missing, 'is', 'are')} "
            f"missing, so that {gate} can't be vouched for"
        )
    return Outcome(gate, found, found <= most and not missing, message)


def _no_mean(gate: Gate, metric: MetricResult) -> Outcome:
    message = f"fell short: {metric.name} has no mean, since no query was evaluated, for {gate}"
    return Outcome(gate, None, False, message)


def _size(amount: float) -> str:
    """Return an amount with four decimals, or with as many as it takes not to be 0."""
    return f"{amount:.4f}" if amount >= 0.00005 else f"{amount:.2g}"
