"""Conversion between values and messages whose fields differ; see `_codec` for the others."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from struct import error as struct_error
from struct import pack
from typing import Any, NamedTuple

from google.protobuf.message import Message

from judged._codec import read_fields, write_at, write_fields
from judged._inputs import all_texts, join_ids, need_by_ids, need_ids, no_utf8
from judged._transport.call import in_python, may_retry
from judged.errors import InvalidArgument, JudgedError, WrongType
from judged.v1 import groups_pb2, metrics_pb2, verdicts_pb2
from judged.v1 import judge_service_pb2 as judge_pb
from judged.v1 import statistics_service_pb2 as statistics_pb
from judged.v1.error_reason_pb2 import ErrorReason
from judged.values.agreement import (
    GainRankings,
    JudgedRankings,
    PairedComparison,
    PerQueryValues,
    Relevance,
    RetrievedDocuments,
    ScoredDocuments,
    TrecRankings,
    ranking_warnings,
)
from judged.values.calibration import (
    CalibrateOptions,
    Calibration,
    CascadeFrontier,
    CascadeOptions,
    FrontierPoint,
    LabelledScores,
    StagedLabels,
)
from judged.values.choices import IntervalOptions, Source, Status
from judged.values.comparison import ComparedRuns, CompareOptions, DocumentRankings, RunRelevance
from judged.values.groups import (
    EmbeddedRankings,
    QueryGroup,
    VerdictDetail,
    VerdictError,
    Verdicts,
    VerdictSample,
)
from judged.values.judges import Asking, Judge, JudgeIdentity, Usage, to_judge
from judged.values.metrics import MetricOptions, MetricTable

_LISTED = {list, tuple}


def checked_group(group: QueryGroup, index: int) -> QueryGroup:
    """Return the group if it can be sent and cut. Raises InvalidArgument with its path."""
    path = f"groups[{index}]"
    if type(group) is not QueryGroup or not _is_plain(group):
        write_group(group, path)  # raises if the group is invalid
    n_ids = len(group.document_ids)
    if n_ids and n_ids != group.n_retrieved:
        rule = f"{n_ids} ids for {group.n_retrieved} retrieved; give one each or none"
        raise InvalidArgument.of_field(f"{path}.document_ids", rule)
    return group


def _is_plain(group: QueryGroup) -> bool:
    """Return whether a group has only texts, ids and metadata, of the right types."""
    if group.metadata is None or group.embeddings or group.spans:
        return False
    lists = (
        group.expected,
        group.retrieved,
        group.negatives,
        group.document_ids,
        group.relevant_document_ids,
    )
    if not set(map(type, lists)) <= _LISTED:
        return False
    return all_texts((group.query, group.query_id, *chain.from_iterable(lists)))


def write_group(
    group: QueryGroup, path: str = "groups[0]", **others: object
) -> groups_pb2.QueryGroup:
    """Return the message of a group, with `others` in place of its fields; None leaves one unset.

    Raises InvalidArgument for values that don't fit.
    """
    return write_at(path, groups_pb2.QueryGroup, group, **_by_grades(group), **others)


def _by_grades(of: object) -> dict[str, object]:
    """Return fields that leave relevant ids out of a message if grades say what is relevant."""
    return {"relevant_document_ids": ()} if getattr(of, "grades", None) else {}


LEAST = 1e-12
"""A limit that no paid call fits into: the server counts in units of 1e-9 of the currency, so it
adds nothing to the sum of all shares. The server refuses 0."""
_BELOW = 1 - 1e-12
"""Keeps the sum of rounded shares from exceeding the whole."""


def write_judge(judge: Judge | str | None) -> groups_pb2.JudgeSpec | None:
    """Return the message of a judge; a string is its kind, None the server's default."""
    return None if judge is None else write_at("judge", groups_pb2.JudgeSpec, to_judge(judge))


_LIMIT = re.compile(r"max_cost of [0-9.e+-]*[0-9]")


