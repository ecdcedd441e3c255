"""Between the metric messages and `metrics`: options and rankings in, tables out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np
from judged._codec import read_fields, write_fields
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import metrics_pb2, verdicts_pb2
from judged.values.choices import Matching, NoGold, Status, Unjudged
from judged.values.metrics import NegativeMatch
from judged.values.verdicts import VerdictCounts

from judged_server import errors
from judged_server.api.convert.correction import with_correction
from judged_server.api.convert.embedded import measure_embedded
from judged_server.api.convert.judging import read_grades, read_query_metadata, write_identity
from judged_server.api.convert.statistics import read_interval_options
from judged_server.api.convert.topics import read_qrels, read_run
from judged_server.api.convert.verdicts import read_verdicts, write_counts
from judged_server.domain import BoolArray, FloatArray, IntArray, Verdicts, check_unique, counts_of
from judged_server.metrics.compute import (
    check_open_ended,
    compute_gains,
    compute_judged,
    compute_trec,
    merge_values,
)
from judged_server.metrics.input.id_fit import IdFit
from judged_server.metrics.input.judged_ids import JudgedIds
from judged_server.metrics.input.trec import Qrels
from judged_server.metrics.matching import JudgedResults, grades_of
from judged_server.metrics.measures.names import Measure
from judged_server.metrics.table import (
    MetricColumn,
    MetricOptions,
    MetricTable,
    check_keys,
    with_intervals_and_slices,
)
from judged_server.settings import Limits
from judged_server.usecases.evaluate import Evaluation

MAX_GRADE = 1000
MAX_INT32 = 2**31 - 1
"""The largest grade of the contract, and more documents than a message holds."""

_Choice = TypeVar("_Choice", bound=IntEnum)


def read_options(message: metrics_pb2.MetricOptions, field: str = "options") -> MetricOptions:
    """Return the options of a request. Raises InvalidField for what no option can be."""
    verdicts, qrels = message.verdicts, message.qrels  # what is unset has the defaults
    judged = f"{field}.{message.WhichOneof('input')}"
    no_gold = message.gains if message.HasField("gains") else verdicts
    matching, empty = Matching.GREEDY_FIRST, NoGold.SKIP
    unjudged, interval = Unjudged.NON_RELEVANT, None
    if verdicts.HasField("matching"):
        matching = _choice(Matching, "MatchingMode", verdicts.matching, f"{judged}.matching")
    if no_gold.HasField("no_gold"):
        empty = _choice(NoGold, "NoGoldPolicy", no_gold.no_gold, f"{judged}.no_gold")
    if qrels.HasField("unjudged"):
        unjudged = _choice(Unjudged, "UnjudgedPolicy", qrels.unjudged, f"{judged}.unjudged")
    if message.HasField("interval"):
        interval = read_interval_options(message.interval, f"{field}.interval")
    slice_by = tuple(message.slice_by)
    check_keys(slice_by, f"{field}.slice_by")
    return MetricOptions(
        matching,
        empty,
        verdicts.strict_duplicates or qrels.strict_duplicates,
        qrels.complete,
        unjudged,
        interval,
        slice_by,
        _positive(qrels, "relevance_level", judged) or 1,
        _positive(qrels, "max_documents", judged),
    )


_INPUTS = {
    "groups": "verdicts",
    "judged": "verdicts",
    "embedded": "verdicts",
    "gains": "gains",
    "trec": "qrels",
    "values": None,
}
"""Which options something has, by what the rankings are given as."""


def refuse_unused(
    message: metrics_pb2.MetricOptions,
    given_as: str | None,
    field: str = "options",
) -> None:
    """Raise InvalidField for options that are set and would change nothing.

    `given_as` is how the rankings are given: a name of the oneof `relevance`, or "groups".
    """
    if given_as not in _INPUTS:
        return
    given, used = message.WhichOneof("input"), _INPUTS[given_as]
    if given is not None and given != used:
        instead = "leave it out" if used is None else f"leave it out, or set {used}"
        raise errors.InvalidField(f"{field}.{given}", f"does nothing for {given_as}; {instead}")
    if message.verdicts.strict_duplicates and given_as != "groups":
        rule = f"does nothing for {given_as}; leave it out"
        raise errors.InvalidField(f"{field}.verdicts.strict_duplicates", rule)


def _positive(message: metrics_pb2.QrelsOptions, name: str, field: str) -> int | None:
    """Return a whole number of the options from 1 to MAX_INT32, None where it is unset."""
    if not message.HasField(name):  # type: ignore[arg-type]  # a name that the caller spells out
        return None
    number: int = getattr(message, name)
    if not 1 <= number <= MAX_INT32:
        raise errors.InvalidField(f"{field}.{name}", f"must be unset or from 1 to {MAX_INT32}")
    return number


def _choice(kind: type[_Choice], name: str, number: int, field: str) -> _Choice:
    if int(number) not in set(kind):
        raise errors.InvalidField(field, f"must be unset or one of {errors.full_names(kind, name)}")
    return kind(number)


@dataclass(frozen=True, slots=True)
class Measured:
    """A table, the queries it was made from, and the counts of their verdicts.

    `not_measured` are other queries.
    """

    table: MetricTable
    query_ids: Sequence[str]
    counts: VerdictCounts | None = None
    not_measured: Sequence[str] = ()
    judged: tuple[JudgedResults, FloatArray] | None = None


def compute(
    request: pb.ComputeMetricsRequest,
    measures: Sequence[Measure],
    options: MetricOptions,
    limits: Limits | None = None,
    qrels: Qrels | None = None,
    prefix: str = "",
) -> metrics_pb2.MetricTable:
    """Return the table of a ComputeMetrics request, whichever relevance it brings.

    Vectors, whose cosines are work that a small message can ask much of, need `limits`. `qrels`
    that were read before take the place of those of the request, which is then one run of a
    comparison: errors name its fields as they are there, behind `prefix`.
    """
    refuse_unused(request.options, request.WhichOneof("relevance"))
    done = measure(request, measures, options, limits, qrels, prefix)
    return write_measured(done, request, measures, options)


def write_measured(
    done: Measured,
    request: pb.ComputeMetricsRequest,
    measures: Sequence[Measure],
    options: MetricOptions,
) -> metrics_pb2.MetricTable:
    """Return the table of what was measured, with all else that the request asks for."""
    metadata: Sequence[Mapping[str, str]] = ()
    if request.metadata:
        metadata = read_query_metadata(request.metadata, done.query_ids, done.not_measured)
    table = with_intervals_and_slices(done.table, options, metadata)
    if request.HasField("human_values") or request.judged.HasField("human_labels"):
        table = with_correction(*(table, request, measures, options, done.query_ids), done.judged)
    return write_table(
        table, done.query_ids, per_query=request.options.per_query, counts=done.counts
    )


def measure(
    request: pb.ComputeMetricsRequest,
    measures: Sequence[Measure],
    options: MetricOptions,
    limits: Limits | None,
    qrels: Qrels | None = None,
    prefix: str = "",
    *,
    is_part: bool = False,
) -> Measured:
    """Return what the rankings of a request are worth; a part of them may lack qrels."""
    which = request.WhichOneof("relevance")
    if which == "judged":
        return _judged(request.judged, measures, options, prefix)
    if which == "trec":
        return _trec(request.trec, measures, options, qrels, prefix, is_part=is_part)
    if which == "gains":
        rankings, field = request.gains.rankings, f"{prefix}gains.rankings"
        query_ids = _query_ids(rankings, field)
        gains = [ranking.gains for ranking in rankings]
        relevant = [ranking.relevant_gains for ranking in rankings]
        return Measured(compute_gains(measures, gains, relevant, options, field=field), query_ids)
    if which == "values":
        query_ids, field = list(request.values.query_ids), f"{prefix}values"
        check_unique(query_ids, field + ".query_ids[{}]")
        values = [column.values for column in request.values.columns]
        fits = [read_fields(IdFit, fit) for fit in request.values.id_fits]
        table = merge_values(measures, values, len(query_ids), fits, field=field)
        return Measured(table, query_ids)
    if which == "embedded" and limits is not None:
        table, query_ids, verdicts = measure_embedded(request.embedded, measures, options, limits)
        return Measured(table, query_ids, counts_of(verdicts))
    raise errors.InvalidField("relevance", "set one of judged, trec, gains, values or embedded")


def write_table(
    table: MetricTable, query_ids: Sequence[str], *, per_query: bool, counts: VerdictCounts | None
) -> metrics_pb2.MetricTable:
    """Return the message of a table; `query_ids` names the queries that were given."""
    warning = None if table.id_fit is None else table.id_fit.warning()
    message = metrics_pb2.MetricTable(
        metrics=[_write_column(column, per_query=per_query) for column in table.columns],
        counts=write_fields(metrics_pb2.MetricCounts, table.counts),
        slices=[
            metrics_pb2.MetricSlice(
                key=part.key,
                value=part.value,
                metrics=[_write_column(column, per_query=False) for column in part.columns],
            )
            for part in table.slices
        ],
        warnings=[warning] if warning else (),
        id_fit=None if table.id_fit is None else write_fields(metrics_pb2.IdFit, table.id_fit),
    )
    if counts is not None:
        message.counts.verdicts.CopyFrom(write_counts(counts))
    if per_query:
        message.query_ids.extend([query_ids[row] for row in table.rows.tolist()])
    return message


def _write_column(column: MetricColumn, *, per_query: bool) -> metrics_pb2.MetricResult:
    lower, upper = column.query_lower, column.query_upper
    return write_fields(
        metrics_pb2.MetricResult,
        column,
        lower_bound=column.lower,
        upper_bound=column.upper,
        per_query=column.values.tolist() if per_query else (),
        per_query_lower=() if lower is None else lower.tolist(),
        per_query_upper=() if upper is None else upper.tolist(),
    )


def _judged(
    message: metrics_pb2.JudgedRankings,
    measures: Sequence[Measure],
    options: MetricOptions,
    prefix: str,
) -> Measured:
    rankings, field = message.rankings, f"{prefix}judged.rankings"
    query_ids = _query_ids(rankings, field)
    sizes = [ranking.retrieved * ranking.expected for ranking in rankings]
    verdicts = read_verdicts(message.verdicts, sizes, f"{prefix}judged.verdicts")
    n_retrieved: IntArray = np.array([ranking.retrieved for ranking in rankings], np.int64)
    n_expected: IntArray = np.array([ranking.expected for ranking in rankings], np.int64)
    judged_ids, seen = _read_ids(message, field)
    statuses = verdicts.columns.statuses
    missing = None if statuses is None else statuses != Status.OK
    open_ended: BoolArray = np.array([ranking.open_ended for ranking in rankings], np.bool_)
    if open_ended.any():
        check_open_ended(measures, message.max_grade)
        for i in np.flatnonzero(open_ended & (n_expected != 1)).tolist():
            raise errors.InvalidField(f"{field}[{i}].expected", "must be 1 where open_ended is set")
    results = JudgedResults(
        verdicts.relevant,
        n_retrieved,
        n_expected,
        missing,
        judged_ids=judged_ids,
        open_ended=open_ended if open_ended.any() else None,
        **_grades(message, verdicts, f"{prefix}judged"),
    )
    table = compute_judged(measures, results, options, field=field + "[{}].expected")
    if judged_ids is not None:
        table = replace(table, id_fit=judged_ids.fit(n_retrieved, seen))
    counts = counts_of(verdicts)
    return Measured(table, query_ids, counts, judged=(results, verdicts.columns.scores))


def _read_ids(message: metrics_pb2.JudgedRankings, field: str) -> tuple[JudgedIds | None, IdFit]:
    """Return how rankings are matched by document id, None where none is. Raises InvalidField."""
    seen = IdFit()
    groups: list[tuple[Sequence[str], Sequence[str], Mapping[str, int]]] = []
    for i, ranking in enumerate(message.rankings):
        path, found = f"{field}[{i}]", ranking.document_ids
        relevant: Sequence[str] = ranking.relevant_document_ids
        grades: Mapping[str, int] = ranking.grades
        if grades:
            grades, relevant = read_grades(grades, relevant, path)
        by_id = bool(relevant or grades)
        if by_id and ranking.expected:
            raise errors.InvalidField(f"{path}.expected", "must be 0 for a ranking matched by id")
        if len(found) != (ranking.retrieved if by_id else 0):
            rule = f"has {len(found)} entries for {ranking.retrieved} retrieved"
            rule = rule if by_id else "does nothing for a ranking that is not matched by id"
            raise errors.InvalidField(f"{path}.document_ids", rule)
        if by_id and message.HasField("human_labels"):
            name = "grades" if grades else "relevant_document_ids"
            rule = "can't be combined with human_labels: nothing was judged"
            raise errors.InvalidField(f"{path}.{name}", rule)
        groups.append((found or [""] * ranking.retrieved, relevant, grades))
    if not any(relevant or grades for _, relevant, grades in groups):
        return None, seen
    seen.see(groups)
    return JudgedIds.of(groups), seen


def _grades(message: metrics_pb2.JudgedRankings, verdicts: Verdicts, field: str) -> dict[str, Any]:
    """Return what judged results have of the judge's grades, by name; nothing where it has none."""
    if not message.max_grade:
        return {}
    if message.max_grade > MAX_GRADE:
        raise errors.InvalidField(f"{field}.max_grade", f"must be at most {MAX_GRADE}")
    if len(message.verdicts.score) != len(verdicts.relevant):
        raise errors.InvalidField(
            f"{field}.verdicts.score", "must have an entry for each verdict where max_grade is set"
        )
    if message.HasField("human_labels"):
        rule = "decide yes or no, and can't correct grades; leave them or max_grade out"
        raise errors.InvalidField(f"{field}.human_labels", rule)
    gains = grades_of(verdicts.columns.scores, message.max_grade)
    return {"gains": gains, "max_grade": message.max_grade}


