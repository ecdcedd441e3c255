"""The options of commands that measure, and gates: what metrics must reach for a status of 0.

A gate is held against the worst case of what is missing. One that can't be checked (no such metric,
another signature) is a problem, exit status 2, and found before a result is printed where that is
possible. One that fell short is exit status 1, or 2 where nothing could be assessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from judged import IntervalMethod, IntervalOptions, MetricTable
from judged._inputs import read_number
from judged._views import of_all, plural, word
from judged.cli.documents import Report, read_report
from judged.cli.frame import Command, Strict, flag, many, opt
from judged.cli.output import Gate, Outcome, Output, Problem
from judged.report.summary import share
from judged.values import AnswerScore, MetricResult, NegativeReport, Status, VerdictCounts
from judged.values.metric_names import is_metric, may_be

LARGEST_SEED = 2**64 - 1
"""What the contract holds."""


@dataclass(kw_only=True)
class MetricsOptions(Command):
    """A command that computes metrics."""

    metric: Sequence[str] = many(
        "NAME", "Metric as in ndcg@10; may be repeated.", "--metric", "-m", required=True
    )
    per_query: bool = flag("Show the values of every query, not only the means.")


@dataclass(kw_only=True)
class Drawn(Command):
    """A command that draws samples."""

    confidence: float | None = opt("X", "Confidence of the intervals; 0.95.", low=0.5, high=0.9999)
    seed: int | None = opt("N", "Seed of the bootstrap; 0.", low=0, high=LARGEST_SEED)


@dataclass(kw_only=True)
class IntervalOption(Drawn):
    """How the intervals of means are made, for commands that show them where they are asked to."""

    interval: IntervalMethod | None = opt(None, "Show a confidence interval of every mean.")
    resamples: int | None = opt("N", "Resamples of the bootstrap; 10,000.", low=100, high=100_000)

    def how_sure(self) -> IntervalOptions | None:
        """Return the options of intervals, None when none of them was given."""
        named = {each.name: getattr(self, each.name, None) for each in fields(IntervalOptions)}
        named["method"] = self.interval
        return None if set(named.values()) == {None} else IntervalOptions.of(**named)


@dataclass(kw_only=True)
class MethodOption(IntervalOption):
    """How intervals are made, for commands that always show them."""

    interval: IntervalMethod | None = opt(None, "Method of the intervals; percentile.")


_ROUNDING = 1e-9
"""A mean printed equal to the threshold passes it."""


@dataclass(kw_only=True)
class AnySignature(Strict):
    """A command that compares documents, which should be made in one way."""

    allow_other_signature: bool = flag(
        "Compare numbers that were made in another way; a warning in place of a refusal."
    )


@dataclass(kw_only=True)
class GateOptions(AnySignature):
    """What the metrics of a command must reach."""

    min_score: Sequence[str] = many(
        "METRIC=X",
        "Gate: exit with 1 when the mean of the metric, or its lower bound where something is "
        "missing, is below X; may be repeated.",
    )
    max_drop: Sequence[str] = many(
        "METRIC=X",
        "Gate: exit with 1 when the mean is more than X below that of --baseline; may be repeated.",
    )
    baseline: str | None = opt(
        "FILE", "JSON document of an earlier run, for --max-drop.", reads=True
    )


@dataclass(kw_only=True)
class MinCoverage(Strict):
    """A command of which some results may be missing."""

    min_coverage: float | None = opt(
        "SHARE",
        "Gate: exit with 1 when a smaller share of what could be assessed has a verdict; 1 where "
        "there is another gate.",
        low=0,
        high=1,
    )


class Gates:
    """The gates of one command over the metrics that it asks for."""

    def __init__(
        self,
        options: GateOptions,
        metrics: Sequence[str],
        min_scores: Sequence[str] | None = None,
        *,
        max_negatives: int | None = None,
        min_coverage: float | None = None,
    ) -> None:
        """Read the gates and the baseline. Raises Problem and FileError."""
        self._metrics, self._max_negatives = list(metrics), max_negatives
        self._min_coverage = min_coverage
        self._allow = options.allow_other_signature
        means = options.min_score if min_scores is None else min_scores
        self._gates = [read_gate(text, "--min-score", self._metrics) for text in means]
        drops = [read_gate(text, "--max-drop", self._metrics) for text in options.max_drop]
        self._gates += drops
        baseline = options.baseline
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
        verdicts = table.counts.verdicts or VerdictCounts()
        left_out = table.counts.skipped_missing
        for gate in self._gates:
            metric = table.metrics[self._metrics.index(gate.metric)]
            if gate.typed:
                if gate.typed not in table:
                    raise Problem(_unmeasured(str(gate), gate.typed, self._metrics))
                metric = table[gate.typed]
                gate = replace(gate, metric=metric.name)  # noqa: PLW2901 - now that it is known
            lower = _lower_bound(metric, left_out)
            if metric.mean is None and (lower is None or not verdicts.ok):
                why = "since no query was evaluated"
                outcomes.append(not_assessed(gate, f"{metric.name} has no mean, {why}"))
            elif gate.flag == "--max-drop" and self._baseline is not None:
                before = self._comparable(self._baseline, metric, signature, out)
                worst = None if lower is None else before - lower
                outcomes.append(hold_drop(gate, metric.name, before, metric.mean, worst))
            else:
                outcomes.append(hold_mean(gate, metric.mean, lower))
        if self._max_negatives is not None:
            outcomes.append(_negatives(self._max_negatives, negatives))
        if not outcomes and self._min_coverage is None:
            return []
        missing = verdicts.error + verdicts.abstained
        covered: list[tuple[int, int, str]] = [(verdicts.ok, missing, "verdicts")]
        if negatives is not None and self._max_negatives is not None:
            counts = negatives.counts
            covered.append((counts.ok, counts.error + counts.abstained, "verdicts on negatives"))
        if left_out:
            covered.append((table.counts.evaluated, left_out, "topics of the qrels"))
        return [*outcomes, *coverage_outcomes(self._min_coverage, covered)]

    def _comparable(
        self, report: Report, metric: MetricResult, signature: str | None, out: Output
    ) -> float:
        """Return what a metric was, at best where verdicts were missing."""
        before = report.metric(metric.name)
        if before.mean is None:
            raise Problem(f"--baseline {report.name}: {metric.name} has no mean there")
        ways = [(metric.name, metric.signature), ("the judge", signature or "none")]
        for (what, ours), (_, theirs) in zip(ways, report.ways([metric.name]), strict=True):
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
        return before.mean if before.upper_bound is None else before.upper_bound


def split_min_scores(texts: Sequence[str]) -> tuple[float | None, list[str]]:
    """Return the judge's threshold (a number, or None) and the gates (METRIC=X). Raises Problem."""
    gates = [text for text in texts if "=" in text]
    thresholds = [text for text in texts if "=" not in text]
    if len(thresholds) > 1:
        raise Problem(
            f"--min-score {thresholds[1]}: the judge's threshold is {thresholds[0]} already; a "
            "gate is written METRIC=X, as in ndcg@10=0.8"
        )
    if not thresholds:
        return None, gates
    threshold = read_number(thresholds[0])
    if threshold is None:
        raise Problem(
            f"--min-score {thresholds[0]}: is not a number; the judge's threshold is written 0.7, "
            "a gate METRIC=X, as in ndcg@10=0.8"
        )
    return threshold, gates


