"""Bad requests to BatchJudge and Evaluate."""

from __future__ import annotations

from judged.v1 import groups_pb2, metrics_pb2
from judged.v1 import judge_service_pb2 as pb

from tests.integration.bad_input.case import LONG, NAN, NAN_FLOATS, TWO_FLOATS, Case


def group(**changes: object) -> groups_pb2.QueryGroup:
    return groups_pb2.QueryGroup(
        **{"query_id": "1", "query": "q", "expected": ["a"], "retrieved": ["a", "b"], **changes}
    )


def batch(*groups: groups_pb2.QueryGroup, **judge: object) -> pb.BatchJudgeRequest:
    return pb.BatchJudgeRequest(groups=groups or [group()], judge=groups_pb2.JudgeSpec(**judge))


def parameter(name: str, kind: str = "token_overlap", **value: object) -> pb.BatchJudgeRequest:
    return batch(kind=kind, parameters={name: groups_pb2.ParameterValue(**value)})


def vectors(**changes: object) -> pb.BatchJudgeRequest:
    given = {"dimensions": 2, "expected": TWO_FLOATS, "retrieved": TWO_FLOATS, **changes}
    return batch(
        group(expected=["a"], retrieved=["a"], embeddings=groups_pb2.GroupEmbeddings(**given)),
        kind="semantic",
    )


def evaluate(
    *groups: groups_pb2.QueryGroup, options: object = None, **changes: object
) -> pb.EvaluateRequest:
    return pb.EvaluateRequest(
        **{"groups": groups or [group()], "metrics": ["ndcg@10"], "options": options, **changes}
    )