def _trec(
    message: metrics_pb2.TrecRankings,
    measures: Sequence[Measure],
    options: MetricOptions,
    known: Qrels | None,
    prefix: str,
    *,
    is_part: bool,
) -> Measured:
    qrels = read_qrels(message, may_be_empty=is_part) if known is None else known
    field, columns = "trec.run", "trec.run_columns"
    if known is not None:
        field, columns = f"{prefix}documents.topics", f"{prefix}documents.topic_columns"
    run = read_run(message, field, columns)
    table = compute_trec(measures, qrels, run, options)
    return Measured(table, list(qrels.row_of), not_measured=run.query_ids)


def _query_ids(
    rankings: Sequence[metrics_pb2.JudgedRanking] | Sequence[metrics_pb2.GainRanking],
    field: str,
) -> list[str]:
    if not rankings:
        raise errors.InvalidField(field, "must hold at least one ranking")
    query_ids = [ranking.query_id for ranking in rankings]
    check_unique(query_ids, f"{field}[{{}}].query_id")
    return query_ids


def write_evaluation(done: Evaluation, *, per_query: bool) -> pb.EvaluateResponse:
    """Return the reply to an evaluation, without its verdicts and the matches of negatives."""
    reply = pb.EvaluateResponse(
        table=write_table(done.table, done.query_ids, per_query=per_query, counts=None)
    )
    reply.table.counts.verdicts.CopyFrom(write_counts(done.counts))
    if done.negatives is not None:
        reply.negatives.CopyFrom(write_fields(pb.NegativeReport, done.negatives))
    if done.identity is not None:
        reply.judge.CopyFrom(write_identity(done.identity))
    if done.usage is not None:
        reply.usage.CopyFrom(write_fields(verdicts_pb2.Usage, done.usage))
    return reply


def write_match(match: NegativeMatch) -> pb.NegativeMatch:
    """Return the message of a result that matches a negative reference."""
    return write_fields(pb.NegativeMatch, match)