def split_gate(text: str, flag: str) -> tuple[str, float]:
    """Return the name and the number of METRIC=X. Raises Problem."""
    metric, equals, number = text.rpartition("=")
    threshold = read_number(number)
    if not equals or not metric or threshold is None:
        raise Problem(f"{flag} {text}: is not METRIC=X, as in ndcg@10=0.8")
    return metric, threshold


def read_gate(
    text: str, flag: str, metrics: Sequence[str], signatures: Mapping[str, str] | None = None
) -> Gate:
    """Return the gate that METRIC=X is. Raises Problem.

    `signatures` are those of the metrics where they are known. Where they are not, whether what a
    name leaves out is a default, the server knows: `Gates.check` makes sure.
    """
    metric, threshold = split_gate(text, flag)
    if threshold < 0 and flag == "--max-drop":
        raise Problem(f"{flag} {text}: a drop is 0 or more")
    if metric in metrics:
        return Gate(flag, metric, threshold)
    if signatures is None:
        measured = next((name for name in metrics if may_be(metric, name)), None)
    else:
        known = ((name, signatures.get(name, "")) for name in metrics)
        measured = next((name for name, told in known if is_metric(metric, name, told)), None)
    if measured is None:
        raise Problem(_unmeasured(f"{flag} {text}", metric, metrics))
    return Gate(flag, measured, threshold, metric)


def _unmeasured(gate: str, metric: str, metrics: Sequence[str]) -> str:
    return (
        f"{gate}: {metric} is not measured; add --metric {metric}, or name one of "
        f"{', '.join(metrics)}"
    )


def _lower_bound(metric: MetricResult, left_out: int) -> float | None:
    """Return the mean at its worst; None where nothing is missing. What is left out counts 0."""
    if not left_out:
        return metric.lower_bound
    lower = metric.mean if metric.lower_bound is None else metric.lower_bound
    return 0.0 if lower is None else lower * metric.n / (metric.n + left_out)


def hold_mean(gate: Gate, mean: float | None, lower: float | None) -> Outcome:
    """Hold a mean against its threshold, or its lower bound where something is missing."""
    worst = mean if lower is None else lower
    if worst is None:
        return not_assessed(gate, f"{gate.metric} has no mean")
    found = "-" if mean is None else f"{mean:.4f}"
    if lower is not None:
        found += f", and {lower:.4f} in the worst case of what is missing (the lower bound)"
    short = gate.threshold - worst
    return _held(
        gate, mean, lower, f"{gate.metric} is {found}", short, f"{_size(short)} below {gate}"
    )