class CostLimit:
    """A call's limit on the cost of models, shared by all messages of the call.

    With a limit, messages are sent one after another, each with all that is left.
    """

    def __init__(self, asking: Asking | None, spent: float = 0.0) -> None:
        write_fields(judge_pb.BatchJudgeRequest, asking=asking)  # raises if it is invalid
        self._asking = asking
        self._limit = None if asking is None else asking.max_cost
        self.limited = self._limit is not None
        self.spent = spent

    def rest(self) -> Asking | None:
        """Return the options of the next message, with what is left of the limit.

        A limit that the server will refuse is passed on unchanged.
        """
        asking, limit = self._asking, self._limit
        if asking is None or limit is None or not self.spent or not 0 < limit < math.inf:
            return asking
        return replace(asking, max_cost=max(LEAST, (limit - self.spent) * _BELOW))

    def onto(self, message: Any) -> Any:  # noqa: ANN401 - a request
        """Return a copy of a message with what is left of the limit."""
        limited = write_fields(type(message), asking=self.rest())
        limited.MergeFrom(message)
        return limited

    def took(self, usage: Usage | None) -> None:
        """Add the cost of a message."""
        self.spent += 0.0 if usage is None else usage.cost or 0.0

    def lost(self, error: JudgedError) -> None:
        """Record a failed message, which may have spent all that was left."""
        if error.code != "RESOURCE_EXHAUSTED":  # with which no model was asked
            self.spent += self._limit or 0.0

    def named(self, error: VerdictError) -> VerdictError:
        """Return the error with the limit of the call in place of the limit of one message."""
        if error.reason != "BUDGET" or self._limit is None:
            return error
        limit = f"max_cost of {self._limit:.6g}"
        return replace(error, message=_LIMIT.sub(limit, error.message, count=1))


def read_reason(number: int) -> str:
    """Return the name of a reason; REASON_ and its number for one of a newer server."""
    if not number:
        return ""
    try:
        return ErrorReason.Name(number).removeprefix("ERROR_REASON_")  # type: ignore[arg-type]
    except ValueError:
        return f"REASON_{number}"


def read_error(message: verdicts_pb2.VerdictError) -> VerdictError:
    """Return why a verdict is missing."""
    reason = read_reason(message.reason)
    return VerdictError(message.code, reason, in_python(message.message), message.retryable)


def missing_for(error: JudgedError) -> VerdictError:
    """Return why the verdicts of a failed call are missing."""
    return VerdictError(0, error.reason or error.code, error.message, may_retry(error))


_TYPES = {
    "relevant": "B",
    "score": "d",
    "status": "B",
    "source": "B",
    "flags": "I",
    "agreement": "d",
    "probability": "d",
    "stage": "B",
}
"""The columns of verdicts, with the type codes of their arrays."""
_LEFT_OUT = {"status": int(Status.OK), "source": int(Source.COMPUTED), "flags": 0}
"""The value of all verdicts in a column that a message leaves empty."""


def read_verdicts(
    message: verdicts_pb2.VerdictColumns,
    judge: JudgeIdentity,
    usage: Usage | None = None,
    *,
    in_arrays: bool = False,
) -> Verdicts:
    """Return the verdicts of a reply; columns that were left empty are filled in.

    With `in_arrays`, columns take a few bytes per verdict; lists take about 60.
    """

    def column(kind: str, values: Sequence[Any]) -> Any:  # noqa: ANN401 - of either kind
        return array(kind, values) if in_arrays else list(values)

    columns: dict[str, Any] = {}
    for name, kind in _TYPES.items():
        values = getattr(message, name)
        if not values and name in _LEFT_OUT:
            values = [_LEFT_OUT[name]] * len(message.relevant)
        columns[name] = column(kind, values)
    return Verdicts(
        **columns,
        offsets=column("I", message.group_offsets),
        errors={error.index: read_error(error) for error in message.errors},
        judge=judge,
        details={detail.index: read_detail(detail) for detail in message.details},
        usage=usage,
    )


def read_detail(message: verdicts_pb2.VerdictDetail) -> VerdictDetail:
    """Return how one verdict came about."""
    samples = [_read_sample(sample) for sample in message.samples]
    return read_fields(VerdictDetail, message, samples=samples)


def _read_sample(message: verdicts_pb2.VerdictSample) -> VerdictSample:
    votes = Status(message.status) is Status.OK
    return read_fields(
        VerdictSample,
        message,
        relevant=message.relevant if votes else None,
        score=message.score if votes else None,
        reason=read_reason(message.reason),
    )


class Joined(NamedTuple):
    """The documents of a query, with their ids joined into one text; None if they can't be joined.

    Used for both judgements and runs; for judgements, the scores are the grades.
    """

    document_ids: Collection[str]
    scores: Collection[float]
    text: str | None

    @property
    def size(self) -> int:
        """The approximate size of the documents on the wire, in bytes."""
        return len(self.text or "") + 11 * len(self.document_ids)


