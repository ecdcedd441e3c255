"""Between the public values of `comparison` and the messages of CompareRuns.

What a run shares with other calls is written and read as `metrics` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from judged._convert.intervals import read_estimate
from judged._convert.metrics import read_table, write_metrics
from judged._inputs import need_kind
from judged.types.metrics import MetricOptions
from judged.types.rankings import TrecRankings
from judged.types.statistics.comparison import (
    ComparedRuns,
    CompareOptions,
    ComparisonPower,
    DocumentRankings,
    MovedQuery,
    RunComparison,
    RunRelevance,
    TestResult,
    TukeyComparison,
)
from judged.v1 import statistics_service_pb2


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
        comparison=statistics_service_pb2.CompareOptions(
            permutations=comparison.permutations,
            seed=comparison.seed,
            max_moved=comparison.max_moved,
            difference=comparison.difference,
        ),
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
        alone = write_metrics((), relevance, options)
        kind = alone.WhichOneof("relevance")
        if kind is not None:
            getattr(run, kind).CopyFrom(getattr(alone, kind))
    return request


def read_compare(
    message: statistics_service_pb2.CompareRunsResponse, names: Sequence[str]
) -> ComparedRuns:
    """Return the reply to a comparison of runs with these names."""
    tables = [read_table(table) for table in message.tables]
    return ComparedRuns(
        dict(zip(names, tables, strict=True)),
        [_read_comparison(made) for made in message.comparisons],
        [
            TukeyComparison(
                pair.metric, pair.first, pair.second, read_estimate(pair.difference), pair.p_value
            )
            for pair in message.tukey
        ],
        message.signature,
    )


def _read_comparison(message: statistics_service_pb2.RunComparison) -> RunComparison:
    power = message.power
    return RunComparison(
        metric=message.metric,
        baseline=message.baseline,
        run=message.run,
        n=message.n,
        baseline_mean=message.baseline_mean,
        run_mean=message.run_mean,
        difference=read_estimate(message.difference),
        effect_size=message.effect_size if message.HasField("effect_size") else None,
        t_test=_read_test(message.t_test),
        wilcoxon=_read_test(message.wilcoxon),
        permutation=_read_test(message.permutation),
        mcnemar=_read_test(message.mcnemar) if message.HasField("mcnemar") else None,
        wins=message.wins,
        losses=message.losses,
        ties=message.ties,
        moved=[MovedQuery(moved.query_id, moved.baseline, moved.run) for moved in message.moved],
        power=ComparisonPower(
            power.detectable_difference if power.HasField("detectable_difference") else None,
            power.power if power.HasField("power") else None,
            power.queries_needed if power.HasField("queries_needed") else None,
        ),
        warnings=list(message.warnings),
    )


def _read_test(message: statistics_service_pb2.TestResult) -> TestResult:
    return TestResult(
        message.statistic if message.HasField("statistic") else None,
        message.p_value,
        message.p_holm,
        message.p_benjamini_hochberg,
    )
