"""Converts the messages of metrics: options, rankings and human labels in, tables out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
from google.protobuf.message import Message
from judged._codec import read_fields, write_fields
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import metrics_pb2
from judged.v1.statistics_service_pb2 import ComparedRun, CompareRunsRequest
from judged.values.agreement import IdFit
from judged.values.choices import IntervalOptions, Matching
from judged.values.groups import VerdictCounts

from judged_server.api.columns import read_columns, read_values
from judged_server.api.convert.judging import (
    check_unset,
    read_embeddings,
    read_grades,
    read_query_metadata,
    read_verdicts,
    write_identity,
    write_verdicts,
)
from judged_server.api.requests import MAX_INT32, check, read
from judged_server.domain import (
    FloatArray,
    Group,
    IntArray,
    Verdicts,
    check_ids,
    check_names,
    check_unique,
    counts_of,
    need,
    need_length,
)
from judged_server.errors import InvalidField
from judged_server.judges.semantic import caller_identity, score_vectors
from judged_server.metrics.compute import (
    MAX_KEYS,
    HumanValues,
    Judging,
    MetricColumn,
    MetricTable,
    SettledOptions,
    check_modes,
    check_open_ended,
    compute_gains,
    compute_judged,
    compute_merged,
    compute_trec,
    correct,
    merge_values,
    refuse_metrics,
    values_of_labels,
    with_intervals_and_slices,
)
from judged_server.metrics.input.id_fit import IdSample, fit_warning
from judged_server.metrics.input.judged_ids import JudgedIds
from judged_server.metrics.input.rankings import Qrels, Topics, refuse_first
from judged_server.metrics.matching import JudgedResults, grades_of
from judged_server.metrics.measures import FAMILIES, Measure, Metric, parse_metrics
from judged_server.settings import Limits
from judged_server.usecases.evaluate import Evaluation, results_of

_DOUBLE_BYTES = 8
_LABELS, _VALUES = "judged.human_labels", "human_values"
_SIMILARITY = FAMILIES["similarity"]
_UNJUDGED = dict.fromkeys(
    ("relevant_document_ids", "grades"),
    "can't be combined with human_labels: nothing was judged",
)
_INPUTS = {
    "groups": "verdicts",
    "judged": "verdicts",
    "embedded": "verdicts",
    "gains": "gains",
    "trec": "qrels",
    "values": None,
}
"""The `input` of MetricOptions that applies to each kind of rankings."""


def read_options(message: metrics_pb2.MetricOptions, given_as: str) -> SettledOptions:
    """Return the options of a request.

    `given_as` is the kind of rankings: a name of the oneof `relevance`, or "groups". Raises
    InvalidField for invalid options, and for those that have no effect for this kind.
    """
    given, interval, slice_by = message.WhichOneof("input"), None, tuple(message.slice_by)
    if message.HasField("interval"):
        interval = read(IntervalOptions, message.interval, "options.interval")
    check_names(slice_by, "keys", MAX_KEYS, "options.slice_by", least=0)
    path = f"options.{given}"
    of_input = getattr(message, given or "qrels")
    options = read(SettledOptions, of_input, path, interval=interval, slice_by=slice_by)
    used = _INPUTS[given_as]
    rule = f"does nothing for {given_as}; leave it out"
    instead = f", or set {used}" if used else ""
    need(given in {None, used}, path, rule + instead)
    strict = options.strict_duplicates and given_as not in {"groups", "trec"}
    need(not strict, f"{path}.strict_duplicates", rule)
    return options


@dataclass(frozen=True, slots=True)
class Measured:
    """A metric table, its queries, and the counts of their verdicts.

    `not_measured` are further queries of the request; `judged` has the verdicts.
    """

    table: MetricTable
    query_ids: Sequence[str]
    counts: VerdictCounts | None = None
    not_measured: Sequence[str] = ()
    judged: JudgedResults | None = None


def chosen(message: Message, choice: str, path: str = "") -> str:
    """Return which field of a oneof is set. Raises InvalidField if none is."""
    which: str | None = message.WhichOneof(choice)
    if which is None:
        *names, last = (each.name for each in message.DESCRIPTOR.oneofs_by_name[choice].fields)
        rule = f"set one of {', '.join(names)} or {last}"
        raise InvalidField(f"{path}.{choice}".lstrip("."), rule)
    return which


def compute(request: pb.ComputeMetricsRequest, limits: Limits) -> pb.ComputeMetricsResponse:
    """Return the reply of ComputeMetrics, for any kind of relevance."""
    measures = parse_metrics(request.metrics, of_values=request.HasField("values"))
    which = chosen(request, "relevance")
    options = read_options(request.options, which)
    rankings = Rankings(measures, options, limits)
    done = rankings.measure(which, request)
    return pb.ComputeMetricsResponse(table=write_measured(done, request, rankings))


def write_measured(
    done: Measured, request: pb.ComputeMetricsRequest, rankings: Rankings
) -> metrics_pb2.MetricTable:
    """Return the table with the slices, intervals and corrections that the request asks for."""
    metadata: Sequence[Mapping[str, str]] = ()
    if request.metadata:
        metadata = read_query_metadata(request.metadata, done.query_ids, done.not_measured)
    table = with_intervals_and_slices(done.table, rankings.options, metadata)
    if request.HasField("human_values") or request.judged.HasField("human_labels"):
        table = _corrected(table, request, rankings.measures, rankings.options, done)
    per_query = request.options.per_query
    return write_table(table, done.query_ids, done.counts, per_query=per_query)


@dataclass(frozen=True, slots=True)
class Rankings:
    """Measures rankings of any kind, of a request or of a run in a comparison.

    Field paths in errors begin with `path`. `limits` bound vectors, since a small message can ask
    for many cosines. `qrels` are those of a comparison. With `is_part`, the part of a stream, qrels
    may be missing.
    """

    measures: Sequence[Measure]
    options: SettledOptions
    limits: Limits
    path: str = ""
    qrels: Any = None
    is_part: bool = False

    def measure(self, which: str, holder: pb.ComputeMetricsRequest | ComparedRun) -> Measured:
        """Return the metrics of the rankings in field `which` of a message."""
        check(getattr(holder, which), f"{self.path}{which}")
        done: Measured = getattr(self, f"_{which}")(getattr(holder, which))
        return done

    def _gains(self, message: metrics_pb2.GainRankings) -> Measured:
        rankings, field = message.rankings, f"{self.path}gains.rankings"
        query_ids = _query_ids(rankings, field)
        gains = [ranking.gains for ranking in rankings]
        relevant = [ranking.relevant_gains for ranking in rankings]
        table = compute_gains(self.measures, gains, relevant, self.options, field=field)
        return Measured(table, query_ids)

    def _values(self, message: metrics_pb2.PerQueryValues) -> Measured:
        query_ids, field = list(message.query_ids), f"{self.path}values"
        check_unique(query_ids, field + ".query_ids[{}]")
        columns, _ = _read_values(message, self.measures, field)
        fits = [read_fields(IdFit, fit) for fit in message.id_fits]
        return Measured(merge_values(self.measures, columns, len(query_ids), fits), query_ids)

    def _trec(self, message: metrics_pb2.TrecRankings) -> Measured:
        qrels = read_qrels(message, "trec.", may_be_empty=self.is_part)
        return self._of_run(qrels, read_topics(message, "trec.", "run"))

    def _documents(self, message: Any) -> Measured:  # noqa: ANN401 - of a compared run
        return self._of_run(self.qrels, read_topics(message, f"{self.path}documents.", "topics"))

    def _of_run(self, qrels: Qrels, run: Topics) -> Measured:
        table = compute_trec(self.measures, qrels, run, self.options)
        return Measured(table, list(qrels.row_of), not_measured=run.query_ids)

    def _judged(self, message: metrics_pb2.JudgedRankings) -> Measured:
        rankings, path = message.rankings, f"{self.path}judged"
        field = f"{path}.rankings"
        query_ids = _query_ids(rankings, field)
        sizes = [(ranking.retrieved, ranking.expected) for ranking in rankings]
        pairs = [retrieved * expected for retrieved, expected in sizes]
        verdicts = read_verdicts(message.verdicts, pairs, f"{path}.verdicts")
        judged_ids, seen = _read_ids(message, field)
        open_ended = np.array([ranking.open_ended for ranking in rankings], np.bool_)
        if open_ended.any():
            check_open_ended(self.measures, message.max_grade)
        results = replace(
            results_of(verdicts, sizes),
            judged_ids=judged_ids,
            open_ended=open_ended if open_ended.any() else None,
            **_grades(message, verdicts, path),
        )
        table = compute_judged(self.measures, results, self.options, field=field + "[{}].expected")
        if judged_ids is not None:
            table = replace(table, id_fit=judged_ids.fit(results.n_retrieved, seen))
        return Measured(table, query_ids, counts_of(verdicts), judged=results)

    def _embedded(self, message: pb.EmbeddedRankings) -> Measured:
        """Measure vectors by their cosine, as the judge `semantic` does, without a model."""
        refuse_metrics(self.measures, _not_of_vectors)
        check_modes(self.measures, self.options.matching, families=True)
        min_score = message.min_score if message.HasField("min_score") else _SIMILARITY.min_score
        field = "embedded.rankings"
        query_ids = _query_ids(message.rankings, field)
        groups = []
        for i, ranking in enumerate(message.rankings):
            vectors = read_embeddings(ranking.embeddings, self.limits, f"{field}[{i}].embeddings")
            groups.append(Group(ranking.query_id, "", (), (), embeddings=vectors))
        offsets = list(accumulate([group.n_contexts for group in groups], initial=0))
        self.limits.check_contexts(offsets[-1], field)
        verdicts = Verdicts.decide(score_vectors(groups), offsets, min_score)
        results = results_of(verdicts, [(each.n_retrieved, each.n_expected) for each in groups])
        signature = caller_identity(min_score).signature
        in_mode_any = replace(self.options, matching=Matching.ANY)
        judgings = []
        for family, options in (("", self.options), (_SIMILARITY.name, in_mode_any)):
            own = [m.judged_by(signature) for m in self.measures if m.metric.family == family]
            judgings += [Judging(own, results, options)] if own else []
        table = compute_merged(judgings, self.measures, field=field + "[{}].embeddings.expected")
        return Measured(table, query_ids, counts_of(verdicts))


def _not_of_vectors(metric: Metric) -> str:
    """Return why a metric can't be computed from vectors, "" if it can."""
    if metric.family in {"", _SIMILARITY.name}:
        return ""
    other = metric.name.removesuffix(metric.family) + _SIMILARITY.name
    return f"compares texts, and here are vectors; use Evaluate, or ask for {other}"


