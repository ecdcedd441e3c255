"""Builds the table of metrics over queries, with intervals, slices and means corrected by labels.

The four entry points are `compute_judged` (verdicts), `compute_trec` (qrels and a run),
`compute_gains` and `merge_values` (values of earlier calls); `compute_merged` joins metrics over
the verdicts of several judges. A table has one set of rows: a query that is unsettled under one of
the judges is left out of all means; the bounds, which depend on the metric's own judge, include it.

A labelled query has a human decision for every context. Its human value is computed from those
decisions by the same matching and metric. Queries that are not in the table, because nothing was
expected or because missing verdicts could change them, are not corrected either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from itertools import accumulate

import numpy as np
from judged.values.agreement import IdFit
from judged.values.choices import (
    CorrectedEstimate,
    Interval,
    IntervalOptions,
    Matching,
    NoGold,
    Unjudged,
)
from judged.values.metrics import MetricCounts, MetricOptions

from judged_server.domain import (
    BoolArray,
    FloatArray,
    IntArray,
    need,
)
from judged_server.errors import InvalidField
from judged_server.metrics.input.id_fit import add_fits
from judged_server.metrics.input.rankings import Qrels, Rankings, Topics, rank_gains, rank_run
from judged_server.metrics.matching import JudgedResults, graded, match, unsettled
from judged_server.metrics.measures import FAMILIES, Measure, Metric
from judged_server.scheduling.fairness import checkpoint
from judged_server.statistics.intervals import check_work, mean, mean_intervals
from judged_server.statistics.prediction_powered import correct_mean


@dataclass(frozen=True, slots=True)
class SettledOptions(MetricOptions):
    """The options of one request, with the server's defaults."""

    matching: Matching = Matching.GREEDY_FIRST
    no_gold: NoGold = NoGold.SKIP
    unjudged: Unjudged = Unjudged.NON_RELEVANT
    relevance_level: int = 1


@dataclass(frozen=True, slots=True)
class MetricColumn:
    """One metric over all rows of a table.

    `values` is float64[rows], finite and in [0, 1]. `bounds`, float64[2, open rows], are the lowest
    and the highest possible values of the table's `open_rows`, None if no verdicts are missing.
    `interval` is that of the mean, None unless requested; `corrected` is from human labels. `doubt`
    is a warning about the values, "" without one.
    """

    name: str
    values: FloatArray
    signature: str
    bounds: FloatArray | None = None
    interval: Interval | None = None
    corrected: CorrectedEstimate | None = None
    doubt: str = ""

    @property
    def n(self) -> int:
        """The number of queries in the mean."""
        return len(self.values)

    @property
    def mean(self) -> float | None:
        """The mean, None when there are no rows."""
        return mean(self.values)

    @property
    def lower(self) -> float | None:
        """The lowest possible mean over all queries with gold, also those with missing verdicts."""
        return None if self.bounds is None else mean(self.bounds[0])

    @property
    def upper(self) -> float | None:
        """The highest possible mean over the same queries."""
        return None if self.bounds is None else mean(self.bounds[1])

    @property
    def range(self) -> FloatArray:
        """The bounds; without any, the values are both."""
        return np.tile(self.values, (2, 1)) if self.bounds is None else self.bounds

    def over(self, places: IntArray, open_places: IntArray) -> MetricColumn:
        """Return the column over some of its rows, without interval and correction."""
        bounds = None if self.bounds is None else self.bounds[:, open_places]
        return MetricColumn(self.name, self.values[places], self.signature, bounds)


@dataclass(frozen=True, slots=True)
class MetricSlice:
    """All metrics over the queries whose metadata have `value` under `key`, "" if they lack it."""

    key: str
    value: str
    columns: tuple[MetricColumn, ...]


@dataclass(frozen=True, slots=True)
class MetricTable:
    """All metrics of one request, in the order requested.

    `rows` is int64, ascending: the index of the query (group, topic of the qrels, or ranking) of
    each entry in the columns' `values`. `open_rows` is the same for their bounds: the rows, and the
    queries left out for missing verdicts; None if no verdicts are missing. `id_fit` is None if no
    documents are matched by id.
    """

    columns: tuple[MetricColumn, ...]
    rows: IntArray
    counts: MetricCounts
    slices: tuple[MetricSlice, ...] = ()
    id_fit: IdFit | None = None
    open_rows: IntArray | None = None

    @property
    def all_rows(self) -> IntArray:
        """The queries with a value or bounds."""
        return self.rows if self.open_rows is None else self.open_rows


