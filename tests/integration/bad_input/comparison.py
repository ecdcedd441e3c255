"""Bad requests to CompareRuns."""

from __future__ import annotations

from judged.v1 import judge_service_pb2 as pb
from judged.v1 import statistics_pb2 as s
from judged.v1 import types_pb2 as t

from tests.integration.bad_input.case import NAN, case

ONE_TOPIC = pb.JoinedTopics(query_ids=["1"], n_documents=[1], document_ids="a", values=bytes(8))
QRELS = [pb.TopicQrels(query_id=q, document_ids=["a"], grades=[1]) for q in "12"]


def values(*column: float, ids: str = "123") -> pb.PerQueryValues:
    return pb.PerQueryValues(query_ids=list(ids), columns=[pb.ValueColumn(values=column)])


def run(name: str = "b", **relevance: object) -> pb.ComparedRun:
    return pb.ComparedRun(name=name, **(relevance or {"values": values(0.1, 0.9, 0.5)}))


def documents(name: str, *topics: pb.TopicRun) -> pb.ComparedRun:
    topics = topics or tuple(pb.TopicRun(query_id=q, document_ids=["a"]) for q in "12")
    return run(name, documents=pb.DocumentRankings(topics=topics))


def compare(*later: pb.ComparedRun, metrics: object = ("ap",), **more: object):
    return pb.CompareRunsRequest(metrics=metrics, runs=[run("a"), *(later or [run()])], **more)


def compare_documents(*later: pb.ComparedRun, qrels: object = QRELS, **more: object):
    runs = [documents("a"), *(later or [documents("b")])]
    return pb.CompareRunsRequest(metrics=["ap"], qrels=qrels, runs=runs, **more)


def shaped(**options: object) -> pb.CompareRunsRequest:
    return compare(comparison=pb.CompareOptions(**options))


CASES = [
    case("CompareRunsRequest.metrics", "metrics", lambda: compare(metrics=[])),
    case("CompareRunsRequest.metrics", "metrics[0]", lambda: compare(metrics=["nope"])),
    case(
        "CompareRunsRequest.options",
        "options.per_query",
        lambda: compare(options=t.MetricOptions(per_query=True)),
    ),
    case(
        "CompareRunsRequest.options",
        "options.slice_by",
        lambda: compare(options=t.MetricOptions(slice_by=["kind"])),
    ),
    case(
        "CompareRunsRequest.options",
        "options.interval.confidence",
        lambda: compare(options=t.MetricOptions(interval=s.IntervalOptions(confidence=2.0))),
    ),
    case("CompareRunsRequest.runs", "runs", lambda: pb.CompareRunsRequest(metrics=["ap"])),
    case(
        "CompareRunsRequest.runs",
        "runs",
        lambda: pb.CompareRunsRequest(metrics=["ap"], runs=[run("a")]),
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
    case("CompareRunsRequest.qrels", "qrels", lambda: compare_documents(qrels=[])),
    case(
        "CompareRunsRequest.qrels",
        "qrels[2].query_id",
        lambda: compare_documents(qrels=[*QRELS, QRELS[0]]),
    ),
    case(
        "CompareRunsRequest.joined_qrels",
        "joined_qrels",
        lambda: compare_documents(joined_qrels=ONE_TOPIC),
    ),
    case(
        "CompareRunsRequest.joined_qrels",
        "qrels[0].grades[0]",
        lambda: compare_documents(
            qrels=[],
            joined_qrels=pb.JoinedTopics(
                query_ids=["1"], n_documents=[1], document_ids="a", values=bytes(7) + b"\x7f"
            ),
        ),
    ),
    case("CompareRunsRequest.joined_qrels", "qrels", lambda: compare(joined_qrels=ONE_TOPIC)),
    case(
        "CompareRunsRequest.comparison",
        "comparison.permutations",
        lambda: shaped(permutations=99),
    ),
    case("ComparedRun.name", "runs[1].name", lambda: compare(run(""))),
    case("ComparedRun.name", "runs[1].name", lambda: compare(run("a"))),
    case(
        "ComparedRun.judged", "runs[1].relevance", lambda: compare(run(judged=pb.JudgedRankings()))
    ),
    case(
        "ComparedRun.judged",
        "runs[0].judged.rankings",
        lambda: pb.CompareRunsRequest(
            metrics=["ap"], runs=[run(name, judged=pb.JudgedRankings()) for name in "ab"]
        ),
    ),
    case(
        "ComparedRun.judged",
        "runs[1].judged.human_labels",
        lambda: pb.CompareRunsRequest(
            metrics=["ap"],
            runs=[
                run("a", judged=pb.JudgedRankings()),
                run("b", judged=pb.JudgedRankings(human_labels=pb.HumanLabels())),
            ],
        ),
    ),
    case("ComparedRun.documents", "runs[1].relevance", lambda: compare(documents("b"))),
    case(
        "ComparedRun.gains",
        "runs[0].gains.rankings",
        lambda: pb.CompareRunsRequest(
            metrics=["ap"], runs=[run(name, gains=pb.GainRankings()) for name in "ab"]
        ),
    ),
    case("ComparedRun.values", "runs[1].relevance", lambda: compare(pb.ComparedRun(name="b"))),
    case("ComparedRun.values", "runs[1]", lambda: compare(run(values=values(0.1, 0.2, ids="38")))),
    case(
        "ComparedRun.values",
        "runs[1].values.columns",
        lambda: compare(run(values=pb.PerQueryValues(query_ids=["1"]))),
    ),
    case(
        "ComparedRun.values",
        "runs[1].values.columns[0].values[1]",
        lambda: compare(run(values=values(0.1, NAN, 0.2))),
    ),
    case(
        "ComparedRun.values",
        "runs[1].values.columns[0].values[1]",
        lambda: compare(run(values=values(0.1, 1e300, 0.2))),
    ),
    case(
        "DocumentRankings.topics",
        "runs[1].documents.topics[1].query_id",
        lambda: compare_documents(documents("b", *[pb.TopicRun(query_id="1")] * 2)),
    ),
    case(
        "DocumentRankings.topics",
        "runs[1].documents.topics[0].scores[0]",
        lambda: compare_documents(
            documents("b", pb.TopicRun(query_id="1", document_ids=["a"], scores=[NAN]))
        ),
    ),
    case(
        "DocumentRankings.joined_topics",
        "runs[1].documents.joined_topics.values",
        lambda: compare_documents(
            run(
                "b",
                documents=pb.DocumentRankings(
                    joined_topics=pb.JoinedTopics(
                        query_ids=["1"], n_documents=[1], document_ids="a", values=bytes(16)
                    )
                ),
            )
        ),
    ),
    case(
        "DocumentRankings.joined_topics",
        "runs[1].documents.joined_topics",
        lambda: compare_documents(
            run(
                "b",
                documents=pb.DocumentRankings(topics=[pb.TopicRun()], joined_topics=ONE_TOPIC),
            )
        ),
    ),
    case("CompareOptions.permutations", "comparison.permutations", lambda: shaped(permutations=0)),
    case(
        "CompareOptions.permutations",
        "comparison.permutations",
        lambda: shaped(permutations=1_000_001),
    ),
    case("CompareOptions.max_moved", "comparison.max_moved", lambda: shaped(max_moved=1001)),
    case("CompareOptions.difference", "comparison.difference", lambda: shaped(difference=0.0)),
    case("CompareOptions.difference", "comparison.difference", lambda: shaped(difference=NAN)),
]

HARMLESS = {"CompareOptions.seed": "every number is a seed"}
