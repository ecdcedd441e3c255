"""Tables of metrics with human labels carried in: corrected means, bounds of single queries.

A labelled query has a human decision for every context. Its human value is what the same matching
and the same metric make of those decisions. Queries that the table left out, because nothing was
expected or because missing verdicts could change them, are left out here too.

The bounds of single queries are split conformal prediction: the machine's value with a margin to
each side, which is an order statistic of the labelled differences (Angelopoulos, Bates, Fisch, Lei,
Schuster (2022), "Conformal Risk Control", arXiv 2208.02814). Over the draw of the labelled queries
and of one more, that one lies beyond its bound with a probability of at most (1 - confidence) / 2
on either side. Nothing is assumed of the judge or of the values. With fewer than 39 labels for a
confidence of 0.95 no margin is enough, and the bound is the end of the range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from judged.values.choices import Matching

from judged_server.domain import BoolArray, FloatArray, IntArray
from judged_server.metrics.matching import JudgedResults, match
from judged_server.metrics.measures.names import Measure
from judged_server.metrics.table import MetricTable
from judged_server.scheduling.checkpoint import checkpoint
from judged_server.statistics.prediction_powered import correct_mean


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


def values_of_labels(
    measures: Sequence[Measure],
    results: JudgedResults,
    queries: IntArray,
    relevant: BoolArray,
    mode: Matching,
) -> FloatArray:
    """Return float64[m, n]: what the metrics make of human decisions on some of the queries.

    `relevant` has a decision for each context of `queries`, in that order and retrieved-major.
    """
    sizes = results.n_retrieved[queries], results.n_expected[queries]
    rankings = match(JudgedResults(relevant, *sizes), mode)
    return np.array([measure.values(rankings) for measure in measures])


def correct(
    table: MetricTable, human: HumanValues, *, confidence: float = 0.95, per_query: bool = False
) -> MetricTable:
    """Return the table with corrected means, and with bounds of its queries if `per_query`."""
    in_table = np.isin(human.queries, table.rows)
    chosen = np.flatnonzero(in_table)
    chosen = chosen[np.argsort(human.queries[chosen])]
    places = np.searchsorted(table.rows, human.queries[chosen])
    inclusion = None if human.inclusion is None else human.inclusion[chosen]
    left_out = len(in_table) - len(chosen)
    note = (
        f"{left_out} labelled queries have no value of the machine (nothing was expected, they "
        "are missing, or missing verdicts could change them) and were left out"
    )
    columns = []
    for column, values in zip(table.columns, human.values[:, chosen], strict=True):
        checkpoint()
        mean = correct_mean(
            column.values, values, places, inclusion=inclusion, confidence=confidence
        )
        mean = replace(mean, warnings=(*mean.warnings, *([note] if left_out else ())))
        lower = upper = None
        if per_query:
            lower, upper = query_bounds(column.values, values, places, confidence)
        columns.append(replace(column, corrected=mean, query_lower=lower, query_upper=upper))
    return replace(table, columns=tuple(columns))


def query_bounds(
    machine: FloatArray, human: FloatArray, labelled: IntArray, confidence: float
) -> tuple[FloatArray, FloatArray]:
    """Return the lower and the upper bound of the human value of each query, float64[N] each.

    `machine` is float64[N]; `human` float64[n] are the values of the queries `labelled` in it. The
    range is [0, 1], or that of the values where they leave it.
    """
    everything = np.concatenate([machine, human])
    low, high = float(everything.min(initial=0.0)), float(everything.max(initial=1.0))
    misses = math.floor((1 - confidence) / 2 * (len(human) + 1) + 1e-9) - 1
    if misses < 0:
        return np.full_like(machine, low), np.full_like(machine, high)
    rises = np.sort(human - machine[labelled])
    below, above = max(-rises[misses], 0.0), max(rises[-1 - misses], 0.0)
    return np.maximum(machine - below, low), np.minimum(machine + above, high)
