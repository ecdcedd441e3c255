"""Bad requests to ComputeMetrics."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial

from judged.v1 import judge_service_pb2 as pb
from judged.v1 import statistics_pb2 as st
from judged.v1 import types_pb2 as t

from tests.integration.bad_input.case import NAN, case


def compute(options: object = None, metrics: object = ("ap",), **relevance: object):
    return pb.ComputeMetricsRequest(metrics=metrics, options=options, **relevance)


def judged(options: object = None, ids: str = "ab", **columns: object) -> pb.ComputeMetricsRequest:
    rankings = [pb.JudgedRanking(query_id=i, expected=1, retrieved=1) for i in ids]
    verdicts = t.VerdictColumns(**{"relevant": [True, False], **columns})
    return compute(options, judged=pb.JudgedRankings(rankings=rankings, verdicts=verdicts))


def trec(
    qrels: object = None,
    run: object = None,
    joined_qrels: pb.JoinedTopics | None = None,
    joined_run: pb.JoinedTopics | None = None,
    **options: object,
) -> pb.ComputeMetricsRequest:
    return compute(
        t.MetricOptions(**options),
        trec=pb.TrecRankings(
            qrels=qrels or [pb.TopicQrels(query_id="1", document_ids=["a"], grades=[1])],
            run=run or [pb.TopicRun(query_id="1", document_ids=["a"], scores=[1.0])],
            joined_qrels=joined_qrels,
            joined_run=joined_run,
        ),
    )


def columns(ids: str, n: object, document_ids: str, *values: float) -> pb.JoinedTopics:
    packed = struct.pack(f"<{len(values)}d", *values)
    return pb.JoinedTopics(
        query_ids=list(ids), n_documents=n, document_ids=document_ids, values=packed
    )


def joined(
    qrels: pb.JoinedTopics | None = None, run: pb.JoinedTopics | None = None, **options: object
) -> pb.ComputeMetricsRequest:
    one = columns("q", [1], "a", 1.0)
    rankings = pb.TrecRankings(joined_qrels=qrels or one, joined_run=run or one)
    return compute(t.MetricOptions(**options), trec=rankings)


def gains(*rankings: pb.GainRanking) -> pb.ComputeMetricsRequest:
    return compute(gains=pb.GainRankings(rankings=rankings))


def gain(query_id: str = "1", gains: object = (1.0,), relevant: object = (1.0,)) -> pb.GainRanking:
    return pb.GainRanking(query_id=query_id, gains=gains, relevant_gains=relevant)


def values(ids: object = ("1",), *columns: object) -> pb.ComputeMetricsRequest:
    return compute(values=pb.PerQueryValues(query_ids=ids, columns=[t_values(c) for c in columns]))


def interval(**options: object) -> pb.ComputeMetricsRequest:
    return trec(interval=st.IntervalOptions(**options))


def known(*query_ids: str, **metadata: str) -> pb.ComputeMetricsRequest:
    request = trec()
    for query_id in query_ids:
        request.metadata.add(query_id=query_id, metadata=metadata)
    return request


def many_values(n: int, **options: object) -> pb.ComputeMetricsRequest:
    ids = [str(i) for i in range(n)]
    request = values(ids, [0.5] * n)
    request.options.CopyFrom(t.MetricOptions(**options))
    for i in ids:
        request.metadata.add(query_id=i, metadata={"id": i})
    return request


def t_values(column: object) -> pb.ValueColumn:
    return pb.ValueColumn(values=column)


def gains_with(options: t.MetricOptions) -> pb.ComputeMetricsRequest:
    return compute(options, gains=pb.GainRankings(rankings=[gain()]))


def values_with(options: t.MetricOptions) -> pb.ComputeMetricsRequest:
    request = values(("1",), [0.5])
    request.options.CopyFrom(options)
    return request


def trec_with(options: t.MetricOptions) -> pb.ComputeMetricsRequest:
    request = trec()
    request.options.CopyFrom(options)
    return request


_TREC_ONLY = {"complete": True, "unjudged": 1, "relevance_level": 1, "max_documents": 5}
_USELESS: list[tuple[Callable[[t.MetricOptions], pb.ComputeMetricsRequest], str, object]] = [
    *[(judged, name, value) for name, value in _TREC_ONLY.items()],
    *[(gains_with, name, value) for name, value in _TREC_ONLY.items()],
    *[(values_with, name, value) for name, value in _TREC_ONLY.items()],
    (values_with, "matching", 1),
    (values_with, "no_gold", 1),
    (gains_with, "matching", 2),
    (gains_with, "strict_duplicates", True),
    (trec_with, "matching", 2),
    (trec_with, "no_gold", 2),
]
"""Options that would change nothing, with what they are given for."""

CASES = [
    *[
        case(
            "ComputeMetricsRequest.options",
            f"options.{name}",
            partial(ask, t.MetricOptions(**{name: value})),
        )
        for ask, name, value in _USELESS
    ],
    case("ComputeMetricsRequest.metrics", "metrics[0]", lambda: compute(metrics=[""])),
    case("ComputeMetricsRequest.options", "options.no_gold", lambda: trec(no_gold=7)),
    case("ComputeMetricsRequest.relevance", "relevance", compute),
    case(
        "ComputeMetricsRequest.judged",
        "judged.rankings",
        lambda: compute(judged=pb.JudgedRankings()),
    ),
    case("ComputeMetricsRequest.trec", "trec.qrels", lambda: compute(trec=pb.TrecRankings())),
    case("ComputeMetricsRequest.gains", "gains.rankings", lambda: compute(gains=pb.GainRankings())),
    case(
        "ComputeMetricsRequest.values",
        "values.columns",
        lambda: compute(values=pb.PerQueryValues()),
    ),
    case("JudgedRankings.rankings", "judged.rankings", lambda: judged(ids="", relevant=[])),
    case("JudgedRankings.verdicts", "judged.verdicts.relevant", lambda: judged(relevant=[True])),
    case("JudgedRanking.query_id", "judged.rankings[1].query_id", lambda: judged(ids="aa")),
    case(
        "JudgedRanking.expected",
        "judged.verdicts.relevant",
        lambda: compute(
            judged=pb.JudgedRankings(
                rankings=[pb.JudgedRanking(query_id="1", expected=2**32 - 1, retrieved=2**32 - 1)],
                verdicts=t.VerdictColumns(relevant=[True]),
            )
        ),
    ),
    case(
        "JudgedRanking.retrieved",
        "judged.verdicts.relevant",
        lambda: compute(
            judged=pb.JudgedRankings(
                rankings=[pb.JudgedRanking(query_id="1", expected=1, retrieved=3)],
                verdicts=t.VerdictColumns(relevant=[True]),
            )
        ),
    ),
    case(
        "VerdictColumns.relevant", "judged.verdicts.relevant", lambda: judged(relevant=[True] * 3)
    ),
    case("VerdictColumns.score", "judged.verdicts.score", lambda: judged(score=[1.0])),
    case("VerdictColumns.score", "judged.verdicts.score[1]", lambda: judged(score=[1.0, NAN])),
    case("VerdictColumns.score", "judged.verdicts.score[0]", lambda: judged(score=[1.5, 0.0])),
    case("VerdictColumns.status", "judged.verdicts.status[1]", lambda: judged(status=[1, 0])),
    case("VerdictColumns.status", "judged.verdicts.status[0]", lambda: judged(status=[77, 1])),
    case("VerdictColumns.status", "judged.verdicts.relevant", lambda: judged(status=[2, 1])),
    case("VerdictColumns.source", "judged.verdicts.source[0]", lambda: judged(source=[0, 1])),
    case("VerdictColumns.flags", "judged.verdicts.flags[1]", lambda: judged(flags=[1, 64])),
    case(
        "VerdictColumns.group_offsets",
        "judged.verdicts.group_offsets",
        lambda: judged(group_offsets=[0, 2, 2]),
    ),
    case(
        "TrecRankings.qrels",
        "trec.qrels",
        lambda: compute(trec=pb.TrecRankings(run=[pb.TopicRun(query_id="1")])),
    ),
    case(
        "TrecRankings.run",
        "trec.run[1].query_id",
        lambda: trec(run=[pb.TopicRun(query_id="1")] * 2),
    ),
    case(
        "TopicQrels.query_id",
        "trec.qrels[1].query_id",
        lambda: trec(qrels=[pb.TopicQrels(query_id="1")] * 2),
    ),
    case(
        "TopicQrels.document_ids",
        "trec.qrels[0].document_ids[1]",
        lambda: trec(qrels=[pb.TopicQrels(query_id="1", document_ids=["a", "a"], grades=[1, 0])]),
    ),
    case(
        "TopicQrels.grades",
        "trec.qrels[0].grades",
        lambda: trec(qrels=[pb.TopicQrels(query_id="1", document_ids=["a", "b"], grades=[1])]),
    ),
    case(
        "TopicRun.query_id",
        "trec.run[1].query_id",
        lambda: trec(run=[pb.TopicRun(query_id="1")] * 2),
    ),
    case(
        "TopicRun.document_ids",
        "trec.run[0].document_ids[1]",
        lambda: trec(
            run=[pb.TopicRun(query_id="1", document_ids=["a", "a"])], strict_duplicates=True
        ),
    ),
    case(
        "TopicRun.scores",
        "trec.run[0].scores",
        lambda: trec(run=[pb.TopicRun(query_id="1", document_ids=["a", "b"], scores=[1.0])]),
    ),
    case(
        "TopicRun.scores",
        "trec.run[0].scores[1]",
        lambda: trec(run=[pb.TopicRun(query_id="1", document_ids=["a", "b"], scores=[1.0, NAN])]),
    ),
    case(
        "TopicRun.scores",
        "trec.run[0].scores[0]",
        lambda: trec(run=[pb.TopicRun(query_id="1", document_ids=["a"], scores=[1e39])]),
    ),
    case(
        "TrecRankings.joined_qrels",
        "trec.joined_qrels",
        lambda: trec(qrels=[pb.TopicQrels()], joined_qrels=columns("q", [1], "a", 1.0)),
    ),
    case(
        "TrecRankings.joined_run",
        "trec.joined_run",
        lambda: trec(run=[pb.TopicRun()], joined_run=columns("q", [1], "a", 1.0)),
    ),
    case(
        "JoinedTopics.query_ids",
        "trec.run[1].query_id",
        lambda: joined(run=columns("qq", [1, 1], "a\nb", 1.0, 2.0)),
    ),
    case(
        "JoinedTopics.n_documents",
        "trec.joined_qrels.n_documents",
        lambda: joined(qrels=columns("q", [], "a", 1.0)),
    ),
    case(
        "JoinedTopics.n_documents",
        "trec.joined_run.document_ids",
        lambda: joined(run=columns("q", [2**32 - 1], "a", 1.0)),
    ),
    case(
        "JoinedTopics.document_ids",
        "trec.joined_run.document_ids",
        lambda: joined(run=columns("q", [1], "a\nb", 1.0)),
    ),
    case(
        "JoinedTopics.document_ids",
        "trec.qrels[0].document_ids[1]",
        lambda: joined(qrels=columns("q", [2], "a\na", 1.0, 0.0)),
    ),
    case(
        "JoinedTopics.document_ids",
        "trec.run[0].document_ids[1]",
        lambda: joined(run=columns("q", [2], "a\na"), strict_duplicates=True),
    ),
    case(
        "JoinedTopics.values",
        "trec.joined_run.values",
        lambda: joined(run=columns("q", [1], "a", 1.0, 2.0)),
    ),
    case(
        "JoinedTopics.values",
        "trec.joined_qrels.values",
        lambda: joined(qrels=columns("q", [1], "a")),
    ),
    case(
        "JoinedTopics.values",
        "trec.qrels[0].grades[0]",
        lambda: joined(qrels=columns("q", [1], "a", 0.5)),
    ),
    case(
        "JoinedTopics.values",
        "trec.run[0].scores[0]",
        lambda: joined(run=columns("q", [1], "a", NAN)),
    ),
    case(
        "MetricOptions.relevance_level",
        "options.relevance_level",
        lambda: trec(relevance_level=0),
    ),
    case(
        "MetricOptions.relevance_level",
        "options.relevance_level",
        lambda: trec(relevance_level=2**31),
    ),
    case("MetricOptions.max_documents", "options.max_documents", lambda: trec(max_documents=0)),
    case("MetricOptions.max_documents", "options.max_documents", lambda: trec(max_documents=2**31)),
    case("GainRankings.rankings", "gains.rankings", gains),
    case("GainRanking.query_id", "gains.rankings[1].query_id", lambda: gains(gain(), gain())),
    case("GainRanking.gains", "gains.rankings[0].gains[1]", lambda: gains(gain(gains=[1.0, NAN]))),
    case(
        "GainRanking.relevant_gains",
        "gains.rankings[0].relevant_gains[0]",
        lambda: gains(gain(relevant=[0.0])),
    ),
    case("PerQueryValues.query_ids", "values.query_ids[1]", lambda: values(["1", "1"], [1.0, 1.0])),
    case("PerQueryValues.columns", "values.columns", lambda: values(["1"])),
    case("ValueColumn.values", "values.columns[0].values", lambda: values(["1"], [1.0, 2.0])),
    case("ValueColumn.values", "values.columns[0].values[0]", lambda: values(["1"], [NAN])),
    case("ValueColumn.values", "values.columns[0].values[0]", lambda: values(["1"], [1e101])),
    case("MetricOptions.interval", "options.interval.method", lambda: interval(method=0)),
    case("IntervalOptions.method", "options.interval.method", lambda: interval(method=9)),
    case(
        "IntervalOptions.confidence", "options.interval.confidence", lambda: interval(confidence=95)
    ),
    case(
        "IntervalOptions.confidence",
        "options.interval.confidence",
        lambda: interval(confidence=NAN),
    ),
    case("IntervalOptions.resamples", "options.interval.resamples", lambda: interval(resamples=99)),
    case(
        "IntervalOptions.resamples",
        "options.interval.resamples",
        lambda: interval(resamples=2**32 - 1),
    ),
    case(
        "IntervalOptions.resamples",
        "options.interval.resamples",
        lambda: many_values(20_001, interval=st.IntervalOptions(resamples=100_000)),
    ),
    case("MetricOptions.slice_by", "options.slice_by[1]", lambda: trec(slice_by=["a", "a"])),
    case("MetricOptions.slice_by", "options.slice_by[0]", lambda: trec(slice_by=[""])),
    case(
        "MetricOptions.slice_by",
        "options.slice_by[16]",
        lambda: trec(slice_by=[str(i) for i in range(17)]),
    ),
    case(
        "MetricOptions.slice_by",
        "options.slice_by[1]",
        lambda: many_values(1_000, slice_by=["none", "id"]),
    ),
    case("MetricOptions.unjudged", "options.unjudged", lambda: trec(unjudged=0)),
    case("MetricOptions.unjudged", "options.unjudged", lambda: trec(unjudged=4)),
    case("ComputeMetricsRequest.metadata", "metadata[0].query_id", lambda: known("2")),
    case("QueryMetadata.query_id", "metadata[1].query_id", lambda: known("1", "1")),
    case(
        "QueryMetadata.metadata",
        "metadata[0].metadata",
        lambda: known("1", **{f"k{i}": "" for i in range(65)}),
    ),
    case(
        "QueryMetadata.MetadataEntry.key",
        f'metadata[0].metadata["{"k" * 80}"]',
        lambda: known("1", **{"k" * 2_000: ""}),
    ),
    case(
        "QueryMetadata.MetadataEntry.value",
        'metadata[0].metadata["k"]',
        lambda: known("1", k="x" * 2_000),
    ),
]

HARMLESS = {
    "VerdictColumns.errors": "ComputeMetrics reads the status column only",
    "IntervalOptions.seed": "every seed is one",
}
