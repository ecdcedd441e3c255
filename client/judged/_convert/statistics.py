"""Between the values of StatisticsService's calls and its messages, where these differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from judged import errors
from judged._codec import read_fields, write_at, write_fields
from judged._convert.metrics import RELEVANCE, write_options, write_relevance
from judged._convert.trec import write_trec
from judged._inputs import as_metrics, need_each, need_kind
from judged.errors import WrongType
from judged.v1 import statistics_service_pb2 as pb
from judged.values.calibration import CalibrateOptions, Calibration, LabelledScores
from judged.values.cascades import (
    CascadeFrontier,
    CascadeOptions,
    FrontierPoint,
    StagedLabels,
)
from judged.values.comparison import ComparedRuns, CompareOptions, DocumentRankings, RunRelevance
from judged.values.intervals import IntervalOptions
from judged.values.metrics import MetricOptions, MetricTable
from judged.values.preferences import PairedComparison
from judged.values.rankings import GainRankings, JudgedRankings, PerQueryValues, TrecRankings


def write_calibrate(
    items: LabelledScores, options: CalibrateOptions, interval: IntervalOptions | None
) -> pb.CalibrateRequest:
    """Return the message. Raises InvalidArgument when there is not one label entry a score."""
    need_kind(items, "items", LabelledScores, "LabelledScores")
    _need_labels(items.labels, (0, 1, None), "must be True, False or None")
    inclusion, n = items.inclusion_probabilities, len(items.scores)
    for name, column in (("labels", items.labels), ("inclusion_probabilities", inclusion)):
        if len(column) != n and (len(column) or name == "labels"):
            rule = f"has {len(column)} entries for {n} scores"
            raise errors.InvalidArgument.of_field(name, rule)
    labelled = [i for i, label in enumerate(items.labels) if label is not None]
    return write_fields(
        pb.CalibrateRequest,
        options,
        scores=items.scores,
        labelled=labelled,
        labels=[bool(items.labels[i]) for i in labelled],
        clusters=_numbers_of(items.clusters),
        inclusion_probabilities=[inclusion[i] for i in labelled] if len(inclusion) else (),
        interval=interval,
    )


def _need_labels(labels: Sequence[object], known: tuple[object, ...], rule: str) -> None:
    for i, label in enumerate(labels):
        if label not in known:
            raise WrongType.of_field(f"labels[{i}]", rule)


def _numbers_of(names: Sequence[str]) -> list[int]:
    """Return a number for each name, the same for the same."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return [numbers[name] for name in names]


def read_calibration(message: pb.CalibrateResponse) -> Calibration:
    """Return the reply of Calibrate."""
    found = read_fields(Calibration, message)
    if found.reliability is None:
        return found
    calibrator = replace(found.reliability.calibrator, made=found.signature)
    return replace(found, reliability=replace(found.reliability, calibrator=calibrator))


def write_calibrate_cascade(
    items: StagedLabels, options: CascadeOptions
) -> pb.CalibrateCascadeRequest:
    """Return the message. Raises InvalidArgument for what is no label."""
    need_kind(items, "items", StagedLabels, "StagedLabels")
    _need_labels(items.labels, (0, 1), "must be True or False")
    stages = [
        write_at(
            f"stages[{place}]",
            pb.ScoredStage,
            stage,
            scores=[0.0 if score is None else score for score in stage.scores],
            missing=[i for i, score in enumerate(stage.scores) if score is None],
            flagged=[i for i, flagged in enumerate(stage.flagged) if flagged],
        )
        for place, stage in enumerate(items.stages)
    ]
    return write_fields(
        pb.CalibrateCascadeRequest,
        options,
        stages=stages,
        labels=[bool(label) for label in items.labels],
        clusters=_numbers_of(items.clusters),
        lengths=items.lengths,
    )


def read_frontier(message: pb.CalibrateCascadeResponse) -> CascadeFrontier:
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
) -> pb.CompareRunsRequest:
    """Return the message of a comparison."""
    need_kind(runs, "runs", Mapping, "a mapping of names to runs")
    need_kind(comparison, "comparison", CompareOptions, "CompareOptions")
    judged = write_trec(TrecRankings(qrels or {}, {}))
    return write_fields(
        pb.CompareRunsRequest,
        metrics=as_metrics(metrics),
        options=write_options(options, "trec"),
        runs=[_write_run(name, relevance, options) for name, relevance in runs.items()],
        qrels=judged.qrels,
        qrels_columns=judged.qrels_columns if judged.HasField("qrels_columns") else None,
        comparison=comparison,
    )


def _write_run(name: str, relevance: RunRelevance, options: MetricOptions) -> pb.ComparedRun:
    if isinstance(relevance, DocumentRankings):
        written = write_trec(TrecRankings({}, relevance.topics))
        columns = written.run_columns if written.HasField("run_columns") else None
        content = pb.DocumentRankings(topics=written.run, topic_columns=columns)
        return pb.ComparedRun(name=name, documents=content)
    kinds = (JudgedRankings, GainRankings, PerQueryValues)
    what = "DocumentRankings(run), or JudgedRankings, GainRankings or PerQueryValues"
    need_kind(relevance, f"runs[{name!r}]", kinds, what)
    kind = RELEVANCE[type(relevance)]
    write_options(options, kind)  # which refuses those that change nothing for it
    return write_fields(pb.ComparedRun, name=name, **{kind: write_relevance(relevance)})


def read_compare(message: pb.CompareRunsResponse, names: Sequence[str]) -> ComparedRuns:
    """Return the reply to a comparison of runs with these names."""
    tables = [read_fields(MetricTable, table) for table in message.tables]
    return read_fields(ComparedRuns, message, tables=dict(zip(names, tables, strict=True)))


def write_comparisons(
    comparisons: Sequence[PairedComparison], interval: IntervalOptions | None
) -> pb.RankSystemsRequest:
    """Return the message; systems are numbered as they come."""
    given = need_each(comparisons, "comparisons", (PairedComparison,), "PairedComparison")
    names = [name for one in given for name in (one.first, one.second)]
    numbers = _numbers_of(names)
    return write_fields(
        pb.RankSystemsRequest,
        systems=list(dict.fromkeys(names)),
        query_ids=[one.query_id for one in given],
        first=numbers[::2],
        second=numbers[1::2],
        preference=[one.preference for one in given],
        interval=interval,
    )