MAX_KEYS = 16
"""The most keys that a request may slice by."""
MAX_SLICES = 1000
"""The most slices of one request."""


def with_intervals_and_slices(
    table: MetricTable,
    options: SettledOptions,
    metadata: Sequence[Mapping[str, str]] = (),
) -> MetricTable:
    """Return the table with the intervals and the slices that the options request.

    `metadata` has one entry per query, by the indices in `table.rows`, or is empty. Raises
    InvalidField at `options.slice_by[i]` if the keys up to that one make more than MAX_SLICES
    slices, and at `options.interval.resamples` if the intervals are too much work.
    """
    keys = options.slice_by
    if options.interval is not None:
        n_queries = len(table.rows) * (1 + len(keys))
        check_work(n_queries, len(table.columns), options.interval)
    slices: list[MetricSlice] = []
    for i, key in enumerate(keys):
        rows_of: dict[str, list[int]] = {}
        for row in table.all_rows.tolist():  # so that no slice is empty
            rows_of.setdefault(metadata[row].get(key, "") if metadata else "", []).append(row)
        rule = f"makes more than {MAX_SLICES} slices; slice by keys with fewer values"
        need(len(slices) + len(rows_of) <= MAX_SLICES, f"options.slice_by[{i}]", rule)
        for value, rows in sorted(rows_of.items()):
            checkpoint()
            places, open_places = (
                np.flatnonzero(np.isin(among, rows, assume_unique=True))
                for among in (table.rows, table.all_rows)
            )
            parts = [column.over(places, open_places) for column in table.columns]
            slices.append(MetricSlice(key, value, _with_intervals(parts, options.interval)))
    columns = _with_intervals(table.columns, options.interval)
    return replace(table, columns=columns, slices=tuple(slices))


def _with_intervals(
    columns: Sequence[MetricColumn], options: IntervalOptions | None
) -> tuple[MetricColumn, ...]:
    if options is None or not columns:
        return tuple(columns)
    intervals = mean_intervals(np.stack([column.values for column in columns]), options)
    return tuple(
        replace(column, interval=interval)
        for column, interval in zip(columns, intervals, strict=True)
    )


Settings = Sequence[tuple[str, str]]

_MODE = "MATCHING_MODE_"
"""The contract's name of the enum of matching modes."""


def refuse_metrics(measures: Sequence[Measure], why: Callable[[Metric], str]) -> None:
    """Raise InvalidField at `metrics[i]` for the first metric that `why` returns a rule for."""
    for i, metric in enumerate(measure.metric for measure in measures):
        rule = why(metric)
        need(not rule, f"metrics[{i}]", f"{metric.name} {rule}")


def _refuse_families(measures: Sequence[Measure], relevance: str) -> None:
    """Raise InvalidField at `metrics[i]` for a metric of a family, whose judge does not run here.

    `relevance` is the source of relevance instead: verdicts, qrels or gains.
    """

    def why(metric: Metric) -> str:
        if not metric.family:
            return ""
        instead = f"use Evaluate, or ask for {metric.name.removesuffix(f'_{metric.family}')}"
        if relevance == "verdicts":
            kind = FAMILIES[metric.family].kind
            instead += f" with matching {_MODE}ANY over verdicts of the judge {kind}"
        return f"is judged on the way, not taken from {relevance}; {instead}"

    refuse_metrics(measures, why)


def check_modes(
    measures: Sequence[Measure],
    mode: Matching,
    *,
    families: bool = False,
    by_id: bool = False,
) -> None:
    """Raise InvalidField at `metrics[i]` for a metric that the mode leaves undefined.

    Families have a mode of their own, and pass if `families`, that is if their judges run.
    `by_id` means that all groups are matched by document id, so that pooled metrics are defined.
    """
    if not families:
        _refuse_families(measures, "verdicts")

    def why(metric: Metric) -> str:
        of_pool = by_id and metric.pooled and mode is not Matching.ANY
        if mode in metric.modes or metric.family or of_pool:
            return ""
        if not metric.modes:
            return "is not defined for verdicts; it needs qrels or gains"
        defined = ", ".join(_MODE + each.name for each in metric.modes)
        return f"is not defined for matching {_MODE}{mode.name}; use {defined}"

    refuse_metrics(measures, why)


