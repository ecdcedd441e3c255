"""Bad requests with spans, negatives and metadata, and with vectors to measure."""

from __future__ import annotations

from typing import Any

from judged.v1 import groups_pb2, metrics_pb2, verdicts_pb2
from judged.v1 import judge_service_pb2 as pb

from tests.integration.bad_input.case import LONG, NAN, NAN_FLOATS, TWO_FLOATS, Case
from tests.integration.bad_input.judging import batch, evaluate, group


def spans(
    *expected: groups_pb2.Span, kind: str = "span", **changes: object
) -> pb.BatchJudgeRequest:
    of = groups_pb2.GroupSpans(expected=expected, retrieved=[groups_pb2.Span(file="f", end=4)])
    return batch(
        groups_pb2.QueryGroup(**{"spans": of, **changes}),
        kind=kind,
    )


GOOD = groups_pb2.Span(file="f", start=1, end=3)


def embedded(ids: str = "ab", **changes: Any) -> pb.ComputeMetricsRequest:
    metrics = changes.pop("metrics", ["recall"])
    vectors: dict[str, Any] = {"dimensions": 2, "expected": TWO_FLOATS, "retrieved": TWO_FLOATS}
    vectors |= changes.pop("vectors", {})
    rankings = [
        pb.EmbeddedRanking(query_id=i, embeddings=groups_pb2.GroupEmbeddings(**vectors))
        for i in ids
    ]
    return pb.ComputeMetricsRequest(
        metrics=metrics, embedded=pb.EmbeddedRankings(rankings=rankings, **changes)
    )


def many(n_expected: int, n_retrieved: int) -> pb.ComputeMetricsRequest:
    one = b"\0\0\x80\x3f"
    sides = {"dimensions": 1, "expected": one * n_expected, "retrieved": one * n_retrieved}
    return embedded("a", vectors=sides)


CASES = [
    Case("groups[0].spans", lambda: spans(GOOD, kind="exact")),
    Case(
        "groups[0].spans", lambda: spans(GOOD, embeddings=groups_pb2.GroupEmbeddings(dimensions=1))
    ),
    Case("groups[0].spans.expected", lambda: spans(GOOD, expected=["a", "b"])),
    Case("groups[0].spans.retrieved", lambda: spans(GOOD, retrieved=["a", "b"])),
    Case(
        "groups[0].spans.expected[1].file", lambda: spans(GOOD, groups_pb2.Span(file=LONG, end=1))
    ),
    Case(
        "groups[0].spans.expected[0].end",
        lambda: spans(groups_pb2.Span(file="f", start=3, end=2)),
        field="Span.start",
    ),
    Case("groups[0].spans.expected[1].end", lambda: spans(GOOD, groups_pb2.Span(file="f"))),
    Case("groups[0].grades", lambda: batch(group(expected=[], grades={"a": 1}))),
    Case("groups[0].negatives", lambda: batch(group(negatives=["n"]))),
    Case("groups[0].negatives[1]", lambda: evaluate(group(negatives=["n", LONG]))),
    Case(
        "groups[0].negatives",
        lambda: evaluate(
            groups_pb2.QueryGroup(
                query_id="1",
                negatives=["n"],
                spans=groups_pb2.GroupSpans(expected=[GOOD], retrieved=[GOOD]),
            ),
            judge=groups_pb2.JudgeSpec(kind="span"),
        ),
    ),
    Case("groups", lambda: evaluate(group(negatives=["n"] * 1001, retrieved=["r"] * 1000))),
    Case("groups[0].metadata", lambda: evaluate(group(metadata={str(i): "" for i in range(65)}))),
    Case(
        'groups[1].metadata["k"]',
        lambda: evaluate(group(), group(query_id="2", metadata={"k": "v" * 1025})),
    ),
    Case(
        "metrics[1]",
        lambda: evaluate(
            groups_pb2.QueryGroup(
                query_id="1", spans=groups_pb2.GroupSpans(expected=[GOOD], retrieved=[GOOD])
            ),
            judge=groups_pb2.JudgeSpec(kind="span"),
            metrics=["ap", "f1_exact"],
        ),
    ),
    Case(
        "metrics[0]",
        lambda: pb.ComputeMetricsRequest(
            metrics=["recall_similarity"],
            judged=metrics_pb2.JudgedRankings(
                rankings=[metrics_pb2.JudgedRanking(query_id="1", expected=1, retrieved=1)],
                verdicts=verdicts_pb2.VerdictColumns(relevant=[True]),
            ),
        ),
    ),
    Case("metrics[1]", lambda: embedded(metrics=["ap", "precision_exact@2"])),
    Case("embedded.rankings", lambda: embedded("")),
    Case("embedded.rankings", lambda: many(1001, 1000)),
    Case("embedded.min_score", lambda: embedded(min_score=NAN)),
    Case("embedded.rankings[1].query_id", lambda: embedded("aa")),
    Case("embedded.rankings[0].embeddings.dimensions", lambda: embedded(vectors={"dimensions": 0})),
    Case(
        "embedded.rankings[0].embeddings.retrieved",
        lambda: embedded(vectors={"retrieved": NAN_FLOATS}),
    ),
]

HARMLESS = {
    "QueryGroup.GradesEntry.key": "see QueryGroup.grades",
    "QueryGroup.GradesEntry.value": "see QueryGroup.grades",
    "QueryGroup.MetadataEntry.key": "see QueryGroup.metadata",
    "QueryGroup.MetadataEntry.value": "see QueryGroup.metadata",
}
