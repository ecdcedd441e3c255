"""Between the public values of `comparison` and the messages of CompareRuns.

What a run shares with other calls is written and read as `metrics` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from judged._codec import read_fields, write_fields
from judged._convert.metrics import write_metrics
from judged._inputs import need_kind
from judged.v1 import statistics_service_pb2
from judged.values.comparison import (
    ComparedRuns,
    CompareOptions,
    DocumentRankings,
    RunRelevance,
)
from judged.values.metrics import MetricOptions, MetricTable
from judged.values.rankings import GainRankings, JudgedRankings, PerQueryValues, TrecRankings


def write_compare(
    metrics: Sequence[str],
    runs: Mapping[str, RunRelevance],
    qrels: Mapping[str, Mapping[str, int]] | None,
    options: MetricOptions,
    comparison: CompareOptions,
) -> statistics_service_pb2.CompareRunsRequest:
    """Return the message of a comparison."""
    need_kind(runs, "runs", Mapping, "a mapping of names to runs")
    need_kind(comparison, "comparison", CompareOptions, "CompareOptions")
    judgements = write_metrics(metrics, TrecRankings(qrels or {}, {}), options)
    request = statistics_service_pb2.CompareRunsRequest(
        metrics=judgements.metrics,
        options=judgements.options,
        qrels=judgements.trec.qrels,
        qrels_columns=(
            judgements.trec.qrels_columns if judgements.trec.HasField("qrels_columns") else None
        ),
        comparison=write_fields(statistics_service_pb2.CompareOptions, comparison),
    )
    for name, relevance in runs.items():
        run = request.runs.add(name=name)
        if isinstance(relevance, DocumentRankings):
            retrieved = write_metrics((), TrecRankings({}, relevance.topics), options)
            run.documents.topics.extend(retrieved.trec.run)
            run.documents.SetInParent()  # a run that retrieved nothing is one of documents too
            if retrieved.trec.HasField("run_columns"):
                run.documents.topic_columns.CopyFrom(retrieved.trec.run_columns)
            continue
        kinds = (JudgedRankings, GainRankings, PerQueryValues)
        what = "DocumentRankings(run), or JudgedRankings, GainRankings or PerQueryValues"
        need_kind(relevance, f"runs[{name!r}]", kinds, what)
        alone = write_metrics((), relevance, options)
        kind = alone.WhichOneof("relevance")
        if kind is not None:
            getattr(run, kind).CopyFrom(getattr(alone, kind))
    return request


def read_compare(
    message: statistics_service_pb2.CompareRunsResponse, names: Sequence[str]
) -> ComparedRuns:
    """Return the reply to a comparison of runs with these names."""
    tables = [read_fields(MetricTable, table) for table in message.tables]
    return read_fields(ComparedRuns, message, tables=dict(zip(names, tables, strict=True)))
