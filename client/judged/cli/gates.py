"""The options of commands that measure, and gates: thresholds that metrics must reach.

If values are missing, a gate checks the worst case. A gate that can't be checked (no such metric,
another signature) is a problem, exit status 2, if possible before a result is printed. A failed
gate is exit status 1, or 2 if nothing could be assessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from judged import IntervalMethod, IntervalOptions, MetricTable, Status
from judged._inputs import read_number
from judged._views import of_all, word
from judged.cli.frame import Command, Strict, flag, many, opt
from judged.cli.output import Gate, Outcome, Output, Places, Problem, of_metrics
from judged.cli.tables import means_table, per_query_table
from judged.report.content import share
from judged.values import (
    AnswerScore,
    MetricResult,
    ScoreCounts,
    VerdictCounts,
)


class MetricsOptions(Command):
    """A command that computes metrics."""

    metric: Sequence[str] = many("NAME", "Metric as in ndcg@10; may be repeated.", required=True)
    per_query: bool = flag("Show the values of every query, not only the means.")

    def places(self) -> Places:
        """Return the names of metrics in messages: as they were typed."""
        return super().places() | of_metrics(self.metric)

    def show_means(
        self, out: Output, table: MetricTable, gates: Gates, remarks: Sequence[str]
    ) -> None:
        """Check the gates, and print the tables and the remarks."""
        out.gates = gates.check(table)
        if self.per_query:
            out.show(per_query_table(table), "")
        out.show(means_table(table), "", *remarks)


class Drawn(Command):
    """A command that draws samples."""

    confidence: float | None = opt("X", "Confidence of the intervals; 0.95.")
    seed: int | None = opt("N", "Seed of all that is drawn; 0.")

    def interval_options(self) -> IntervalOptions | None:
        """Return the options of intervals, None if none was given."""
        return None if self.confidence is self.seed is None else self.options(IntervalOptions)


class IntervalOption(Drawn):
    """How intervals are computed; means show theirs if one of these options is given."""

    interval: IntervalMethod | None = opt(
        None, "Method of confidence intervals, shown where it is given."
    )
    resamples: int | None = opt("N", "Resamples of the bootstrap; 10,000.")

    def interval_options(self) -> IntervalOptions | None:
        """Return the options of intervals, None if none was given."""
        if self.interval is self.resamples is None:
            return super().interval_options()
        return self.options(IntervalOptions, method=self.interval)


_ROUNDING = 1e-9
"""Tolerance, so that a mean that prints as the threshold passes."""


class GateOptions(Command):
    """Thresholds for the metrics of a command."""

    min_score: Sequence[str] = many(
        "METRIC=X",
        "Gate: exit with 1 when the mean of the metric is below X; may be repeated.",
    )


class MinCoverage(Strict):
    """A command whose results may be partly missing."""

    min_coverage: float | None = opt(
        "SHARE",
        "Gate: exit with 1 when a smaller share has a verdict; 1 where there is another gate.",
        low=0,
        high=1,
    )


class Gates:
    """The gates of one command on its metrics."""

    def __init__(
        self, texts: Sequence[str], metrics: Sequence[str], min_coverage: float | None = None
    ) -> None:
        """Parse the gates. Raises Problem."""
        self._metrics, self._min_coverage = list(metrics), min_coverage
        self._gates = [read_gate(text, "--min-score", metrics) for text in texts]

    def check(self, table: MetricTable) -> list[Outcome]:
        """Return the outcome of every gate."""
        verdicts = table.counts.verdicts or VerdictCounts()
        left_out = table.counts.skipped_missing
        outcomes = []
        for gate in self._gates:
            metric = table.metrics[self._metrics.index(gate.metric)]
            mean, lower = metric.mean, _lower_bound(metric, left_out)
            if mean is None and not verdicts.ok:
                lower = None
            outcomes.append(check_mean(gate, mean, lower))
        covered = [(verdicts, "verdicts")]
        if left_out:
            topics = VerdictCounts(ok=table.counts.evaluated, error=left_out)
            covered.append((topics, "topics of the qrels"))
        if outcomes or self._min_coverage is not None:
            least = self._min_coverage
            outcomes += [one for each in covered for one in check_coverage(least, *each)]
        return outcomes


def split_min_scores(texts: Sequence[str]) -> tuple[float | None, list[str]]:
    """Return the judge's threshold (a number, or None) and the gates (METRIC=X). Raises Problem."""
    gates = [text for text in texts if "=" in text]
    thresholds = [read_number(text) for text in texts if "=" not in text]
    if len(thresholds) > 1 or None in thresholds:
        raise Problem(
            f"--min-score {' '.join(texts)}: give the judge one number as its threshold, and gates "
            "as METRIC=X, as in ndcg@10=0.8"
        )
    return thresholds[0] if thresholds else None, gates


