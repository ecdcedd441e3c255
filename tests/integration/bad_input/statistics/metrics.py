"""Bad rankings and values for ComputeMetrics; `metric_options` has what is asked of them."""

from __future__ import annotations

import struct
from typing import Any

from judged.v1 import judge_service_pb2 as pb
from judged.v1 import metrics_pb2, verdicts_pb2

from tests.integration.bad_input.case import NAN, case


def compute(options: object = None, metrics: object = ("ap",), **relevance: object):
    return pb.ComputeMetricsRequest(metrics=metrics, options=options, **relevance)


def judged(options: object = None, ids: str = "ab", **columns: object) -> pb.ComputeMetricsRequest:
    rankings = [metrics_pb2.JudgedRanking(query_id=i, expected=1, retrieved=1) for i in ids]
    verdicts = verdicts_pb2.VerdictColumns(**{"relevant": [True, False], **columns})
    return compute(options, judged=metrics_pb2.JudgedRankings(rankings=rankings, verdicts=verdicts))


def graded(max_grade: int, labelled: bool = False, **columns: object) -> pb.ComputeMetricsRequest:
    request = judged(**columns)
    request.judged.max_grade = max_grade
    if labelled:
        request.judged.human_labels.SetInParent()
    return request


def by_id(labelled: bool = False, relevant: list[bool] = [], **ranking: Any) -> Any:  # noqa: B006
    one = metrics_pb2.JudgedRanking(query_id="1", retrieved=1, **ranking)
    verdicts = verdicts_pb2.VerdictColumns(relevant=relevant)
    rankings = metrics_pb2.JudgedRankings(rankings=[one], verdicts=verdicts)
    if labelled:
        rankings.human_labels.SetInParent()
    return compute(metrics=("mrr",), judged=rankings)


def _options(**options: Any) -> metrics_pb2.MetricOptions:
    """Options of which some may be for qrels."""
    qrels = {
        k: v for k, v in options.items() if k in metrics_pb2.QrelsOptions.DESCRIPTOR.fields_by_name
    }
    others = {k: v for k, v in options.items() if k not in qrels}
    return metrics_pb2.MetricOptions(
        qrels=metrics_pb2.QrelsOptions(**qrels) if qrels else None, **others
    )


def trec(
    qrels: object = None,
    run: object = None,
    qrels_columns: metrics_pb2.TopicColumns | None = None,
    run_columns: metrics_pb2.TopicColumns | None = None,
    **options: object,
) -> pb.ComputeMetricsRequest:
    return compute(
        _options(**options),
        trec=metrics_pb2.TrecRankings(
            qrels=qrels or [metrics_pb2.TopicQrels(query_id="1", document_ids=["a"], grades=[1])],
            run=run or [metrics_pb2.TopicRun(query_id="1", document_ids=["a"], scores=[1.0])],
            qrels_columns=qrels_columns,
            run_columns=run_columns,
        ),
    )


def columns(ids: str, n: object, document_ids: str, *values: float) -> metrics_pb2.TopicColumns:
    packed = struct.pack(f"<{len(values)}d", *values)
    return metrics_pb2.TopicColumns(
        query_ids=list(ids), n_documents=n, document_ids=document_ids, values=packed
    )


def joined(
    qrels: metrics_pb2.TopicColumns | None = None,
    run: metrics_pb2.TopicColumns | None = None,
    **options: object,
) -> pb.ComputeMetricsRequest:
    one = columns("q", [1], "a", 1.0)
    rankings = metrics_pb2.TrecRankings(qrels_columns=qrels or one, run_columns=run or one)
    return compute(_options(**options), trec=rankings)


def gains(*rankings: metrics_pb2.GainRanking) -> pb.ComputeMetricsRequest:
    return compute(gains=metrics_pb2.GainRankings(rankings=rankings))


def gain(
    query_id: str = "1", gains: object = (1.0,), relevant: object = (1.0,)
) -> metrics_pb2.GainRanking:
    return metrics_pb2.GainRanking(query_id=query_id, gains=gains, relevant_gains=relevant)


def values(ids: object = ("1",), *columns: object) -> pb.ComputeMetricsRequest:
    return compute(
        values=metrics_pb2.PerQueryValues(query_ids=ids, columns=[t_values(c) for c in columns])
    )


