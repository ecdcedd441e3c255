"""Bad requests to CompareRuns."""

from __future__ import annotations

from collections.abc import Iterable

from judged.v1 import metrics_pb2, statistics_service_pb2

from tests.integration.bad_input.case import NAN, Case

ONE_TOPIC = metrics_pb2.TopicColumns(
    query_ids=["1"], n_documents=[1], document_ids="a", values=bytes(8)
)
QRELS = [metrics_pb2.TopicQrels(query_id=q, document_ids=["a"], grades=[1]) for q in "12"]


def values(*column: float, ids: Iterable[str] = "123") -> metrics_pb2.PerQueryValues:
    return metrics_pb2.PerQueryValues(
        query_ids=list(ids), columns=[metrics_pb2.ValueColumn(values=column)]
    )


def run(name: str = "b", **relevance: object) -> statistics_service_pb2.ComparedRun:
    return statistics_service_pb2.ComparedRun(
        name=name, **(relevance or {"values": values(0.1, 0.9, 0.5)})
    )


def documents(name: str, *topics: metrics_pb2.TopicRun) -> statistics_service_pb2.ComparedRun:
    topics = topics or tuple(metrics_pb2.TopicRun(query_id=q, document_ids=["a"]) for q in "12")
    return run(name, documents=statistics_service_pb2.DocumentRankings(topics=topics))


def compare(*later: statistics_service_pb2.ComparedRun, metrics: object = ("ap",), **more: object):
    return statistics_service_pb2.CompareRunsRequest(
        metrics=metrics, runs=[run("a"), *(later or [run()])], **more
    )


def compare_documents(
    *later: statistics_service_pb2.ComparedRun, qrels: object = QRELS, **more: object
):
    runs = [documents("a"), *(later or [documents("b")])]
    return statistics_service_pb2.CompareRunsRequest(metrics=["ap"], qrels=qrels, runs=runs, **more)


def shaped(**options: object) -> statistics_service_pb2.CompareRunsRequest:
    return compare(comparison=statistics_service_pb2.CompareOptions(**options))


def of_many_queries() -> statistics_service_pb2.CompareRunsRequest:
    many = values(*[0.5] * 30_000, ids=map(str, range(30_000)))
    runs = [run(name, values=many) for name in "ab"]
    return statistics_service_pb2.CompareRunsRequest(metrics=["ap"], runs=runs)


CASES = [
    Case("metrics", lambda: compare(metrics=[])),
    Case("metrics[0]", lambda: compare(metrics=["nope@5"])),
    Case("options.per_query", lambda: compare(options=metrics_pb2.MetricOptions(per_query=True))),
    Case("options.slice_by", lambda: compare(options=metrics_pb2.MetricOptions(slice_by=["kind"]))),
    Case(
        "options.interval.confidence",
        lambda: compare(
            options=metrics_pb2.MetricOptions(interval=metrics_pb2.IntervalOptions(confidence=2.0))
        ),
    ),
    Case("runs", lambda: statistics_service_pb2.CompareRunsRequest(metrics=["ap"])),
    Case("runs", lambda: compare(*(run(f"r{i}") for i in range(100)))),
    Case(
        "runs",
        lambda: compare(
            *(run(f"r{i}") for i in range(50)), metrics=[f"ap@{k}" for k in range(1, 51)]
        ),
    ),
    Case("qrels", lambda: compare(qrels=QRELS)),
    Case("qrels[2].query_id", lambda: compare_documents(qrels=[*QRELS, QRELS[0]])),
    Case("qrels_columns", lambda: compare_documents(qrels_columns=ONE_TOPIC)),
    Case(
        "qrels[0].grades[0]",
        lambda: compare_documents(
            qrels=[],
            qrels_columns=metrics_pb2.TopicColumns(
                query_ids=["1"], n_documents=[1], document_ids="a", values=bytes(7) + b"\x7f"
            ),
        ),
    ),
    Case("qrels", lambda: compare(qrels_columns=ONE_TOPIC)),
    Case("comparison.permutations", lambda: shaped(permutations=99)),
    Case("runs[1].name", lambda: compare(run(""))),
    Case("runs[1].name", lambda: compare(run("a"))),
    Case("runs[1].relevance", lambda: compare(run(judged=metrics_pb2.JudgedRankings()))),
    Case(
        "runs[0].judged.rankings",
        lambda: statistics_service_pb2.CompareRunsRequest(
            metrics=["ap"], runs=[run(name, judged=metrics_pb2.JudgedRankings()) for name in "ab"]
        ),
    ),
    Case(
        "runs[1].judged.human_labels",
        lambda: statistics_service_pb2.CompareRunsRequest(
            metrics=["ap"],
            runs=[
                run("a", judged=metrics_pb2.JudgedRankings()),
                run("b", judged=metrics_pb2.JudgedRankings(human_labels=metrics_pb2.HumanLabels())),
            ],
        ),
    ),
    Case("runs[1].relevance", lambda: compare(documents("b"))),
    Case(
        "runs[0].gains.rankings",
        lambda: statistics_service_pb2.CompareRunsRequest(
            metrics=["ap"], runs=[run(name, gains=metrics_pb2.GainRankings()) for name in "ab"]
        ),
    ),
    Case("runs[1].relevance", lambda: compare(statistics_service_pb2.ComparedRun(name="b"))),
    Case("runs[1]", lambda: compare(run(values=values(0.1, 0.2, ids="38")))),
    Case(
        "runs[1].values.columns",
        lambda: compare(run(values=metrics_pb2.PerQueryValues(query_ids=["1"]))),
    ),
    Case("runs[1].values.columns[0].values[1]", lambda: compare(run(values=values(0.1, NAN, 0.2)))),
    Case(
        "runs[1].documents.topics[1].query_id",
        lambda: compare_documents(documents("b", *[metrics_pb2.TopicRun(query_id="1")] * 2)),
    ),
    Case(
        "runs[1].documents.topics[0].scores[0]",
        lambda: compare_documents(
            documents("b", metrics_pb2.TopicRun(query_id="1", document_ids=["a"], scores=[NAN]))
        ),
    ),
    Case(
        "runs[1].documents.topic_columns.values",
        lambda: compare_documents(
            run(
                "b",
                documents=statistics_service_pb2.DocumentRankings(
                    topic_columns=metrics_pb2.TopicColumns(
                        query_ids=["1"], n_documents=[1], document_ids="a", values=bytes(16)
                    )
                ),
            )
        ),
    ),
    Case(
        "runs[1].documents.topic_columns",
        lambda: compare_documents(
            run(
                "b",
                documents=statistics_service_pb2.DocumentRankings(
                    topics=[metrics_pb2.TopicRun()], topic_columns=ONE_TOPIC
                ),
            )
        ),
    ),
    Case("comparison.permutations", lambda: shaped(permutations=0)),
    Case("comparison.permutations", lambda: shaped(permutations=1_000_001)),
    Case("comparison.permutations", of_many_queries),
    Case("comparison.max_moved", lambda: shaped(max_moved=1001)),
    Case("comparison.difference", lambda: shaped(difference=NAN)),
]

HARMLESS = {"CompareOptions.seed": "every number is a seed"}