_WITHOUT_TOTAL = frozenset(
    {"precision", "hit_rate", "mrr", "context_precision", "err", "rbp", "rbp_residual"}
)


def check_open_ended(measures: Sequence[Measure], max_grade: int) -> None:
    """Raise InvalidField for a metric that needs the number of relevant items.

    Without expected texts the number is unknown. ndcg is defined if the judge gives grades: it
    compares the order with the best order of the same results.
    """
    rule = (
        "needs to know how much there is to find, and a query has no expected text; ask for "
        "precision, hit_rate, mrr, or ndcg by a judge that grades, or give each query what is "
        "expected"
    )
    defined = _WITHOUT_TOTAL | ({"ndcg"} if max_grade else set())
    refuse_metrics(measures, lambda m: "" if m.family or m.name in defined else rule)


def compute_judged(
    measures: Sequence[Measure],
    results: JudgedResults,
    options: SettledOptions,
    *,
    field: str = "groups[{}].expected",
) -> MetricTable:
    """Return the metrics of judged results; graded metrics take the judge's grades as gains.

    Groups that are matched by document id are measured as under qrels: one without a relevant
    document among the judged ones is 0.

    A failure is never "not relevant": a query whose hits could change with its missing verdicts is
    *unsettled*. It is counted, but has no value and is not in the mean. The bounds include it, at
    its worst and at its best; `matching` says how firm they are. Since they include more queries
    than the mean, the mean can lie outside them.

    Raises InvalidField as `check_modes` does, and at `field.format(i)` for a group that expects
    nothing if the policy is ERROR.
    """
    ids = results.judged_ids
    by_id = ids is not None and bool(ids.by_id.all())
    check_modes(measures, options.matching, by_id=by_id)
    n_gold = results.n_expected if ids is None else results.n_expected + np.diff(ids.offsets)
    has_gold = _gold_mask(n_gold, options.no_gold, field)
    gaps = unsettled(results, options.matching)
    settled = has_gold.copy()
    settled[gaps.groups] = False  # these have gold, since they have verdicts
    rows = np.flatnonzero(settled)
    matched = match(results, options.matching)
    weighed = matched if results.gains is None else graded(results, matched)
    if ids is not None:
        weighed = ids.added_to(weighed, weighed=True, full=float(results.max_grade or 1))
        matched = ids.added_to(matched, weighed=False)
    by_gain = weighed.take(rows)
    rankings = matched.take(rows) if weighed is not matched else by_gain
    settings = [("matching", options.matching.name.lower()), _no_gold_setting(options)]
    scale = [*settings, ("grades", f"0-{results.max_grade}")] if results.max_grade else settings
    if ids is not None and ids.graded.any():
        scale = [*scale, ("ids", "graded")]
    order = np.argsort(np.concatenate([rows, gaps.groups]))
    has_open = results.missing is not None and bool(results.missing.any())

    def column(measure: Measure) -> MetricColumn:
        weighs = measure.metric.graded or measure.metric.pooled
        made = _measured(measure, by_gain if weighs else rankings, scale if weighs else settings)
        if not has_open:
            return made
        values = made.values
        cases = gaps.graded if gaps.graded and measure.metric.graded else gaps.extremes
        both = np.concatenate([np.tile(values, (2, 1)), _extremes(measure, cases)], axis=1)
        return replace(made, bounds=both[:, order])

    return MetricTable(
        columns=tuple(map(column, measures)),
        rows=rows,
        counts=MetricCounts(
            queries=len(has_gold),
            evaluated=len(rows),
            skipped_no_gold=int(np.count_nonzero(~has_gold)),
            skipped_unsettled=len(gaps.groups),
            duplicates=results.duplicates,
            retrieved=int(rankings.offsets[-1]),
            unjudged=0 if ids is None else ids.n_unjudged(matched, rows),
        ),
        open_rows=np.concatenate([rows, gaps.groups])[order] if has_open else None,
    )