def hold_drop(
    gate: Gate, name: str, before: float, now: float | None, worst: float | None
) -> Outcome:
    """Hold the fall of a mean to a gate, or the `worst` that it may be where some is missing."""
    falls = [] if now is None else [before - now]
    held = max([*falls, *([] if worst is None else [worst])], default=None)
    if held is None:
        return not_assessed(gate, f"{name} has no mean")
    which = "" if worst is None else " in the worst case of what is missing (the lower bound)"
    found = f"{name} fell from {before:.4f} to {before - held:.4f}{which}"
    if held <= 0:
        found = f"{name} is {before - held:.4f}{which}, {before:.4f} before"
    over = held - gate.threshold
    value = falls[0] if falls else None
    return _held(gate, value, worst, found, over, f"by {_size(over)} more than {gate} allows")


def hold_count(gate: Gate, found: int, said: str, worst: int | None = None) -> Outcome:
    """Hold a number, or the `worst` that it may be, to a gate; `said` tells of it."""
    over = (found if worst is None else worst) - gate.threshold
    return _held(gate, found, worst, said, over, f"{over:g} more than {gate} allows")


def _held(
    gate: Gate, value: float | None, worst: float | None, said: str, over: float, short: str
) -> Outcome:
    """Return the outcome of a gate that fell short where `over` is above 0, as `short` says."""
    passed = over <= _ROUNDING
    message = f"held: {said}; {gate}" if passed else f"fell short: {said}, {short}"
    return Outcome(gate, value, passed, message, worst)


def hold_items(scores: Iterable[AnswerScore], min_scores: Mapping[str, float]) -> Outcome:
    """Hold the scores of items against what each of them must reach, by item id.

    A score that is missing counts as 0; what is not assessable has none.
    """
    held = [
        (score, min_scores[score.item_id])
        for score in scores
        if score.item_id in min_scores and score.status is not Status.NOT_ASSESSABLE
    ]
    below = [(s, least) for s, least in held if (s.score or 0.0) + _ROUNDING < least]
    gate = Gate("--min-score", "", 1.0, "of lines")
    if not held:
        return not_assessed(gate, "no score of a line with 'min_score'")
    reach = len(held) - len(below)
    message = (
        f"{of_all(reach, len(held), 'score', 'scores')} {word(reach, 'reaches', 'reach')} the "
        "'min_score' of its line"
    )
    if below:
        first, least = below[0]
        found = "missing" if first.score is None else f"{first.score:.4f}"
        message += f"; {first.rubric} of item {first.item_id!r} is {found}, and must be {least:g}"
    message = f"{'fell short' if below else 'held'}: {message}"
    return Outcome(gate, reach / len(held), not below, message)


def not_assessed(gate: Gate, why: str) -> Outcome:
    """Return the outcome of a gate on nothing."""
    message = f"nothing could be assessed: {why}, for {gate}"
    return Outcome(gate, None, False, message, assessed=False)


def coverage_outcomes(
    threshold: float | None, covered: Sequence[tuple[int, int, str]], metric: str = ""
) -> list[Outcome]:
    """Hold what is there, of that and what is missing, against `--min-coverage`; 1 unless given.

    What is not assessable is neither. `metric` is empty where all metrics share what is covered.
    """
    gate = Gate("--min-coverage", metric, 1.0 if threshold is None else threshold)
    said = (
        f"--min-coverage {gate.threshold:g}{' (the default of gates)' if threshold is None else ''}"
    )
    outcomes = []
    for there, missing, what in covered:
        total = there + missing
        if not total:
            continue
        covers = there / total
        subject = f"coverage{' of ' if metric else ''}{metric} is {share(covers)}"
        found = f"{subject} ({there} of {total} {what})"
        passed = covers >= gate.threshold - _ROUNDING
        message = f"held: {found}; {said}" if passed else f"fell short: {found}, below {said}"
        outcomes.append(Outcome(gate, covers, passed, message, assessed=there > 0))
    return outcomes


def _negatives(most: int, report: NegativeReport | None) -> Outcome:
    gate = Gate("--max-negatives", "", most)
    if report is None:
        raise Problem(f"{gate}: the data set has no negative_answers; add some, or drop the gate")
    found, counts = len(report.matches), report.counts
    missing = counts.error + counts.abstained
    if missing and not counts.ok:
        return not_assessed(gate, "every verdict on negative answers is missing")
    worst = found + missing
    texts = plural(found, "retrieved text matches", "retrieved texts match")
    said = f"{texts} a negative answer"
    if missing:
        said += (
            f", and {worst} in the worst case of {plural(missing, 'verdict', 'verdicts')} that "
            f"{word(missing, 'is', 'are')} missing"
        )
    return hold_count(gate, found, said, worst if missing else None)


def _size(amount: float) -> str:
    """Return an amount with four decimals, or with as many as it takes not to be 0."""
    return f"{amount:.4f}" if amount >= 0.00005 else f"{amount:.2g}"