CASES = [
    Case("groups", pb.BatchJudgeRequest),
    Case("groups", lambda: batch(*[groups_pb2.QueryGroup()] * 10_001)),
    Case("groups", lambda: batch(*[group(expected=["e"] * 1001, retrieved=["r"] * 1000)])),
    Case("judge.kind", lambda: batch(profile="classic")),
    Case("groups[1].query_id", lambda: batch(group(), group(query_id=LONG))),
    Case("groups[0].query_id", lambda: evaluate(group(query_id=""))),
    Case("groups[1].query_id", lambda: evaluate(group(), group())),
    Case("groups[0].query", lambda: batch(group(query=LONG))),
    Case("groups[0].expected[1]", lambda: batch(group(expected=["", LONG]))),
    Case("groups[0].retrieved[0]", lambda: batch(group(retrieved=[LONG]))),
    Case("groups[0].document_ids", lambda: batch(group(document_ids=["x"]))),
    Case("groups[0].document_ids[1]", lambda: batch(group(document_ids=["x", LONG]))),
    Case(
        "groups[0].relevant_document_ids",
        lambda: batch(group(expected=[], relevant_document_ids=["x"])),
    ),
    Case("groups[0].expected", lambda: evaluate(group(relevant_document_ids=["x"]))),
    Case(
        "groups[0].embeddings",
        lambda: batch(
            groups_pb2.QueryGroup(
                embeddings=groups_pb2.GroupEmbeddings(
                    dimensions=2, expected=TWO_FLOATS, retrieved=TWO_FLOATS
                )
            ),
            kind="exact",
        ),
    ),
    Case("groups[0].embeddings.dimensions", lambda: vectors(dimensions=0)),
    Case("groups[0].embeddings.dimensions", lambda: vectors(dimensions=4097)),
    Case("groups[0].embeddings.expected", lambda: vectors(expected=b"xyz")),
    Case("groups[0].embeddings.expected", lambda: vectors(expected=NAN_FLOATS)),
    Case("groups[0].embeddings.retrieved", lambda: vectors(retrieved=TWO_FLOATS * 2)),
    Case("", lambda: batch(kind="token_overlab"), "NOT_FOUND"),
    Case("judge.profile", lambda: batch(kind="exact", profile="loose")),
    Case("judge.min_score", lambda: batch(min_score=NAN)),
    Case('judge.parameters["x"]', lambda: parameter("x", int_value=1)),
    Case('judge.parameters["min_tokens"]', lambda: parameter("min_tokens")),
    Case(
        'judge.parameters["min_tokens"]',
        lambda: parameter("min_tokens", bool_value=True),
        field="ParameterValue.bool_value",
    ),
    Case(
        'judge.parameters["min_tokens"]',
        lambda: parameter("min_tokens", int_value=0),
        field="ParameterValue.int_value",
    ),
    Case(
        'judge.parameters["min_tokens"]',
        lambda: parameter("min_tokens", double_value=NAN),
        field="ParameterValue.double_value",
    ),
    Case(
        'judge.parameters["long_text"]',
        lambda: parameter("long_text", "semantic", string_value="squeeze"),
        field="ParameterValue.string_value",
    ),
    Case("groups", lambda: evaluate(groups=[])),
    Case("judge.min_score", lambda: evaluate(judge=groups_pb2.JudgeSpec(min_score=2))),
    Case("metrics", lambda: evaluate(metrics=[])),
    Case("metrics[1]", lambda: evaluate(metrics=["ap", "ndgc@10"])),
    Case("metrics[0]", lambda: evaluate(metrics=["ap@0"])),
    Case(
        "options.verdicts.matching",
        lambda: evaluate(
            options=metrics_pb2.MetricOptions(verdicts=metrics_pb2.VerdictOptions(matching=9))
        ),
    ),
    Case(
        "options.verdicts.matching",
        lambda: evaluate(
            options=metrics_pb2.MetricOptions(verdicts=metrics_pb2.VerdictOptions(matching=0))
        ),
    ),
    Case(
        "metrics[0]",
        lambda: evaluate(
            options=metrics_pb2.MetricOptions(
                verdicts=metrics_pb2.VerdictOptions(matching=metrics_pb2.MATCHING_MODE_ANY)
            ),
            metrics=["ap"],
        ),
    ),
    Case(
        "options.verdicts.no_gold",
        lambda: evaluate(
            options=metrics_pb2.MetricOptions(verdicts=metrics_pb2.VerdictOptions(no_gold=0))
        ),
    ),
    Case(
        "groups[1].expected",
        lambda: evaluate(
            group(),
            group(query_id="2", expected=[]),
            options=metrics_pb2.MetricOptions(
                verdicts=metrics_pb2.VerdictOptions(no_gold=metrics_pb2.NO_GOLD_POLICY_ERROR)
            ),
        ),
    ),
    Case(
        "groups[0].document_ids[1]",
        lambda: evaluate(
            group(document_ids=["x", "x"], retrieved=["r", "r"]),
            options=metrics_pb2.MetricOptions(
                verdicts=metrics_pb2.VerdictOptions(strict_duplicates=True)
            ),
        ),
    ),
]

HARMLESS = {
    "EvaluateRequest.include_verdicts": "a switch",
    "QrelsOptions.complete": "a switch",
    "QrelsOptions.strict_duplicates": "a switch",
    "MetricOptions.per_query": "a switch",
    "StreamJudgeRequest.start": "see test_stream.py",
    "StreamJudgeRequest.chunk": "see test_stream.py",
    "StreamJudgeStart.judge": "see test_stream.py",
    **dict.fromkeys(
        (
            *("StreamEvaluateRequest.start", "StreamEvaluateRequest.chunk"),
            *(f"StreamEvaluateStart.{name}" for name in ("judge", "metrics", "options", "asking")),
            *(f"StreamEvaluateStart.include_{name}" for name in ("verdicts", "details")),
            *(f"EvaluateChunk.{name}" for name in ("chunk_id", "groups", "continues")),
            "StreamEvaluateStart.request_id",
        ),
        "see test_evaluate_stream.py",
    ),
    "JudgeChunk.chunk_id": "see test_stream.py",
    "JudgeChunk.groups": "see test_stream.py",
    "JudgeSpec.ParametersEntry.key": "see JudgeSpec.parameters",
    "JudgeSpec.ParametersEntry.value": "see JudgeSpec.parameters",
}