def compute_trec(
    measures: Sequence[Measure],
    qrels: Qrels,
    run: Topics,
    options: SettledOptions,
) -> MetricTable:
    """Return the metrics of a run under qrels, as trec_eval has them; rows are topics of the qrels.

    A topic without relevant documents is 0, whatever `options.no_gold` is. The values of
    `options.unjudged` are described at `Unjudged`. Grades below `options.relevance_level` are not
    relevant, but graded metrics use all grades, as under trec_eval -l. `options.max_documents` cuts
    the rankings first. Raises as `rank_run` does.
    """
    _refuse_families(measures, "qrels")
    ranked = rank_run(
        qrels, run, complete=options.complete, strict_duplicates=options.strict_duplicates
    )
    settings = [("source", "trec"), *([("complete", "true")] if options.complete else [])]
    policy = options.unjudged
    if policy is not Unjudged.NON_RELEVANT:
        settings.append(("unjudged", policy.name.lower()))
    rankings = ranked.rankings
    if options.max_documents is not None:
        settings.append(("max_documents", str(options.max_documents)))
        rankings = rankings.top(options.max_documents)
    n_unjudged = int(np.count_nonzero(rankings.unjudged))
    if policy is Unjudged.CONDENSED:
        rankings = rankings.condensed()
    binary = rankings
    if options.relevance_level > 1:
        settings.append(("relevance_level", str(options.relevance_level)))
        binary = rankings.relevant_from(options.relevance_level)
    bounded = policy is Unjudged.BOUNDS
    cases = [own.unjudged_extremes() if bounded else () for own in (binary, rankings)]

    def column(measure: Measure) -> MetricColumn:
        graded = measure.metric.graded
        made = _measured(measure, rankings if graded else binary, settings)
        bounds = _extremes(measure, cases[graded], made.values) if bounded else None
        return replace(made, bounds=bounds)

    counts = replace(ranked.counts, retrieved=int(rankings.offsets[-1]), unjudged=n_unjudged)
    return MetricTable(
        tuple(map(column, measures)),
        ranked.rows,
        counts,
        id_fit=ranked.id_fit,
        open_rows=ranked.rows if bounded else None,
    )


def compute_gains(
    measures: Sequence[Measure],
    gains: Sequence[Sequence[float]],
    relevant_gains: Sequence[Sequence[float]],
    options: SettledOptions,
    *,
    field: str = "gains.rankings",
) -> MetricTable:
    """Return the metrics of rankings whose gains the caller knows.

    Raises as `rank_gains` does, and InvalidField at `field[i].relevant_gains` for a query that has
    none if the policy is ERROR.
    """
    _refuse_families(measures, "gains")
    rankings = rank_gains(gains, relevant_gains, field)
    has_gold = _gold_mask(rankings.n_relevant, options.no_gold, field + "[{}].relevant_gains")
    rows = np.flatnonzero(has_gold)
    chosen = rankings if has_gold.all() else rankings.take(rows)
    settings = [("source", "gains"), _no_gold_setting(options)]
    return MetricTable(
        columns=tuple(_measured(measure, chosen, settings) for measure in measures),
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
    columns: Sequence[FloatArray],
    n_queries: int,
    id_fits: Sequence[IdFit] = (),
) -> MetricTable:
    """Return the table of values from earlier calls, one column per measure, with their id fits.

    The mean is exact, so that it equals the mean of one call over all queries to the last bit.
    """
    merged = [
        MetricColumn(str(measure), values, measure.signature([("source", "values")]))
        for measure, values in zip(measures, columns, strict=True)
    ]
    counts = MetricCounts(queries=n_queries, evaluated=n_queries)
    return MetricTable(tuple(merged), np.arange(n_queries), counts, id_fit=add_fits(id_fits))


def join_tables(tables: Sequence[MetricTable], sizes: Sequence[int]) -> MetricTable:
    """Return the table of the queries of all tables, one table after the other.

    `sizes` has the number of queries given to each table.
    """
    firsts = [*accumulate(sizes, initial=0)]
    has_open = any(table.open_rows is not None for table in tables)
    columns = []
    for same in zip(*(table.columns for table in tables), strict=True):
        values = np.concatenate([column.values for column in same])
        bounds = np.concatenate([column.range for column in same], axis=1) if has_open else None
        doubt = max(column.doubt for column in same)
        columns.append(MetricColumn(same[0].name, values, same[0].signature, bounds, doubt=doubt))
    rows, all_rows = (
        np.concatenate([own + first for own, first in zip(each, firsts, strict=False)])
        for each in zip(*((table.rows, table.all_rows) for table in tables), strict=True)
    )
    names = [part.name for part in fields(MetricCounts) if part.name != "verdicts"]
    totals = {name: sum(getattr(table.counts, name) for table in tables) for name in names}
    fit = add_fits([table.id_fit for table in tables if table.id_fit is not None])
    counts = MetricCounts(**totals)
    open_rows = all_rows if has_open else None
    return MetricTable(tuple(columns), rows, counts, id_fit=fit, open_rows=open_rows)