def _query_ids(rankings: Any, field: str) -> list[str]:  # noqa: ANN401 - of any kind
    query_ids = [ranking.query_id for ranking in rankings]
    check_unique(query_ids, f"{field}[{{}}].query_id")
    return query_ids


def _read_ids(message: metrics_pb2.JudgedRankings, field: str) -> tuple[JudgedIds | None, IdSample]:
    """Return the matches by document id, None if no ranking uses ids. Raises InvalidField."""
    seen, by_id = IdSample(), False
    groups: list[tuple[Sequence[str], Sequence[str], Mapping[str, int]]] = []
    for i, ranking in enumerate(message.rankings):
        path, found, n_ids = f"{field}[{i}]", ranking.document_ids, 0
        relevant: Sequence[str] = ranking.relevant_document_ids
        grades: Mapping[str, int] = ranking.grades
        one = ranking.expected == 1 or not ranking.open_ended
        need(one, f"{path}.expected", "must be 1 where open_ended is set")
        if grades:
            grades, relevant = read_grades(ranking, path)
        if relevant or grades:
            by_id, n_ids = True, ranking.retrieved
            check_unset(ranking, {"expected": "must be 0 for a ranking matched by id"}, path)
            if message.HasField("human_labels"):
                check_unset(ranking, _UNJUDGED, path)
        need_length(found, n_ids, f"{path}.document_ids", "results that are matched by id")
        groups.append((found or [""] * ranking.retrieved, relevant, grades))
    if not by_id:
        return None, seen
    seen.see(groups)
    return JudgedIds.of(groups), seen