def joined(documents: RetrievedDocuments) -> Joined:
    """Return documents with their ids as texts, and joined if all are ids."""
    if isinstance(documents, Joined):
        return documents
    ids: Collection[str]
    scores: Collection[float] = ()
    if isinstance(documents, ScoredDocuments):
        ids, scores = documents
    elif isinstance(documents, Mapping):
        ids, scores = documents.keys(), documents.values()
    else:
        ids = documents
    if isinstance(ids, str):
        return Joined(ids, scores, None)  # `need_ids` raises later, with the path
    ids, text = join_ids(ids)
    return Joined(ids, scores, text)


def write_trec(relevance: TrecRankings) -> metrics_pb2.TrecRankings:
    """Return the message of judgements and a run. Raises InvalidArgument for what can't be sent."""
    message = metrics_pb2.TrecRankings()
    if relevance.qrels:
        _write_columns(message.qrels_columns, "trec.qrels", relevance.qrels, "grades")
    if relevance.run:
        _write_columns(message.run_columns, "trec.run", relevance.run, "scores")
    return message


def _write_columns(
    message: metrics_pb2.TopicColumns,
    path: str,
    given: Mapping[str, RetrievedDocuments],
    column: str,
) -> None:
    """Fill a message with topics. Judgements need grades; a run may lack scores."""
    topics = list(map(joined, given.values()))
    scored = column == "grades" or any(len(topic.scores) for topic in topics)
    for place, topic in enumerate(topics):
        where, n = f"{path}[{place}]", len(topic.document_ids)
        if topic.text is None:
            need_ids(topic.document_ids, f"{where}.document_ids")
        elif topic.text.count("\n") != max(n - 1, 0):
            rule = "holds an id with a line feed; give it another id"
            raise InvalidArgument.of_field(f"{where}.document_ids", rule)
        if scored and len(topic.scores) != n:
            rule = f"has {len(topic.scores)} entries for {n} documents"
            raise InvalidArgument.of_field(f"{where}.{column}", rule)
    try:
        message.query_ids.extend(given)
        message.n_documents.extend(len(topic.document_ids) for topic in topics)
        message.document_ids = "\n".join(topic.text or "" for topic in topics if topic.document_ids)
        if scored:
            values = list(chain.from_iterable(topic.scores for topic in topics))
            message.values = pack(f"<{len(values)}d", *values)
    except UnicodeEncodeError as problem:
        raise InvalidArgument.of_field(path, no_utf8(problem)) from None
    except (TypeError, struct_error, OverflowError):
        raise WrongType.of_field(path, f"has {column} that are no numbers") from None


_OPTIONS_OF = {
    "groups": "verdicts",
    "judged": "verdicts",
    "embedded": "verdicts",
    "trec": "qrels",
    "gains": "gains",
}
"""The part of MetricOptions that applies, by the kind of rankings."""
_OF_INPUT = (
    "matching",
    "no_gold",
    "strict_duplicates",
    "complete",
    "unjudged",
    "relevance_level",
    "max_documents",
)
RELEVANCE: Mapping[type, str] = {
    TrecRankings: "trec",
    JudgedRankings: "judged",
    GainRankings: "gains",
    EmbeddedRankings: "embedded",
    PerQueryValues: "values",
}
"""The field of a request for each kind of rankings."""


def write_options(options: MetricOptions, given_as: str) -> metrics_pb2.MetricOptions:
    """Return the message of the options for rankings of a kind: "groups", or one of RELEVANCE.

    Raises InvalidArgument for an option that has no effect on them.
    """
    parts = dict.fromkeys(_OPTIONS_OF.values())
    message = write_at("options", metrics_pb2.MetricOptions, options, **parts)
    given: dict[str, object] = {}
    part = getattr(message, _OPTIONS_OF.get(given_as, "verdicts"))
    for name in _OF_INPUT:
        value = getattr(options, name)
        if value is None or value is False:
            continue
        if given_as not in _OPTIONS_OF or name not in part.DESCRIPTOR.fields_by_name:
            rule = f"does nothing for {given_as}; leave it out"
            raise InvalidArgument.of_field(f"options.{name}", rule)
        given[name] = value
    if given:
        part.CopyFrom(write_at("options", type(part), **given))
    return message


