"""From rankings to a table of metrics: values of queries, means, bounds, counts, signatures.

The four ways in are `compute_judged` (verdicts), `compute_trec` (qrels and a run), `compute_gains`
and `merge_values` (values of earlier calls). Owns which queries count and how they are averaged.
Leaves formulas to the families of metrics, the making of rankings to `matching`, `trec`, `gains`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from judged_server.domain import BoolArray, FloatArray, IntArray
from judged_server.errors import InvalidField
from judged_server.metrics.gains import rank_gains
from judged_server.metrics.matching import JudgedResults, match
from judged_server.metrics.missing import unsettled
from judged_server.metrics.names import Measure
from judged_server.metrics.options import MatchingMode, MetricOptions, NoGoldPolicy
from judged_server.metrics.rankings import Rankings
from judged_server.metrics.table import MetricColumn, MetricCounts, MetricTable
from judged_server.metrics.trec import Topic, rank_run

Settings = Sequence[tuple[str, str]]


def check_modes(
    measures: Sequence[Measure], mode: MatchingMode, metrics_field: str = "metrics"
) -> None:
    """Raise InvalidField at `metrics_field[i]` for a metric that the mode leaves undefined."""
    for i, measure in enumerate(measures):
        if mode not in measure.metric.modes:
            defined = ", ".join(allowed.name for allowed in measure.metric.modes)
            rule = f"is not defined for matching {mode.name}; use {defined}"
            if not defined:
                rule = "is not defined for verdicts; it needs qrels or gains"
            raise InvalidField(f"{metrics_field}[{i}]", f"{measure.metric.name} {rule}")


def check_unique(query_ids: Sequence[str], field: str) -> None:
    """Raise InvalidField at `field.format(i)` when query id i was there before."""
    places: dict[str, int] = {}
    for i, query_id in enumerate(query_ids):
        first = places.setdefault(query_id, i)
        if first != i:
            raise InvalidField(field.format(i), f"is that of {field.format(first)} again")


def compute_judged(
    measures: Sequence[Measure],
    results: JudgedResults,
    options: MetricOptions,
    *,
    field: str = "groups[{}].expected",
    metrics_field: str = "metrics",
) -> MetricTable:
    """Return the metrics of judged results.

    A failure is never a "not relevant": a query whose hits could change with its missing verdicts
    is *unsettled*. It has no value and no part in the mean, and is counted. The bounds take it in,
    once at its worst and once at its best; `missing` says how firm they are. They speak of more
    queries than the mean does, which can therefore lie outside them.

    Raises InvalidField as `check_modes` does, and at `field.format(i)` for a group that expects
    nothing when the policy is ERROR.
    """
    check_modes(measures, options.matching, metrics_field)
    has_gold = _gold_mask(results.n_expected, options.no_gold, field)
    gaps = unsettled(results, options.matching)
    settled = np.ones(len(has_gold), np.bool_)
    settled[gaps.groups] = False  # these expect something, or they would have no verdicts
    rows = np.flatnonzero(has_gold & settled)
    rankings = match(results, options.matching).take(rows)
    some_missing = results.missing is not None and bool(results.missing.any())
    return MetricTable(
        columns=_columns(
            measures,
            rankings,
            [("matching", options.matching.name.lower()), _no_gold_setting(options)],
            extremes=gaps.extremes if some_missing else None,
        ),
        rows=rows,
        counts=MetricCounts(
            queries=len(has_gold),
            evaluated=len(rows),
            skipped_no_gold=int(np.count_nonzero(~has_gold)),
            skipped_unsettled=len(gaps.groups),
            duplicates=results.duplicates,
            retrieved=int(rankings.offsets[-1]),
        ),
    )


def compute_trec(
    measures: Sequence[Measure],
    qrels: Sequence[Topic],
    run: Sequence[Topic],
    options: MetricOptions,
    *,
    field: str = "trec",
) -> MetricTable:
    """Return the metrics of a run under qrels, as trec_eval has them; rows are topics of the qrels.

    A topic without relevant documents is 0, whatever `options.no_gold` says. Raises what
    `trec.rank_run` raises.
    """
    ranked = rank_run(
        qrels,
        run,
        complete=options.complete,
        strict_duplicates=options.strict_duplicates,
        field=field,
    )
    settings = [("source", "trec"), *([("complete", "true")] if options.complete else [])]
    n = len(ranked.rows)
    return MetricTable(
        columns=_columns(measures, ranked.rankings, settings),
        rows=ranked.rows,
        counts=MetricCounts(
            queries=n + ranked.skipped_missing + ranked.skipped_unjudged,
            evaluated=n,
            skipped_missing=ranked.skipped_missing,
            skipped_unjudged=ranked.skipped_unjudged,
            duplicates=ranked.duplicates,
            retrieved=int(ranked.rankings.offsets[-1]),
        ),
    )


def compute_gains(
    measures: Sequence[Measure],
    gains: Sequence[Sequence[float]],
    relevant_gains: Sequence[Sequence[float]],
    options: MetricOptions,
    *,
    field: str = "gains.rankings",
) -> MetricTable:
    """Return the metrics of rankings whose gains the caller knows.

    Raises what `gains.rank_gains` raises, and InvalidField at `field[i].relevant_gains` for a
    query that has none when the policy is ERROR.
    """
    rankings = rank_gains(gains, relevant_gains, field)
    has_gold = _gold_mask(rankings.n_relevant, options.no_gold, field + "[{}].relevant_gains")
    rows = np.flatnonzero(has_gold)
    chosen = rankings if has_gold.all() else rankings.take(rows)
    return MetricTable(
        columns=_columns(measures, chosen, [("source", "gains"), _no_gold_setting(options)]),
        rows=rows,
        counts=MetricCounts(
            queries=len(has_gold),
            evaluated=len(rows),
            skipped_no_gold=len(has_gold) - len(rows),
            retrieved=int(chosen.offsets[-1]),
        ),
    )


def merge_values(
    measures: Sequence[Measure],
    columns: Sequence[Sequence[float]],
    n_queries: int,
    *,
    field: str = "values",
) -> MetricTable:
    """Return the means of values that earlier calls gave, one column a measure.

    The mean is exact, so that it equals the mean of one call over all queries to the last bit.
    Raises InvalidField at `field.columns` for a wrong number of columns,
    `field.columns[i].values` for a wrong length, `field.columns[i].values[j]` for a value that is
    not finite.
    """
    if len(columns) != len(measures):
        rule = f"has {len(columns)} entries for {len(measures)} metrics"
        raise InvalidField(f"{field}.columns", rule)
    merged = []
    for i, (measure, column) in enumerate(zip(measures, columns, strict=True)):
        path = f"{field}.columns[{i}].values"
        if len(column) != n_queries:
            raise InvalidField(path, f"has {len(column)} entries for {n_queries} query_ids")
        values = np.array(column, np.float64)
        finite = np.isfinite(values)
        if not finite.all():
            raise InvalidField(f"{path}[{int(finite.argmin())}]", "must be finite")
        merged.append(_column(measure, values, [("source", "values")]))
    counts = MetricCounts(queries=n_queries, evaluated=n_queries)
    return MetricTable(tuple(merged), np.arange(n_queries), counts)


def _gold_mask(n_relevant: IntArray, policy: NoGoldPolicy, field: str) -> BoolArray:
    """Return bool[n]: which queries may have a value, under the policy for those without gold."""
    has_gold = n_relevant > 0
    if policy is NoGoldPolicy.ZERO:
        return np.ones_like(has_gold)
    if policy is NoGoldPolicy.ERROR and not has_gold.all():
        first = int(has_gold.argmin())
        raise InvalidField(field.format(first), "must not be empty when no_gold is ERROR")
    return has_gold


def _no_gold_setting(options: MetricOptions) -> tuple[str, str]:
    return ("no_gold", options.no_gold.name.lower())


def _columns(
    measures: Sequence[Measure],
    rankings: Rankings,
    settings: Settings,
    extremes: tuple[Rankings, ...] | None = None,
) -> tuple[MetricColumn, ...]:
    """Return a column a measure; `extremes` are rankings of the unsettled queries, if asked for."""
    return tuple(
        _column(measure, measure.values(rankings), settings)
        if extremes is None
        else _bounded_column(measure, measure.values(rankings), settings, extremes)
        for measure in measures
    )


def _column(measure: Measure, values: FloatArray, settings: Settings) -> MetricColumn:
    return MetricColumn(str(measure), values, _mean(values), measure.signature(settings))


def _bounded_column(
    measure: Measure, values: FloatArray, settings: Settings, extremes: tuple[Rankings, ...]
) -> MetricColumn:
    """Return a column with bounds: settled queries at their value, the others at each extreme."""
    lows = highs = values
    if extremes:
        open_values = np.stack([measure.values(extreme) for extreme in extremes])
        lows = np.concatenate([values, open_values.min(axis=0)])
        highs = np.concatenate([values, open_values.max(axis=0)])
    return MetricColumn(
        str(measure),
        values,
        _mean(values),
        measure.signature(settings),
        lower=_mean(lows),
        upper=_mean(highs),
    )


def _mean(values: FloatArray) -> float | None:
    """Return the mean, None of nothing. The sum is exact, so no order of the queries changes it."""
    return math.fsum(values.tolist()) / len(values) if len(values) else None
