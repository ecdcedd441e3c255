"""The options of commands that measure, and gates: what metrics must reach for a status of 0.

A gate is held against the worst case of what is missing. One that can't be checked (no such metric,
another signature) is a problem, exit status 2, and found before a result is printed where that is
possible. One that fell short is exit status 1, or 2 where nothing could be assessed.
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
        """Return what metrics are known as: by what was typed."""
        return super().places() | of_metrics(self.metric)

    def show_means(
        self, out: Output, table: MetricTable, gates: Gates, told: Sequence[str]
    ) -> None:
        """Hold the gates, print the tables and what was `told` of them."""
        out.gates = gates.check(table)
        if self.per_query:
            out.show(per_query_table(table), "")
        out.show(means_table(table), "", *told)


class Drawn(Command):
    """A command that draws samples."""

    confidence: float | None = opt("X", "Confidence of the intervals; 0.95.")
    seed: int | None = opt("N", "Seed of the bootstrap; 0.")


class IntervalOption(Drawn):
    """How intervals are made; those of means are shown where one of these options is given."""

    interval: IntervalMethod | None = opt(
        None, "Method of confidence intervals, shown where it is given."
    )
    resamples: int | None = opt("N", "Resamples of the bootstrap; 10,000.")

    def how_sure(self) -> IntervalOptions | None:
        """Return the options of intervals, None when none of them was given."""
        if {self.interval, self.confidence, self.resamples, self.seed} == {None}:
            return None
        return self.options(IntervalOptions, method=self.interval)


_ROUNDING = 1e-9
"""A mean printed equal to the threshold passes it."""


class GateOptions(Command):
    """What the metrics of a command must reach."""

    min_score: Sequence[str] = many(
        "METRIC=X",
        "Gate: exit with 1 when the mean of the metric is below X; may be repeated.",
    )


class MinCoverage(Strict):
    """A command of which some results may be missing."""

    min_coverage: float | None = opt(
        "SHARE",
        "Gate: exit with 1 when a smaller share has a verdict; 1 where there is another gate.",
        low=0,
        high=1,
    )


class Gates:
    """The gates of one command over the metrics that it asks for."""

    def __init__(
        self, texts: Sequence[str], metrics: Sequence[str], min_coverage: float | None = None
    ) -> None:
        """Read the gates. Raises Problem."""
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
            outcomes.append(hold_mean(gate, mean, lower))
        covered = [(verdicts, "verdicts")]
        if left_out:
            topics = VerdictCounts(ok=table.counts.evaluated, error=left_out)
            covered.append((topics, "topics of the qrels"))
        if outcomes or self._min_coverage is not None:
            held_to = self._min_coverage
            outcomes += [one for each in covered for one in hold_coverage(held_to, *each)]
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
    """Return the gate that METRIC=X is; `option` is what names the metrics. Raises Problem."""
    metric, _, number = text.rpartition("=")
    threshold = read_number(number)
    if not metric or threshold is None or (threshold < 0 and flag == "--max-drop"):
        raise Problem(f"{flag} {text}: is not METRIC=X, as in ndcg@10=0.8")
    if metric not in metrics:
        known = ", ".join(metrics)
        raise Problem(
            f"{flag} {text}: is not measured; add {option} {metric}, or name one of {known}"
        )
    return Gate(flag, metric, threshold)


def _lower_bound(metric: MetricResult, left_out: int) -> float | None:
    """Return the mean at its worst; None where nothing is missing. What is left out counts 0."""
    if not left_out:
        return metric.lower_bound
    lower = metric.mean if metric.lower_bound is None else metric.lower_bound
    return (lower or 0.0) * metric.n / (metric.n + left_out)


_WORST = " in the worst case of what is missing"


def hold_mean(gate: Gate, mean: float | None, lower: float | None) -> Outcome:
    """Hold a mean against its threshold, or its lower bound where something is missing."""
    held, which = (mean, "") if lower is None else (lower, _WORST)
    if held is None:
        return _not_assessed(gate)
    said = f"{gate.metric} is {held:.4f}{which}"
    return _held(gate, mean, said, gate.threshold - held, lower)


def hold_drop(
    gate: Gate, name: str, before: float, now: float | None, worst: float | None
) -> Outcome:
    """Hold the fall of a mean to a gate, or the `worst` that it may be where some is missing."""
    fell = None if now is None else before - now
    held = max((each for each in (fell, worst) if each is not None), default=None)
    if held is None:
        return _not_assessed(gate)
    which = "" if worst is None else _WORST
    said = f"{name} was {before:.4f} and is {before - held:.4f}{which}"
    return _held(gate, fell, said, held - gate.threshold, worst)


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
    gate = Gate("--min-score", "", 1.0)
    if not held:
        return _not_assessed(gate)
    reach, short = len(held) - len(below), ""
    for first, least in below[:1]:
        score = "missing" if first.score is None else f"{first.score:.4f}"
        short = f", {first.rubric} of item {first.item_id!r} is {score}, and must be {least:g}"
    verb = word(reach, "reaches", "reach")
    said = f"{of_all(reach, len(held), 'score')} {verb} the 'min_score' of its line{short}"
    return _held(gate, reach / len(held), said, len(below))


def hold_coverage(
    threshold: float | None, counts: VerdictCounts | ScoreCounts, what: str, metric: str = ""
) -> Iterator[Outcome]:
    """Hold the share that is there against `--min-coverage`; against 1 unless it is given.

    What is not assessable is neither there nor missing. `metric` is empty where all metrics share
    what is covered.
    """
    gate = Gate("--min-coverage", metric, 1.0 if threshold is None else threshold)
    if total := counts.ok + counts.error + counts.abstained:
        covers = counts.ok / total
        of = f"coverage of {metric}" if metric else "coverage"
        said = f"{of} is {share(covers)} ({counts.ok} of {total} {what})"
        held = _held(gate, covers, said, gate.threshold - covers)
        yield replace(held, assessed=counts.ok > 0)


def _held(
    gate: Gate, value: float | None, said: str, over: float, worst: float | None = None
) -> Outcome:
    """Return what became of a gate: it is passed unless `over` says by how much it is missed."""
    passed = over <= _ROUNDING
    message = f"{'held' if passed else 'fell short'}: {said}; {gate}"
    return Outcome(gate, value, passed, message, worst)


def _not_assessed(gate: Gate) -> Outcome:
    """Return the outcome of a gate on nothing."""
    return Outcome(gate, None, False, f"nothing could be assessed for {gate}", assessed=False)
