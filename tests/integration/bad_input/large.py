"""Bad requests that are too large to stand in a file."""

from __future__ import annotations

from functools import partial

from judged.v1 import groups_pb2, metrics_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import statistics_service_pb2 as stats_pb

from tests.integration.bad_input.case import Case, parsed

TOO_MANY = 1_000_001
LETTERS = "a " * (1 << 19)
"""A text of 1 MiB with the most tokens there can be."""


def group(**changes: object) -> groups_pb2.QueryGroup:
    return groups_pb2.QueryGroup(
        **{"query_id": "1", "query": "q", "expected": ["a"], "retrieved": ["a", "b"], **changes}
    )


def batch(*groups: groups_pb2.QueryGroup, **judge: object) -> pb.BatchJudgeRequest:
    return pb.BatchJudgeRequest(groups=groups or [group()], judge=groups_pb2.JudgeSpec(**judge))


def evaluate(*groups: groups_pb2.QueryGroup, **changes: object) -> pb.EvaluateRequest:
    return pb.EvaluateRequest(**{"groups": groups or [group()], "metrics": ["ndcg@10"], **changes})


def ratings() -> stats_pb.MeasureAgreementRequest:
    raters = [stats_pb.Rater(name=n, ratings=[0] * TOO_MANY) for n in "ab"]
    table = stats_pb.RatingTable(categories=["yes", "no"], raters=raters)
    return stats_pb.MeasureAgreementRequest(ratings=table)


def texts(*references: str, metric: str = "bleu") -> stats_pb.ComputeTextMetricsRequest:
    item = stats_pb.TextItem(hypothesis=LETTERS, references=references)
    return stats_pb.ComputeTextMetricsRequest(metrics=[metric], items=[item])


def text_values() -> stats_pb.ComputeTextMetricsRequest:
    return stats_pb.ComputeTextMetricsRequest(
        metrics=["bleu"],
        values=[metrics_pb2.ValueColumn(values=[0.0] * 500_000)],
        interval=metrics_pb2.IntervalOptions(resamples=100_000),
    )


def values(n: int) -> metrics_pb2.PerQueryValues:
    column = metrics_pb2.ValueColumn(values=[0.5] * n)
    return metrics_pb2.PerQueryValues(query_ids=map(str, range(n)), columns=[column])


def runs(number: int, n: int = 1, metrics: int = 1) -> stats_pb.CompareRunsRequest:
    each = values(n)
    each.columns.extend(each.columns[:1] * (metrics - 1))
    return stats_pb.CompareRunsRequest(
        metrics=[f"ap@{k + 1}" for k in range(metrics)],
        runs=[stats_pb.ComparedRun(name=f"r{i}", values=each) for i in range(number)],
    )


def measured(n: int, **options: object) -> pb.ComputeMetricsRequest:
    metadata = [pb.QueryMetadata(query_id=str(i), metadata={"id": str(i)}) for i in range(n)]
    return pb.ComputeMetricsRequest(
        metrics=["ap"],
        options=metrics_pb2.MetricOptions(**options),
        values=values(n),
        metadata=metadata,
    )


def text(call: str, path: str, *parts: str, field: str = "") -> Case:
    return Case(path, partial(parsed, call, " ".join(parts)), field=field)


KEYS = " ".join(f'metadata {{ key: "{i}" value: "" }}' for i in range(65))
TREC = (
    'metrics: "ap" trec { qrels { query_id: "1" document_ids: "a" grades: 1 } '
    'run { query_id: "1" document_ids: "a" scores: 1 } }'
)
VECTORS = b"\0\0\x80\x3f"
MANY = groups_pb2.GroupEmbeddings(dimensions=1, expected=VECTORS * 1001, retrieved=VECTORS * 1000)

CASES = [
    Case("ratings.raters[0].ratings", ratings),
    text("BatchJudge", "groups", "groups { } " * 10_001),
    Case("groups", lambda: batch(group(expected=["e"] * 1001, retrieved=["r"] * 1000))),
    Case("groups", lambda: evaluate(group(negatives=["n"] * 1001, retrieved=["r"] * 1000))),
    Case("groups[0].metadata", lambda: evaluate(group(metadata={str(i): "" for i in range(65)}))),
    Case('groups[0].metadata["k"]', lambda: evaluate(group(metadata={"k": "v" * 1025}))),
    Case("groups[0].query_id", lambda: evaluate(group(query_id="é" * 513))),
    Case("groups[0].document_ids[1]", lambda: evaluate(group(document_ids=["a", "b" * 1025]))),
    Case(
        "groups[0].relevant_document_ids[0]",
        lambda: evaluate(group(expected=[], relevant_document_ids=["b" * 1025])),
    ),
    text("ComputeMetrics", "metadata[0].metadata", TREC, f'metadata {{ query_id: "1" {KEYS} }}'),
    *(
        text(
            "ComputeMetrics",
            f'metadata[0].metadata["{key[:80]}"]',
            f'{TREC} metadata {{ query_id: "1" metadata {{ key: "{key}" value: "{value}" }} }}',
            field=f"QueryMetadata.MetadataEntry.{'value' if value else 'key'}",
        )
        for key, value in (("k" * 2_000, ""), ("k", "x" * 2_000))
    ),
    text("ComputeTextMetrics", "metrics", 'items { references: "" }', 'metrics: "bleu"' * 101),
    Case("items", lambda: texts(*[""] * TOO_MANY)),
    Case("items[0]", lambda: texts(LETTERS, f"b {LETTERS}"[: 1 << 20], metric="rougeL")),
    Case("interval.resamples", text_values),
    Case("runs", lambda: runs(101)),
    Case("runs", lambda: runs(51, metrics=50)),
    Case("comparison.permutations", lambda: runs(2, 30_000)),
    Case(
        "embedded.rankings",
        lambda: pb.ComputeMetricsRequest(
            metrics=["recall"],
            embedded=pb.EmbeddedRankings(
                rankings=[pb.EmbeddedRanking(query_id="a", embeddings=MANY)]
            ),
        ),
    ),
    text(
        "ScoreAnswers",
        "items",
        'items { item_id: "1" } ' * 10_000,
        'rubrics { rubric: "helpfulness" } ' * 101,
    ),
    Case(
        "options.interval.resamples",
        lambda: measured(20_001, interval=metrics_pb2.IntervalOptions(resamples=100_000)),
    ),
    Case("options.slice_by[1]", lambda: measured(1_000, slice_by=["none", "id"])),
]