def _gold_mask(n_relevant: IntArray, policy: NoGold, field: str) -> BoolArray:
    """Return bool[n]: the queries that may have a value, by the policy for those without gold."""
    has_gold = n_relevant > 0
    if policy is NoGold.ZERO:
        return np.ones_like(has_gold)
    if policy is NoGold.ERROR and not has_gold.all():
        rule = f"must not be empty when no_gold is NO_GOLD_POLICY_{policy.name}"
        raise InvalidField(field.format(int(has_gold.argmin())), rule)
    return has_gold


def _no_gold_setting(options: SettledOptions) -> tuple[str, str]:
    return ("no_gold", options.no_gold.name.lower())


def _measured(measure: Measure, rankings: Rankings, settings: Settings) -> MetricColumn:
    values, signature = measure.values(rankings), measure.signature(settings)
    return MetricColumn(str(measure), values, signature, doubt=measure.doubt(rankings))


def _extremes(measure: Measure, cases: Sequence[Rankings], *known: FloatArray) -> FloatArray:
    """Return the lowest and the highest value of each query over rankings and `known` values."""
    tried = np.clip([*known, *(measure.values(case) for case in cases)], 0.0, 1.0)
    return np.stack([tried.min(axis=0), tried.max(axis=0)])


@dataclass(frozen=True, slots=True)
class Judging:
    """Measures, the judged results to compute them from, and the options for matching.

    The judgings of one table have the same groups.
    """

    measures: Sequence[Measure]
    results: JudgedResults
    options: SettledOptions


def compute_merged(
    judgings: Sequence[Judging],
    measures: Sequence[Measure],
    *,
    field: str = "groups[{}].expected",
) -> MetricTable:
    """Return the table of all judgings, with a column for each of `measures`, in that order.

    Raises InvalidField as `compute_judged` does.
    """
    tables = [compute_judged(j.measures, j.results, j.options, field=field) for j in judgings]
    rows = reduce(np.intersect1d, [table.rows for table in tables])
    if any(len(table.rows) != len(rows) for table in tables):
        tables = [_restricted(table, rows) for table in tables]
    table = tables[0]
    columns = {column.name: column for each in tables for column in each.columns}
    open_rows = next((each.open_rows for each in tables if each.open_rows is not None), None)
    return replace(
        table,
        columns=tuple(columns[str(measure)] for measure in measures),
        counts=replace(table.counts, retrieved=int(judgings[0].results.n_retrieved[rows].sum())),
        open_rows=open_rows,
    )


def _restricted(table: MetricTable, rows: IntArray) -> MetricTable:
    """Return a table reduced to some of its rows, with bounds that still include all queries."""
    places = np.flatnonzero(np.isin(table.rows, rows, assume_unique=True))
    left_out = len(table.rows) - len(rows)
    unsettled = table.counts.skipped_unsettled + left_out
    counts = replace(table.counts, evaluated=len(rows), skipped_unsettled=unsettled)
    columns = (replace(c, values=c.values[places], bounds=c.range) for c in table.columns)
    return replace(
        table, columns=tuple(columns), rows=rows, counts=counts, open_rows=table.all_rows
    )


@dataclass(frozen=True, slots=True)
class HumanValues:
    """The values of some queries by human labels.

    queries  int64[n]: the indices of the queries, each once.
    values   float64[m, n], finite: one row per metric.
    inclusion float64[n]: the probability that each was drawn; None if all are equal.
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
    """Return float64[m, n]: the metrics of some of the queries by human decisions.

    `relevant` has a decision for each context of `queries`, in that order and retrieved-major.
    """
    sizes = results.n_retrieved[queries], results.n_expected[queries]
    open_ended = results.is_open_ended(queries)
    rankings = match(JudgedResults(relevant, *sizes, open_ended=open_ended), mode)
    return np.array([measure.values(rankings) for measure in measures])


def correct(table: MetricTable, human: HumanValues, *, confidence: float = 0.95) -> MetricTable:
    """Return the table with corrected means."""
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
        columns.append(replace(column, corrected=mean))
    return replace(table, columns=tuple(columns))
