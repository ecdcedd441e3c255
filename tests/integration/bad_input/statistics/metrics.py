"""Bad rankings and values for ComputeMetrics; `metric_options` has what is asked of them."""

from __future__ import annotations

import struct
from typing import Any

from judged.v1 import judge_service_pb2 as pb
from judged.v1 import metrics_pb2, verdicts_pb2

from tests.integration.bad_input.case import NAN, Case


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
    Case("metrics[0]", lambda: compute(metrics=[""])),
    Case("relevance", compute, field="ComputeMetricsRequest.relevance"),
    Case("judged.rankings", lambda: compute(judged=metrics_pb2.JudgedRankings())),
    Case("trec.qrels", lambda: compute(trec=metrics_pb2.TrecRankings())),
    Case("gains.rankings", lambda: compute(gains=metrics_pb2.GainRankings())),
    Case("values.columns", lambda: compute(values=metrics_pb2.PerQueryValues())),
    Case("judged.rankings", lambda: judged(ids="", relevant=[])),
    Case("judged.verdicts.relevant", lambda: judged(relevant=[True])),
    Case("judged.max_grade", lambda: graded(1001, score=[1, 0])),
    Case("judged.verdicts.score", lambda: graded(3)),
    Case("judged.human_labels", lambda: graded(3, True, score=[1, 0])),
    Case("judged.rankings[1].query_id", lambda: judged(ids="aa")),
    Case(
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
    Case(
        "judged.verdicts.relevant",
        lambda: compute(
            judged=metrics_pb2.JudgedRankings(
                rankings=[metrics_pb2.JudgedRanking(query_id="1", expected=1, retrieved=3)],
                verdicts=verdicts_pb2.VerdictColumns(relevant=[True]),
            )
        ),
        field="JudgedRanking.retrieved",
    ),
    Case(
        "judged.rankings[0].document_ids",
        lambda: by_id(relevant_document_ids=["a"], document_ids=["b", "c"]),
    ),
    Case(
        "judged.rankings[0].relevant_document_ids",
        lambda: by_id(True, relevant_document_ids=["a"], document_ids=["b"]),
    ),
    Case("judged.rankings[0].grades", lambda: by_id(True, grades={"a": 2}, document_ids=["b"])),
    Case(
        "judged.rankings[0].expected",
        lambda: by_id(relevant=[True, True], expected=2, open_ended=True),
        field="JudgedRanking.open_ended",
    ),
    Case("judged.verdicts.relevant", lambda: judged(relevant=[True] * 3)),
    Case("judged.verdicts.score", lambda: judged(score=[1.0])),
    Case("judged.verdicts.score[1]", lambda: judged(score=[1.0, NAN])),
    Case("judged.verdicts.score[0]", lambda: judged(score=[1.5, 0.0])),
    Case("judged.verdicts.status[1]", lambda: judged(status=[1, 0])),
    Case("judged.verdicts.status[0]", lambda: judged(status=[77, 1])),
    Case("judged.verdicts.relevant", lambda: judged(status=[2, 1])),
    Case("judged.verdicts.source[0]", lambda: judged(source=[0, 1])),
    Case("judged.verdicts.flags[1]", lambda: judged(flags=[1, 128])),
    Case("judged.verdicts.group_offsets", lambda: judged(group_offsets=[0, 2, 2])),
    Case(
        "trec.qrels",
        lambda: compute(trec=metrics_pb2.TrecRankings(run=[metrics_pb2.TopicRun(query_id="1")])),
    ),
    Case("trec.run[1].query_id", lambda: trec(run=[metrics_pb2.TopicRun(query_id="1")] * 2)),
    Case("trec.qrels[1].query_id", lambda: trec(qrels=[metrics_pb2.TopicQrels(query_id="1")] * 2)),
    Case(
        "trec.qrels[0].document_ids[1]",
        lambda: trec(
            qrels=[metrics_pb2.TopicQrels(query_id="1", document_ids=["a", "a"], grades=[1, 0])]
        ),
    ),
    Case(
        "trec.qrels[0].grades",
        lambda: trec(
            qrels=[metrics_pb2.TopicQrels(query_id="1", document_ids=["a", "b"], grades=[1])]
        ),
    ),
    Case("trec.run[1].query_id", lambda: trec(run=[metrics_pb2.TopicRun(query_id="1")] * 2)),
    Case(
        "trec.run[0].document_ids[1]",
        lambda: trec(
            run=[metrics_pb2.TopicRun(query_id="1", document_ids=["a", "a"])],
            strict_duplicates=True,
        ),
    ),
    Case(
        "trec.run[0].scores",
        lambda: trec(
            run=[metrics_pb2.TopicRun(query_id="1", document_ids=["a", "b"], scores=[1.0])]
        ),
    ),
    Case(
        "trec.run[0].scores[1]",
        lambda: trec(
            run=[metrics_pb2.TopicRun(query_id="1", document_ids=["a", "b"], scores=[1.0, NAN])]
        ),
    ),
    Case(
        "trec.run[0].scores[0]",
        lambda: trec(run=[metrics_pb2.TopicRun(query_id="1", document_ids=["a"], scores=[1e39])]),
    ),
    Case(
        "trec.qrels_columns",
        lambda: trec(qrels=[metrics_pb2.TopicQrels()], qrels_columns=columns("q", [1], "a", 1.0)),
    ),
    Case(
        "trec.run_columns",
        lambda: trec(run=[metrics_pb2.TopicRun()], run_columns=columns("q", [1], "a", 1.0)),
    ),
    Case(
        "trec.run[1].query_id",
        lambda: joined(run=columns("qq", [1, 1], "a\nb", 1.0, 2.0)),
        field="TopicColumns.query_ids",
    ),
    Case("trec.qrels_columns.n_documents", lambda: joined(qrels=columns("q", [], "a", 1.0))),
    Case("trec.run_columns.document_ids", lambda: joined(run=columns("q", [2**32 - 1], "a", 1.0))),
    Case("trec.run_columns.document_ids", lambda: joined(run=columns("q", [1], "a\nb", 1.0))),
    Case(
        "trec.qrels[0].document_ids[1]", lambda: joined(qrels=columns("q", [2], "a\na", 1.0, 0.0))
    ),
    Case(
        "trec.run[0].document_ids[1]",
        lambda: joined(run=columns("q", [2], "a\na"), strict_duplicates=True),
    ),
    Case("trec.run_columns.values", lambda: joined(run=columns("q", [1], "a", 1.0, 2.0))),
    Case("trec.qrels_columns.values", lambda: joined(qrels=columns("q", [1], "a"))),
    Case("trec.qrels[0].grades[0]", lambda: joined(qrels=columns("q", [1], "a", 0.5))),
    Case("trec.run[0].scores[0]", lambda: joined(run=columns("q", [1], "a", NAN))),
    Case("gains.rankings", gains),
    Case("gains.rankings[1].query_id", lambda: gains(gain(), gain())),
    Case("gains.rankings[0].gains[1]", lambda: gains(gain(gains=[1.0, NAN]))),
    Case("gains.rankings[0].relevant_gains[0]", lambda: gains(gain(relevant=[0.0]))),
    Case("values.query_ids[1]", lambda: values(["1", "1"], [1.0, 1.0])),
    Case("values.columns", lambda: values(["1"])),
    Case("values.columns[0].values", lambda: values(["1"], [1.0, 2.0])),
    Case("values.columns[0].values[0]", lambda: values(["1"], [NAN])),
    Case("metadata[0].query_id", lambda: known("2")),
    Case("metadata[1].query_id", lambda: known("1", "1")),
    Case("metadata[0].metadata", lambda: known("1", **{f"k{i}": "" for i in range(65)})),
    Case(
        f'metadata[0].metadata["{"k" * 80}"]',
        lambda: known("1", **{"k" * 2_000: ""}),
        field="QueryMetadata.MetadataEntry.key",
    ),
    Case(
        'metadata[0].metadata["k"]',
        lambda: known("1", k="x" * 2_000),
        field="QueryMetadata.MetadataEntry.value",
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