def read_gate(text: str, flag: str, metrics: Sequence[str], option: str = "--metric") -> Gate:
    """Return the gate METRIC=X; `option` is the option that names metrics. Raises Problem."""
    metric, _, number = text.rpartition("=")
    threshold = read_number(number)
    if not metric or threshold is None or not 0 <= threshold <= 1:
        raise Problem(f"{flag} {text}: is not METRIC=X with X from 0 to 1, as in ndcg@10=0.8")
    if metric not in metrics:
        known = ", ".join(metrics)
        raise Problem(
            f"{flag} {text}: is not measured; add {option} {metric}, or name one of {known}"
        )
    return Gate(flag, metric, threshold)


def _lower_bound(metric: MetricResult, left_out: int) -> float | None:
    """Return the worst-case mean, None if nothing is missing. Left-out topics count as 0."""
    if not left_out:
        return metric.lower_bound
    lower = metric.mean if metric.lower_bound is None else metric.lower_bound
    return (lower or 0.0) * metric.n / (metric.n + left_out)


_WORST = " in the worst case of what is missing"


def check_mean(gate: Gate, mean: float | None, lower: float | None) -> Outcome:
    """Return a gate's outcome for a mean, or for its lower bound if values are missing."""
    checked, which = (mean, "") if lower is None else (lower, _WORST)
    if checked is None:
        return _not_assessed(gate)
    finding = f"{gate.metric} is {checked:.4f}{which}"
    return _outcome(gate, mean, finding, gate.threshold - checked, lower)


def check_drop(
    gate: Gate, name: str, before: float, now: float | None, worst: float | None
) -> Outcome:
    """Return a gate's outcome for the drop of a mean, or `worst`, if values are missing."""
    drop = None if now is None else before - now
    checked = max((each for each in (drop, worst) if each is not None), default=None)
    if checked is None:
        return _not_assessed(gate)
    which = "" if worst is None else _WORST
    finding = f"{name} was {before:.4f} and is {before - checked:.4f}{which}"
    return _outcome(gate, drop, finding, checked - gate.threshold, worst)


def check_items(scores: Iterable[AnswerScore], min_scores: Mapping[str, float]) -> Outcome:
    """Return a gate's outcome for scores with a minimum for each item, by item id.

    A missing score counts as 0; items that are not assessable are left out.
    """
    checked = [
        (score, min_scores[score.item_id])
        for score in scores
        if score.item_id in min_scores and score.status is not Status.NOT_ASSESSABLE
    ]
    below = [(s, least) for s, least in checked if (s.score or 0.0) + _ROUNDING < least]
    gate = Gate("--min-score", "", 1.0)
    if not checked:
        return _not_assessed(gate)
    reach, short = len(checked) - len(below), ""
    for first, least in below[:1]:
        score = "missing" if first.score is None else f"{first.score:.4f}"
        short = f", {first.rubric} of item {first.item_id!r} is {score}, and must be {least:g}"
    verb = word(reach, "reaches", "reach")
    finding = f"{of_all(reach, len(checked), 'score')} {verb} the 'min_score' of its line{short}"
    return _outcome(gate, reach / len(checked), finding, len(below))


def check_coverage(
    threshold: float | None, counts: VerdictCounts | ScoreCounts, what: str, metric: str = ""
) -> Iterator[Outcome]:
    """Yield the outcome of `--min-coverage`, by default 1, for the share of OK results.

    Results that are not assessable don't count at all. `metric` is empty if all metrics share the
    coverage. Yields nothing if there are no results.
    """
    gate = Gate("--min-coverage", metric, 1.0 if threshold is None else threshold)
    if total := counts.ok + counts.error + counts.abstained:
        covers = counts.ok / total
        of = f"coverage of {metric}" if metric else "coverage"
        finding = f"{of} is {share(covers)} ({counts.ok} of {total} {what})"
        outcome = _outcome(gate, covers, finding, gate.threshold - covers)
        yield replace(outcome, assessed=counts.ok > 0)


def _outcome(
    gate: Gate, value: float | None, finding: str, missed_by: float, worst: float | None = None
) -> Outcome:
    """Return the outcome of a gate, which passes unless `missed_by` is positive."""
    passed = missed_by <= _ROUNDING
    message = f"{'passed' if passed else 'failed'}: {finding}; {gate}"
    return Outcome(gate, value, passed, message, worst)


def _not_assessed(gate: Gate) -> Outcome:
    """Return the outcome of a gate with nothing to check."""
    return Outcome(gate, None, False, f"nothing could be assessed for {gate}", assessed=False)