def name_of(relevance: Relevance | RunRelevance, path: str = "relevance") -> str:
    """Return the field of a request for rankings of this type. Raises WrongType for others."""
    if (name := RELEVANCE.get(type(relevance))) is None:
        known = ", ".join(kind.__name__ for kind in RELEVANCE)
        rule = f"must be one of {known}, not {type(relevance).__name__}"
        raise WrongType.of_field(path, rule)
    return name


_SENT_BACK = ("relevant", "score", "status", "source", "flags")
"""The columns of verdicts that metrics are computed from."""


def write_relevance(relevance: Relevance) -> Message:
    """Return the message of rankings; `name_of` has its field in a request."""
    if isinstance(relevance, TrecRankings):
        return write_trec(relevance)
    if isinstance(relevance, PerQueryValues):
        return write_values(relevance, "values")
    if isinstance(relevance, GainRankings):
        return write_at("gains", metrics_pb2.GainRankings, relevance)
    if isinstance(relevance, EmbeddedRankings):
        return write_at("embedded", judge_pb.EmbeddedRankings, relevance)
    columns = {name: getattr(relevance, name) for name in _SENT_BACK}
    verdicts = write_at("judged.verdicts", verdicts_pb2.VerdictColumns, **columns)
    rankings = [
        write_at(
            f"judged.rankings[{place}]", metrics_pb2.JudgedRanking, ranking, **_by_grades(ranking)
        )
        for place, ranking in enumerate(relevance.rankings)
    ]
    return write_at(
        "judged", metrics_pb2.JudgedRankings, relevance, verdicts=verdicts, rankings=rankings
    )


def write_metadata(
    metadata: Mapping[str, Mapping[str, str]],
) -> list[judge_pb.QueryMetadata]:
    """Return the messages of the metadata of queries."""
    return [
        write_at(f"metadata[{i}]", judge_pb.QueryMetadata, query_id=query_id, metadata=of_query)
        for i, (query_id, of_query) in enumerate(need_by_ids(metadata, "metadata").items())
    ]


def write_values(values: PerQueryValues, path: str) -> metrics_pb2.PerQueryValues:
    """Return the message of per-query values; errors name the path."""
    columns = [
        write_at(f"{path}.columns[{i}]", metrics_pb2.ValueColumn, values=column)
        for i, column in enumerate(values.columns)
    ]
    return write_at(path, metrics_pb2.PerQueryValues, values, columns=columns)


def write_calibrate(
    items: LabelledScores, options: CalibrateOptions, interval: IntervalOptions | None
) -> statistics_pb.CalibrateRequest:
    """Return the message. Raises InvalidArgument unless there is one label entry per score."""
    labels = _labels_of(items)
    inclusion, n = items.inclusion_probabilities, len(items.scores)
    for name, column in (("labels", labels), ("inclusion_probabilities", inclusion)):
        if len(column) != n and (len(column) or name == "labels"):
            rule = f"has {len(column)} entries for {n} scores"
            raise InvalidArgument.of_field(name, rule)
    labelled = [i for i, label in enumerate(labels) if label is not None]
    if options.min_score is None and options.judge is not None:
        options = replace(options, min_score=options.judge.min_score)
    return write_fields(
        statistics_pb.CalibrateRequest,
        options,
        scores=items.scores,
        labelled=labelled,
        labels=[labels[i] for i in labelled],
        clusters=_numbers_of(items.clusters),
        inclusion_probabilities=[inclusion[i] for i in labelled] if len(inclusion) else (),
        interval=interval,
    )


def _labels_of(items: LabelledScores | StagedLabels) -> list[bool | None]:
    """Return the labels of items; 1 and 0 are read as True and False."""
    labels: list[bool | None] = []
    for i, label in enumerate(items.labels):
        if label not in (0, 1, None):
            raise WrongType.of_field(f"labels[{i}]", "must be True, False or None")
        labels.append(None if label is None else bool(label))
    return labels


