"""Tables of metrics with human labels carried in: corrected means, bounds of single queries.

A labelled query has a human decision for every context. Its human value is what the same matching
and the same metric make of those decisions. Queries that the table left out, because nothing was
expected or because missing verdicts could change them, are left out here too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from judged.values.choices import Matching

from judged_server.domain import BoolArray, FloatArray, IntArray
from judged_server.metrics.input.rankings import take_groups
from judged_server.metrics.matching import JudgedResults, match
from judged_server.metrics.measures.names import Measure
from judged_server.metrics.table import MetricTable
from judged_server.scheduling.checkpoint import checkpoint
from judged_server.statistics.prediction_powered import correct_mean
from judged_server.statistics.risk_control import chosen_bounds, shifted_bounds

MAX_STEPS = 32
"""Thresholds tried to each side of the judge's own."""
STEP_VERDICTS = 16_000_000
"""Verdicts times thresholds that a call matches to each side; more verdicts get fewer of them."""

_MIN_STEPS = 4


@dataclass(frozen=True, slots=True)
class HumanLabels:
    """What people decided on some queries.

    queries   int64[n]: which of the queries given, each once.
    relevant  bool: the contexts of those queries in that order, each query's retrieved-major.
    inclusion float64[n]: with which probability each was drawn; None: all with the same.
    """

    queries: IntArray
    relevant: BoolArray
    inclusion: FloatArray | None = None


@dataclass(frozen=True, slots=True)
class HumanValues:
    """The values that human labels give to some queries.

    queries  int64[n]: which of the queries given, each once.
    values   float64[m, n], finite: a row a metric.
    inclusion float64[n]: with which probability each was drawn; None: all with the same.
    """

    queries: IntArray
    values: FloatArray
    inclusion: FloatArray | None = None

    def take(self, chosen: BoolArray) -> HumanValues:
        """Return the values of some of the queries."""
        inclusion = None if self.inclusion is None else self.inclusion[chosen]
        return HumanValues(self.queries[chosen], self.values[:, chosen], inclusion)


def correct_judged(
    table: MetricTable,
    measures: Sequence[Measure],
    results: JudgedResults,
    scores: FloatArray | None,
    labels: HumanLabels,
    mode: Matching,
    *,
    confidence: float = 0.95,
    per_query: bool = False,
) -> MetricTable:
    """Return the table of judged results with corrected means.

    `scores` is float64, shaped as `results.relevant`, or None when they are not known. With
    `per_query`, queries have bounds: the metric's values while the threshold of relevance is
    lowered and raised, or its value with a margin when there are no scores that a threshold could
    cut.
    """
    in_table = np.isin(labels.queries, table.rows)
    labelled = results.take(labels.queries)
    decided = JudgedResults(labels.relevant, labelled.n_retrieved, labelled.n_expected)
    rankings = match(decided.take(np.flatnonzero(in_table)), mode)
    human = HumanValues(
        labels.queries[in_table],
        np.array([measure.values(rankings) for measure in measures]),
        None if labels.inclusion is None else labels.inclusion[in_table],
    )
    left_out = int(np.count_nonzero(~in_table))
    thresholds = (
        None if scores is None else _Thresholds.of(measures, results, scores, mode, table.rows)
    )
    return _corrected(table, human, left_out, thresholds, confidence, per_query=per_query)


def correct_values(
    table: MetricTable,
    human: HumanValues,
    *,
    confidence: float = 0.95,
    per_query: bool = False,
) -> MetricTable:
    """Return the table with corrected means, out of human values that the caller brings.

    With `per_query`, queries have bounds: the machine's values with a margin.
    """
    in_table = np.isin(human.queries, table.rows)
    left_out = int(np.count_nonzero(~in_table))
    return _corrected(table, human.take(in_table), left_out, None, confidence, per_query=per_query)


def _corrected(
    table: MetricTable,
    human: HumanValues,
    left_out: int,
    thresholds: _Thresholds | None,
    confidence: float,
    *,
    per_query: bool,
) -> MetricTable:
    order = np.argsort(human.queries)
    places = np.searchsorted(table.rows, human.queries[order])
    values = human.values[:, order]
    inclusion = None if human.inclusion is None else human.inclusion[order]
    means = []
    note = (
        f"{left_out} labelled queries have no value of the machine (nothing was expected, they "
        "are missing, or missing verdicts could change them) and were left out"
    )
    notes = (note,) if left_out else ()
    for column, own in zip(table.columns, values, strict=True):
        checkpoint()
        mean = correct_mean(
            *(column.values, own, places),
            inclusion=inclusion,
            confidence=confidence,
        )
        means.append(replace(mean, warnings=(*mean.warnings, *notes)))
    columns = [replace(c, corrected=m) for c, m in zip(table.columns, means, strict=True)]
    if per_query:
        machine = np.array([column.values for column in table.columns])
        if thresholds is None:
            bounds = shifted_bounds(machine, values, places, confidence)
        else:
            steps = {"falling": thresholds.raised(), "rising": thresholds.lowered()}
            bounds = chosen_bounds(machine, values, places, confidence, **steps)
        columns = [
            replace(column, query_lower=lower, query_upper=upper)
            for column, lower, upper in zip(columns, bounds.lower, bounds.upper, strict=True)
        ]
    return replace(table, columns=tuple(columns))


@dataclass(frozen=True, slots=True)
class _Thresholds:
    """The metrics of judged results under thresholds other than the judge's own.

    A lowered threshold adds what is scored at least as high, a raised one drops what is not scored
    higher. They start at the scores next to the judge's own threshold, which is thereby never asked
    for, and go in even steps to the end, where everything or nothing is relevant.
    """

    measures: Sequence[Measure]
    results: JudgedResults
    scores: FloatArray
    mode: Matching

    @classmethod
    def of(
        cls,
        measures: Sequence[Measure],
        results: JudgedResults,
        scores: FloatArray,
        mode: Matching,
        rows: IntArray,
    ) -> _Thresholds | None:
        """Return the thresholds of the queries `rows`; None when every score is 0 or 1."""
        if bool(np.isin(scores, (0.0, 1.0)).all()):
            return None
        _, kept = take_groups(results.offsets, rows)
        chosen = results.filled(relevant=False).take(rows)
        known = scores[kept]
        if results.missing is not None:  # what has no verdict has no score to be lifted by
            known = np.where(results.missing[kept], -1.0, known)
        return cls(measures, chosen, known, mode)

    def lowered(self) -> Iterator[FloatArray]:
        """Yield float64[m, N] under thresholds from the judge's down to 0."""
        relevant = self.results.relevant
        others = self.scores[~relevant]
        start = max(0.0, float(others.max())) if len(others) else 0.0
        for threshold in np.unique(np.linspace(start, 0.0, self._steps()))[::-1].tolist():
            yield self._values(relevant | (self.scores >= threshold))

    def raised(self) -> Iterator[FloatArray]:
        """Yield float64[m, N] under thresholds from the judge's up to 1."""
        relevant = self.results.relevant
        start = float(self.scores[relevant].min()) if relevant.any() else 1.0
        for threshold in np.unique(np.linspace(start, 1.0, self._steps())).tolist():
            yield self._values(relevant & (self.scores > threshold))

    def _steps(self) -> int:
        return min(MAX_STEPS, max(_MIN_STEPS, STEP_VERDICTS // max(1, len(self.scores))))

    def _values(self, relevant: BoolArray) -> FloatArray:
        results = JudgedResults(relevant, self.results.n_retrieved, self.results.n_expected)
        rankings = match(results, self.mode)
        return np.array([measure.values(rankings) for measure in self.measures])
