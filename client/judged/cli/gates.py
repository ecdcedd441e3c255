"""The options of commands that measure, and gates: what metrics must reach for a status of 0.

A gate is held against the worst case of what is missing. One that can't be checked (no such metric,
another signature) is a problem, exit status 2, and found before a result is printed where that is
possible. One that fell short is exit status 1, or 2 where nothing could be assessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace

from judged import IntervalMethod, IntervalOptions, MetricTable
from judged._inputs import read_number
from judged._views import of_all, plural, word
from judged.cli.documents import Report, read_report
from judged.cli.frame import Command, Strict, flag, many, opt
from judged.cli.output import Gate, Outcome, Output, Problem
from judged.report.summary import share
from judged.values import AnswerScore, MetricResult, NegativeReport, Status, VerdictCounts
from judged.values.metric_names import is_metric, may_be


class MetricsOptions(Command):
    """A command that computes metrics."""

    metric: Sequence[str] = many("NAME", "Metric as in ndcg@10; may be repeated.", required=True)
    per_query: bool = flag("Show the values of every query, not only the means.")


class Drawn(Command):
    """A command that draws samples."""

    confidence: float | None = opt("X", "Confidence of the intervals; 0.95.")
    seed: int | None = opt("N", "Seed of the bootstrap; 0.")


class IntervalOption(Drawn):
    """How the intervals of means are made, for commands that show them where they are asked to."""

    interval: IntervalMethod | None = opt(None, "Show a confidence interval of every mean.")
    resamples: int | None = opt("N", "Resamples of the bootstrap; 10,000.")

    def how_sure(self) -> IntervalOptions | None:
        """Return the options of intervals, None when none of them was given."""
        named = {each.name: getattr(self, each.name, None) for each in fields(IntervalOptions)}
        named["method"] = self.interval
        return None if set(named.values()) == {None} else IntervalOptions.of(**named)


class MethodOption(IntervalOption):
    """How intervals are made, for commands that always show them."""

    interval: IntervalMethod | None = opt(None, "Method of the intervals; percentile.")


_ROUNDING = 1e-9
"""A mean printed equal to the threshold passes it."""


class AnySignature(Strict):
    """A command that compares documents, which should be made in one way."""

    allow_other_signature: bool = flag(
        "Compare numbers that were made in another way; a warning in place of a refusal."
    )


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
        self._allow, drops = options.allow_other_signature, options.max_drop
        means = options.min_score if min_scores is None else min_scores
        self._gates = [read_gate(text, "--min-score", metrics) for text in means]
        self._gates += [read_gate(text, "--max-drop", metrics) for text in drops]
        if drops and options.baseline is None:
            step = "needs --baseline FILE, the JSON document of the run to compare with"
            raise Problem(f"--max-drop {drops[0]}: {step}")
        if options.baseline is not None and not drops:
            raise Problem(f"--baseline {options.baseline}: has no use without --max-drop METRIC=X")
        self._baseline = None if options.baseline is None else read_report(options.baseline)

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
        verdicts = table.counts.verdicts or VerdictCounts()
        left_out = table.counts.skipped_missing
        outcomes = []
        for asked in self._gates:
            if asked.typed and asked.typed not in table:
                raise Problem(_unmeasured(str(asked), asked.typed, self._metrics))
            place = self._metrics.index(asked.metric)
            metric = table[asked.typed] if asked.typed else table.metrics[place]
            gate = replace(asked, metric=metric.name) if asked.typed else asked
            lower = _lower_bound(metric, left_out)
            if metric.mean is None and (lower is None or not verdicts.ok):
                why = f"{metric.name} has no mean, since no query was evaluated"
                outcomes.append(not_assessed(gate, why))
            elif gate.flag == "--max-drop" and self._baseline is not None:
                before = self._comparable(self._baseline, metric, signature, out)
                worst = None if lower is None else before - lower
                outcomes.append(hold_drop(gate, metric.name, before, metric.mean, worst))
            else:
                outcomes.append(hold_mean(gate, metric.mean, lower))
        covered = [(verdicts.ok, verdicts.error + verdicts.abstained, "verdicts")]
        if self._max_negatives is not None:
            outcomes.append(_negatives(self._max_negatives, negatives))
            counts = VerdictCounts() if negatives is None else negatives.counts
            covered.append((counts.ok, counts.error + counts.abstained, "verdicts on negatives"))
        if left_out:
            covered.append((table.counts.evaluated, left_out, "topics of the qrels"))
        if outcomes or self._min_coverage is not None:
            outcomes += coverage_outcomes(self._min_coverage, covered)
        return outcomes

    def _comparable(
        self, report: Report, metric: MetricResult, signature: str | None, out: Output
    ) -> float:
        """Return what a metric was, at best where verdicts were missing."""
        before, name = report.metric(metric.name), f"--baseline {report.name}"
        if before.mean is None:
            raise Problem(f"{name}: {metric.name} has no mean there")
        ours = (metric.signature, signature or "none")
        for (what, theirs), own in zip(report.ways([metric.name]), ours, strict=True):
            if theirs == own:
                continue
            difference = f"{name}: {what} is {theirs} there and {own} here"
            if not self._allow:
                step = "make a new baseline, or pass --allow-other-signature"
                raise Problem(f"{difference}; {step}")
            out.warn(difference)
        if before.n != metric.n:
            queries = plural(before.n, "query", "queries")
            out.warn(f"{name}: {metric.name} is a mean of {queries} there and of {metric.n} here")
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
    return (lower or 0.0) * metric.n / (metric.n + left_out)


_WORST = " in the worst case of what is missing (the lower bound)"


def hold_mean(gate: Gate, mean: float | None, lower: float | None) -> Outcome:
    """Hold a mean against its threshold, or its lower bound where something is missing."""
    worst = mean if lower is None else lower
    if worst is None:
        return not_assessed(gate, f"{gate.metric} has no mean")
    found = f"{gate.metric} is {'-' if mean is None else f'{mean:.4f}'}"
    if lower is not None:
        found += f", and {lower:.4f}{_WORST}"
    below = gate.threshold - worst
    short = f", {_size(below)} below {gate}"
    return _held(gate, mean, found, short, worst=lower, passed=below <= _ROUNDING)


def hold_drop(
    gate: Gate, name: str, before: float, now: float | None, worst: float | None
) -> Outcome:
    """Hold the fall of a mean to a gate, or the `worst` that it may be where some is missing."""
    fell = None if now is None else before - now
    held = max((each for each in (fell, worst) if each is not None), default=None)
    if held is None:
        return not_assessed(gate, f"{name} has no mean")
    which = "" if worst is None else _WORST
    found = f"{name} fell from {before:.4f} to {before - held:.4f}{which}"
    if held <= 0:
        found = f"{name} is {before - held:.4f}{which}, {before:.4f} before"
    over = held - gate.threshold
    short = f", by {_size(over)} more than {gate} allows"
    return _held(gate, fell, found, short, worst=worst, passed=over <= _ROUNDING)


def hold_count(gate: Gate, found: int, said: str, worst: int | None = None) -> Outcome:
    """Hold a number, or the `worst` that it may be, to a gate; `said` tells of it."""
    over = (found if worst is None else worst) - gate.threshold
    short = f", {over:g} more than {gate} allows"
    return _held(gate, found, said, short, worst=worst, passed=over <= 0)


def _held(
    gate: Gate,
    value: float | None,
    said: str,
    short: str,
    *,
    passed: bool,
    worst: float | None = None,
) -> Outcome:
    """Return what became of a gate; `short` says what is wrong where it fell short."""
    message = f"held: {said}; {gate}" if passed else f"fell short: {said}{short}"
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
    short, reach = "", len(held) - len(below)
    for first, least in below[:1]:
        found = "missing" if first.score is None else f"{first.score:.4f}"
        short = f"; {first.rubric} of item {first.item_id!r} is {found}, and must be {least:g}"
    said = (
        f"{of_all(reach, len(held), 'score')} {word(reach, 'reaches', 'reach')} the "
        "'min_score' of its line"
    )
    return _held(gate, reach / len(held), said, short, passed=not below)


def not_assessed(gate: Gate, why: str) -> Outcome:
    """Return the outcome of a gate on nothing."""
    message = f"nothing could be assessed: {why}, for {gate}"
    return Outcome(gate, None, False, message, assessed=False)


def coverage_outcomes(
    threshold: float | None, covered: Sequence[tuple[int, int, str]], metric: str = ""
) -> Iterator[Outcome]:
    """Hold what is there, of that and what is missing, against `--min-coverage`; 1 unless given.

    What is not assessable is neither. `metric` is empty where all metrics share what is covered.
    """
    gate = Gate("--min-coverage", metric, 1.0 if threshold is None else threshold)
    default = " (the default of gates)" if threshold is None else ""
    for there, missing, what in covered:
        if total := there + missing:
            covers = there / total
            said = f"coverage{f' of {metric}' if metric else ''} is {share(covers)}"
            said += f" ({there} of {total} {what})"
            asked = f"--min-coverage {gate.threshold:g}{default}"
            passed = covers >= gate.threshold - _ROUNDING
            message = f"held: {said}; {asked}" if passed else f"fell short: {said}, below {asked}"
            yield Outcome(gate, covers, passed, message, assessed=there > 0)


def _negatives(most: int, report: NegativeReport | None) -> Outcome:
    gate = Gate("--max-negatives", "", most)
    if report is None:
        raise Problem(f"{gate}: the data set has no negative_answers; add some, or drop the gate")
    found, counts = len(report.matches), report.counts
    missing = counts.error + counts.abstained
    if missing and not counts.ok:
        return not_assessed(gate, "every verdict on negative answers is missing")
    texts = plural(found, "retrieved text matches", "retrieved texts match")
    said = f"{texts} a negative answer"
    if not missing:
        return hold_count(gate, found, said)
    verdicts = plural(missing, "verdict that is", "verdicts that are")
    said += f", and {found + missing} in the worst case of {verdicts} missing"
    return hold_count(gate, found, said, found + missing)


def _size(amount: float) -> str:
    """Return an amount with four decimals, or with as many as it takes not to be 0."""
    return f"{amount:.4f}" if amount >= 0.00005 else f"{amount:.2g}"