def _grades(message: metrics_pb2.JudgedRankings, verdicts: Verdicts, field: str) -> dict[str, Any]:
    """Return the fields of JudgedResults for graded verdicts; empty for a judge without grades."""
    most = message.max_grade
    if not most:
        return {}
    n = len(verdicts.relevant)
    need_length(message.verdicts.score, n, f"{field}.verdicts.score", "verdicts with max_grade")
    rule = "decide yes or no, and can't correct grades; leave them or max_grade out"
    check_unset(message, {"human_labels": rule}, field)
    return {"gains": grades_of(verdicts.columns.scores, most), "max_grade": most}


def read_qrels(
    message: metrics_pb2.TrecRankings | CompareRunsRequest,
    path: str,
    *,
    may_be_empty: bool = False,
) -> Qrels:
    """Return the qrels of a message; `path` is its path, with a trailing dot.

    Raises InvalidField without any unless `may_be_empty`, at `qrels[i].grades[j]` for a grade in
    columns that is no whole number, and as `read_topics` and Qrels.of do.
    """
    topics = read_topics(message, path, "qrels")
    if message.HasField("qrels_columns"):
        grades = topics.values
        whole = np.clip(np.trunc(grades), -MAX_INT32 - 1, MAX_INT32) == grades
        rule = f"must be a whole number from {-MAX_INT32 - 1} to {MAX_INT32}"
        refuse_first(~whole, topics.offsets, f"{path}qrels", "grades", rule)
    need(len(topics) > 0 or may_be_empty, f"{path}qrels", "must hold at least one topic")
    return Qrels.of(topics)


_TOPICS = {
    "qrels": ("qrels_columns", "grades"),
    "run": ("run_columns", "scores"),
    "topics": ("topic_columns", "scores"),
}
"""For each field of topics: the field that has them as columns, and the values of documents."""