def _numbers_of(names: Sequence[str]) -> list[int]:
    """Return a number for each name; equal names get equal numbers."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return [numbers[name] for name in names]


def read_calibration(message: statistics_pb.CalibrateResponse) -> Calibration:
    """Return the reply of Calibrate."""
    found = read_fields(Calibration, message)
    if found.reliability is None:
        return found
    calibrator = replace(found.reliability.calibrator, made=found.signature)
    return replace(found, reliability=replace(found.reliability, calibrator=calibrator))


def write_calibrate_cascade(
    items: StagedLabels, options: CascadeOptions
) -> statistics_pb.CalibrateCascadeRequest:
    """Return the message. Raises InvalidArgument for an invalid label."""
    stages = [
        write_at(
            f"stages[{place}]",
            statistics_pb.ScoredStage,
            stage,
            scores=[0.0 if score is None else score for score in stage.scores],
            missing=[i for i, score in enumerate(stage.scores) if score is None],
            flagged=[i for i, flagged in enumerate(stage.flagged) if flagged],
        )
        for place, stage in enumerate(items.stages)
    ]
    return write_fields(
        statistics_pb.CalibrateCascadeRequest,
        options,
        stages=stages,
        labels=_labels_of(items),
        clusters=_numbers_of(items.clusters),
        lengths=items.lengths,
    )


def read_frontier(message: statistics_pb.CalibrateCascadeResponse) -> CascadeFrontier:
    """Return the reply of CalibrateCascade."""
    points = []
    for sent in message.frontier:
        point = read_fields(FrontierPoint, sent)
        stages = [
            replace(stage, calibrator=replace(stage.calibrator, made=message.signature))
            for stage in point.stages
        ]
        points.append(replace(point, stages=tuple(stages)))
    return read_fields(CascadeFrontier, message, points=tuple(points))


def write_compare(
    metrics: Sequence[str],
    runs: Mapping[str, RunRelevance],
    qrels: Mapping[str, Mapping[str, int]] | None,
    options: MetricOptions,
    comparison: CompareOptions,
) -> statistics_pb.CompareRunsRequest:
    """Return the message of a comparison."""
    judged = write_trec(TrecRankings(qrels or {}, {}))
    return write_fields(
        statistics_pb.CompareRunsRequest,
        metrics=metrics,
        options=write_options(options, "trec"),
        runs=[_write_run(name, relevance, options) for name, relevance in runs.items()],
        qrels_columns=judged.qrels_columns if judged.HasField("qrels_columns") else None,
        comparison=comparison,
    )


def _write_run(
    name: str, relevance: RunRelevance, options: MetricOptions
) -> statistics_pb.ComparedRun:
    if isinstance(relevance, DocumentRankings):
        written = write_trec(TrecRankings({}, relevance.topics))
        columns = written.run_columns if written.HasField("run_columns") else None
        content = statistics_pb.DocumentRankings(topic_columns=columns)
        return statistics_pb.ComparedRun(name=name, documents=content)
    kind = name_of(relevance, f"runs[{name!r}]")
    write_options(options, kind)  # raises for an option without effect
    return write_fields(statistics_pb.ComparedRun, name=name, **{kind: write_relevance(relevance)})


def read_table(
    message: metrics_pb2.MetricTable, relevance: object, options: MetricOptions
) -> MetricTable:
    """Return the table of rankings; that of a TREC run also has the warnings about the run."""
    table = read_fields(MetricTable, message)
    if not isinstance(relevance, TrecRankings):
        return table
    told = ranking_warnings(relevance, complete=options.complete)
    return replace(table, warnings=[*told, *table.warnings])


def read_compare(
    message: statistics_pb.CompareRunsResponse,
    runs: Mapping[str, RunRelevance],
    qrels: Mapping[str, Mapping[str, int]] | None,
    options: MetricOptions,
) -> ComparedRuns:
    """Return the reply to a comparison of runs."""
    tables = {}
    for (name, run), table in zip(runs.items(), message.tables, strict=True):
        ranked: object = run
        if isinstance(run, DocumentRankings):
            ranked = TrecRankings(qrels or {}, run.topics)
        tables[name] = read_table(table, ranked, options)
    return read_fields(ComparedRuns, message, tables=tables)


def write_comparisons(
    comparisons: Sequence[PairedComparison], interval: IntervalOptions | None
) -> statistics_pb.RankSystemsRequest:
    """Return the message; systems are numbered in order of first appearance."""
    given = list(comparisons)
    names = [name for one in given for name in (one.first, one.second)]
    numbers = _numbers_of(names)
    return write_fields(
        statistics_pb.RankSystemsRequest,
        systems=list(dict.fromkeys(names)),
        query_ids=[one.query_id for one in given],
        first=numbers[::2],
        second=numbers[1::2],
        preference=[one.preference for one in given],
        interval=interval,
    )
