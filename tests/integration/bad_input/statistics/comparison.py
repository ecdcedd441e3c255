"""Bad requests to CompareRuns."""

from __future__ import annotations

from collections.abc import Iterable

from judged.v1 import metrics_pb2, statistics_service_pb2

from tests.integration.bad_input.case import NAN, case

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
    case("CompareRunsRequest.metrics", "metrics", lambda: compare(metrics=[])),
    case("CompareRunsRequest.metrics", "metrics[0]", lambda: compare(metrics=["nope@5"])),
    case(
        "CompareRunsRequest.options",
        "options.per_query",
        lambda: compare(options=metrics_pb2.MetricOptions(per_query=True)),
    ),
    case(
        "CompareRunsRequest.options",
        "options.slice_by",
        lambda: compare(options=metrics_pb2.MetricOptions(slice_by=["kind"])),
    ),
    case(
        "CompareRunsRequest.options",
        "options.interval.confidence",
        lambda: compare(
            options=metrics_pb2.MetricOptions(interval=metrics_pb2.IntervalOptions(confidence=2.0))
        ),
    ),
    case(
        "CompareRunsRequest.runs",
        "runs",
        lambda: statistics_service_pb2.CompareRunsRequest(metrics=["ap"]),
    ),
    case("CompareRunsRequest.runs", "runs", lambda: compare(*(run(f"r{i}") for i in range(100)))),
    case(
        "CompareRunsRequest.runs",
        "runs",
        lambda: compare(
            *(run(f"r{i}") for i in range(50)), metrics=[f"ap@{k}" for k in range(1, 51)]
        ),
    ),
    case("CompareRunsRequest.qrels", "qrels", lambda: compare(qrels=QRELS)),
    case(
        "CompareRunsRequest.qrels",
        "qrels[2].query_id",
        lambda: compare_documents(qrels=[*QRELS, QRELS[0]]),
    ),
    case(
        "CompareRunsRequest.qrels_columns",
        "qrels_columns",
        lambda: compare_documents(qrels_columns=ONE_TOPIC),
    ),
    case(
        "CompareRunsRequest.qrels_columns",
        "qrels[0].grades[0]",
        lambda: compare_documents(
            qrels=[],
            qrels_columns=metrics_pb2.TopicColumns(
                query_ids=["1"], n_documents=[1], document_ids="a", values=bytes(7) + b"\x7f"
            ),
        ),
    ),
    case("CompareRunsRequest.qrels_columns", "qrels", lambda: compare(qrels_columns=ONE_TOPIC)),
    case(
        "CompareRunsRequest.comparison",
        "comparison.permutations",
        lambda: shaped(permutations=99),
    ),
    case("ComparedRun.name", "runs[1].name", lambda: compare(run(""))),
    case("ComparedRun.name", "runs[1].name", lambda: compare(run("a"))),
    case(
        "ComparedRun.judged",
        "runs[1].relevance",
        lambda: compare(run(judged=metrics_pb2.JudgedRankings())),
    ),
    case(
        "ComparedRun.judged",
        "runs[0].judged.rankings",
        lambda: statistics_service_pb2.CompareRunsRequest(
            metrics=["ap"], runs=[run(name, judged=metrics_pb2.JudgedRankings()) for name in "ab"]
        ),
    ),
    case(
        "ComparedRun.judged",
        "runs[1].judged.human_labels",
        lambda: statistics_service_pb2.CompareRunsRequest(
            metrics=["ap"],
            runs=[
                run("a", judged=metrics_pb2.JudgedRankings()),
                run("b", judged=metrics_pb2.JudgedRankings(human_labels=metrics_pb2.HumanLabels())),
            ],
        ),
    ),
    case("ComparedRun.documents", "runs[1].relevance", lambda: compare(documents("b"))),
    case(
        "ComparedRun.gains",
        "runs[0].gains.rankings",
        lambda: statistics_service_pb2.CompareRunsRequest(
            metrics=["ap"], runs=[run(name, gains=metrics_pb2.GainRankings()) for name in "ab"]
        ),
    ),
    case(
        "ComparedRun.values",
        "runs[1].relevance",
        lambda: compare(statistics_service_pb2.ComparedRun(name="b")),
    ),
    case("ComparedRun.values", "runs[1]", lambda: compare(run(values=values(0.1, 0.2, ids="38")))),
    case(
        "ComparedRun.values",
        "runs[1].values.columns",
        lambda: compare(run(values=metrics_pb2.PerQueryValues(query_ids=["1"]))),
    ),
    case(
        "ComparedRun.values",
        "runs[1].values.columns[0].values[1]",
        lambda: compare(run(values=values(0.1, NAN, 0.2))),
    ),
    case(
        "DocumentRankings.topics",
        "runs[1].documents.topics[1].query_id",
        lambda: compare_documents(documents("b", *[metrics_pb2.TopicRun(query_id="1")] * 2)),
    ),
    case(
        "DocumentRankings.topics",
        "runs[1].documents.topics[0].scores[0]",
        lambda: compare_documents(
            documents("b", metrics_pb2.TopicRun(query_id="1", document_ids=["a"], scores=[NAN]))
        ),
    ),
    case(
        "DocumentRankings.topic_columns",
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
    case(
        "DocumentRankings.topic_columns",
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
    case("CompareOptions.permutations", "comparison.permutations", lambda: shaped(permutations=0)),
    case(
        "CompareOptions.permutations",
        "comparison.permutations",
        lambda: shaped(permutations=1_000_001),
    ),
    case("CompareOptions.permutations", "comparison.permutations", of_many_queries),
    case("CompareOptions.max_moved", "comparison.max_moved", lambda: shaped(max_moved=1001)),
    case("CompareOptions.difference", "comparison.difference", lambda: shaped(difference=NAN)),
]

HARMLESS = {"CompareOptions.seed": "every number is a seed"}