def read_topics(message: Any, path: str, rows: str) -> Topics:  # noqa: ANN401 - of three kinds
    """Return the topics of a message, given either as rows or as columns.

    Raises InvalidField for both, for columns of inconsistent lengths, and as Topics does.
    """
    columns, values = _TOPICS[rows]
    given, field, of_columns = getattr(message, rows), path + rows, path + columns
    if not message.HasField(columns):
        each = [(topic.query_id, topic.document_ids, getattr(topic, values)) for topic in given]
        return Topics.of_rows(each, field, values)
    if given:
        check_unset(message, {columns: f"must be left unset where {rows} is given"}, path[:-1])
    packed = getattr(message, columns)
    read_columns(packed, of_columns)
    n = len(packed.values)
    rule = f"has {n} bytes; a number takes {_DOUBLE_BYTES}"
    need(n % _DOUBLE_BYTES == 0, f"{of_columns}.values", rule)
    numbers = np.frombuffer(packed.values, "<f8").astype(np.float64, copy=False)
    return Topics.of_columns(
        packed.query_ids[:],
        np.array(packed.n_documents[:], np.int64),
        packed.document_ids,
        numbers if n or values == "grades" else None,
        (field, of_columns),
        values,
    )


def _corrected(
    table: MetricTable,
    request: pb.ComputeMetricsRequest,
    measures: Sequence[Measure],
    options: SettledOptions,
    done: Measured,
) -> MetricTable:
    """Return the table with means corrected by the request's human labels or values."""
    judged, labels = done.judged, request.judged.human_labels
    if judged is not None and request.judged.HasField("human_labels"):
        rule = f"must be unset when {_LABELS} is set; use one of them"
        check_unset(request, {_VALUES: rule})
        queries = _places(labels.query_ids, done.query_ids, _LABELS)
        contexts = int((judged.n_retrieved * judged.n_expected)[queries].sum())
        found = read_columns(labels, _LABELS, contexts=contexts)
        relevant = np.array(labels.relevant, np.bool_)
        values = values_of_labels(measures, judged, queries, relevant, options.matching)
    else:
        queries = _places(request.human_values.query_ids, done.query_ids, _VALUES)
        columns, found = _read_values(request.human_values, measures, _VALUES)
        values = np.array(columns)
    confidence = (options.interval or IntervalOptions()).confidence
    inclusion = found["inclusion_probabilities"]
    human = HumanValues(queries, values, inclusion if len(inclusion) else None)
    return correct(table, human, confidence=confidence)


def _read_values(
    message: metrics_pb2.PerQueryValues, measures: Sequence[Measure], field: str
) -> tuple[list[FloatArray], dict[str, FloatArray]]:
    """Return the values of each metric, and the other columns. Raises InvalidField."""
    found = read_columns(message, field, metrics=len(measures))
    n = len(message.query_ids)
    return read_values(message.columns, f"{field}.columns", query_ids=n), found


def _places(labelled: Sequence[str], query_ids: Sequence[str], field: str) -> IntArray:
    """Return int64[n]: the place of each labelled query in `query_ids`."""
    known = {query_id: place for place, query_id in enumerate(query_ids)}
    check_ids(labelled, known, f"{field}.query_ids[{{}}]")
    return np.array([known[query_id] for query_id in labelled], np.int64)


def write_table(
    table: MetricTable,
    query_ids: Sequence[str],
    counts: VerdictCounts | None,
    *,
    per_query: bool = False,
) -> metrics_pb2.MetricTable:
    """Return the message of a table; `query_ids` are the queries of the request."""
    fit = table.id_fit
    doubts = [column.doubt for column in table.columns]
    doubts.append("" if fit is None else fit_warning(fit))
    return write_fields(
        metrics_pb2.MetricTable,
        metrics=[_write_column(column, per_query=per_query) for column in table.columns],
        query_ids=[query_ids[row] for row in table.rows.tolist()] if per_query else (),
        counts=replace(table.counts, verdicts=counts),
        slices=[
            write_fields(metrics_pb2.MetricSlice, part, metrics=map(_write_column, part.columns))
            for part in table.slices
        ],
        warnings=filter(None, doubts),
        id_fit=fit,
    )


def _write_column(column: MetricColumn, *, per_query: bool = False) -> metrics_pb2.MetricResult:
    return write_fields(
        metrics_pb2.MetricResult,
        column,
        lower_bound=column.lower,
        upper_bound=column.upper,
        per_query=column.values.tolist() if per_query else (),
    )


def write_evaluation(
    done: Evaluation, *, per_query: bool = False, verdicts: Verdicts | None = None
) -> pb.EvaluateResponse:
    """Return the reply of Evaluate."""
    return write_fields(
        pb.EvaluateResponse,
        done,
        table=write_table(done.table, done.query_ids, done.counts, per_query=per_query),
        judge=None if done.identity is None else write_identity(done.identity),
        verdicts=None if verdicts is None else write_verdicts(verdicts),
    )