def known(*query_ids: str, **metadata: str) -> pb.ComputeMetricsRequest:
    request = trec()
    for query_id in query_ids:
        request.metadata.add(query_id=query_id, metadata=metadata)
    return request


def t_values(column: object) -> metrics_pb2.ValueColumn:
    return metrics_pb2.ValueColumn(values=column)


CASES = [
    case("ComputeMetricsRequest.metrics", "metrics[0]", lambda: compute(metrics=[""])),
    case("ComputeMetricsRequest.relevance", "relevance", compute),
    case(
        "ComputeMetricsRequest.judged",
        "judged.rankings",
        lambda: compute(judged=metrics_pb2.JudgedRankings()),
    ),
    case(
        "ComputeMetricsRequest.trec", "trec.qrels", lambda: compute(trec=metrics_pb2.TrecRankings())
    ),
    case(
        "ComputeMetricsRequest.gains",
        "gains.rankings",
        lambda: compute(gains=metrics_pb2.GainRankings()),
    ),
    case(
        "ComputeMetricsRequest.values",
        "values.columns",
        lambda: compute(values=metrics_pb2.PerQueryValues()),
    ),
    case("JudgedRankings.rankings", "judged.rankings", lambda: judged(ids="", relevant=[])),
    case("JudgedRankings.verdicts", "judged.verdicts.relevant", lambda: judged(relevant=[True])),
    case("JudgedRankings.max_grade", "judged.max_grade", lambda: graded(1001, score=[1, 0])),
    case("JudgedRankings.max_grade", "judged.verdicts.score", lambda: graded(3)),
    case("JudgedRankings.max_grade", "judged.human_labels", lambda: graded(3, True, score=[1, 0])),
    case("JudgedRanking.query_id", "judged.rankings[1].query_id", lambda: judged(ids="aa")),
    case(
        "JudgedRanking.expected",
        "judged.verdicts.relevant",
        lambda: compute(
            judged=metrics_pb2.JudgedRankings(
                rankings=[
                    metrics_pb2.JudgedRanking(query_id="1", expected=2**32 - 1, retrieved=2**32 - 1)
                ],
                verdicts=verdicts_pb2.VerdictColumns(relevant=[True]),
            )
        ),
    ),
    case(
        "JudgedRanking.retrieved",
        "judged.verdicts.relevant",
        lambda: compute(
            judged=metrics_pb2.JudgedRankings(
                rankings=[metrics_pb2.JudgedRanking(query_id="1", expected=1, retrieved=3)],
                verdicts=verdicts_pb2.VerdictColumns(relevant=[True]),
            )
        ),
    ),
    case(
        "JudgedRanking.document_ids",
        "judged.rankings[0].document_ids",
        lambda: by_id(relevant_document_ids=["a"], document_ids=["b", "c"]),
    ),
    case(
        "JudgedRanking.relevant_document_ids",
        "judged.rankings[0].relevant_document_ids",
        lambda: by_id(True, relevant_document_ids=["a"], document_ids=["b"]),
    ),
    case(
        "JudgedRanking.grades",
        "judged.rankings[0].grades",
        lambda: by_id(True, grades={"a": 2}, document_ids=["b"]),
    ),
    case(
        "JudgedRanking.open_ended",
        "judged.rankings[0].expected",
        lambda: by_id(relevant=[True, True], expected=2, open_ended=True),
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
    case("VerdictColumns.flags", "judged.verdicts.flags[1]", lambda: judged(flags=[1, 128])),
    case(
        "VerdictColumns.group_offsets",
        "judged.verdicts.group_offsets",
        lambda: judged(group_offsets=[0, 2, 2]),
    ),
    case(
        "TrecRankings.qrels",
        "trec.qrels",
        lambda: compute(trec=metrics_pb2.TrecRankings(run=[metrics_pb2.TopicRun(query_id="1")])),
    ),
    case(
        "TrecRankings.run",
        "trec.run[1].query_id",
        lambda: trec(run=[metrics_pb2.TopicRun(query_id="1")] * 2),
    ),
    case(
        "TopicQrels.query_id",
        "trec.qrels[1].query_id",
        lambda: trec(qrels=[metrics_pb2.TopicQrels(query_id="1")] * 2),
    ),
    case(
        "TopicQrels.document_ids",
        "trec.qrels[0].document_ids[1]",
        lambda: trec(
            qrels=[metrics_pb2.TopicQrels(query_id="1", document_ids=["a", "a"], grades=[1, 0])]
        ),
    ),
    case(
        "TopicQrels.grades",
        "trec.qrels[0].grades",
        lambda: trec(
            qrels=[metrics_pb2.TopicQrels(query_id="1", document_ids=["a", "b"], grades=[1])]
        ),
    ),
    case(
        "TopicRun.query_id",
        "trec.run[1].query_id",
        lambda: trec(run=[metrics_pb2.TopicRun(query_id="1")] * 2),
    ),
    case(
        "TopicRun.document_ids",
        "trec.run[0].document_ids[1]",
        lambda: trec(
            run=[metrics_pb2.TopicRun(query_id="1", document_ids=["a", "a"])],
            strict_duplicates=True,
        ),
    ),
    case(
        "TopicRun.scores",
        "trec.run[0].scores",
        lambda: trec(
            run=[metrics_pb2.TopicRun(query_id="1", document_ids=["a", "b"], scores=[1.0])]
        ),
    ),
    case(
        "TopicRun.scores",
        "trec.run[0].scores[1]",
        lambda: trec(
            run=[metrics_pb2.TopicRun(query_id="1", document_ids=["a", "b"], scores=[1.0, NAN])]
        ),
    ),
    case(
        "TopicRun.scores",
        "trec.run[0].scores[0]",
        lambda: trec(run=[metrics_pb2.TopicRun(query_id="1", document_ids=["a"], scores=[1e39])]),
    ),
    case(
        "TrecRankings.qrels_columns",
        "trec.qrels_columns",
        lambda: trec(qrels=[metrics_pb2.TopicQrels()], qrels_columns=columns("q", [1], "a", 1.0)),
    ),
    case(
        "TrecRankings.run_columns",
        "trec.run_columns",
        lambda: trec(run=[metrics_pb2.TopicRun()], run_columns=columns("q", [1], "a", 1.0)),
    ),
    case(
        "TopicColumns.query_ids",
        "trec.run[1].query_id",
        lambda: joined(run=columns("qq", [1, 1], "a\nb", 1.0, 2.0)),
    ),
    case(
        "TopicColumns.n_documents",
        "trec.qrels_columns.n_documents",
        lambda: joined(qrels=columns("q", [], "a", 1.0)),
    ),
    case(
        "TopicColumns.n_documents",
        "trec.run_columns.document_ids",
        lambda: joined(run=columns("q", [2**32 - 1], "a", 1.0)),
    ),
    case(
        "TopicColumns.document_ids",
        "trec.run_columns.document_ids",
        lambda: joined(run=columns("q", [1], "a\nb", 1.0)),
    ),
    case(
        "TopicColumns.document_ids",
        "trec.qrels[0].document_ids[1]",
        lambda: joined(qrels=columns("q", [2], "a\na", 1.0, 0.0)),
    ),
    case(
        "TopicColumns.document_ids",
        "trec.run[0].document_ids[1]",
        lambda: joined(run=columns("q", [2], "a\na"), strict_duplicates=True),
    ),
    case(
        "TopicColumns.values",
        "trec.run_columns.values",
        lambda: joined(run=columns("q", [1], "a", 1.0, 2.0)),
    ),
    case(
        "TopicColumns.values",
        "trec.qrels_columns.values",
        lambda: joined(qrels=columns("q", [1], "a")),
    ),
    case(
        "TopicColumns.values",
        "trec.qrels[0].grades[0]",
        lambda: joined(qrels=columns("q", [1], "a", 0.5)),
    ),
    case(
        "TopicColumns.values",
        "trec.run[0].scores[0]",
        lambda: joined(run=columns("q", [1], "a", NAN)),
    ),
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
    "JudgedRanking.GradesEntry.key": "see JudgedRanking.grades",
    "JudgedRanking.GradesEntry.value": "see JudgedRanking.grades",
    "PerQueryValues.id_fits": "callers send back what they got; a warning is made of it",
    **{
        f"IdFit.{field.name}": "see PerQueryValues.id_fits"
        for field in metrics_pb2.IdFit.DESCRIPTOR.fields
    },
}
