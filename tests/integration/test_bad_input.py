"""Every field of every request message: what a bad value gets, by path, and the server lives on.

The table is checked against the descriptors, so a field that enters the contract without a case
here fails `test_every_request_field_has_a_case`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import grpc
import pytest
from judged._status import to_error
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import types_pb2 as t
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

NAN = float("nan")
LONG = "x" * ((1 << 20) + 1)
TWO_FLOATS = b"\0\0\x80\x3f\0\0\x80\x3f"
NAN_FLOATS = b"\0\0\xc0\x7f\0\0\x80\x3f"


def group(**changes: object) -> t.QueryGroup:
    return t.QueryGroup(
        **{"query_id": "1", "query": "q", "expected": ["a"], "retrieved": ["a", "b"], **changes}
    )


def batch(*groups: t.QueryGroup, **judge: object) -> pb.BatchJudgeRequest:
    return pb.BatchJudgeRequest(groups=groups or [group()], judge=t.JudgeSpec(**judge))


def parameter(name: str, kind: str = "token_overlap", **value: object) -> pb.BatchJudgeRequest:
    return batch(kind=kind, parameters={name: t.ParameterValue(**value)})


def vectors(**changes: object) -> pb.BatchJudgeRequest:
    given = {"dimensions": 2, "expected": TWO_FLOATS, "retrieved": TWO_FLOATS, **changes}
    return batch(
        group(expected=["a"], retrieved=["a"], embeddings=t.GroupEmbeddings(**given)),
        kind="semantic",
    )


def evaluate(
    *groups: t.QueryGroup, options: object = None, **changes: object
) -> pb.EvaluateRequest:
    return pb.EvaluateRequest(
        **{"groups": groups or [group()], "metrics": ["ndcg@10"], "options": options, **changes}
    )


def compute(options: object = None, metrics: object = ("ap",), **relevance: object):
    return pb.ComputeMetricsRequest(metrics=metrics, options=options, **relevance)


def judged(options: object = None, ids: str = "ab", **columns: object) -> pb.ComputeMetricsRequest:
    rankings = [pb.JudgedRanking(query_id=i, expected=1, retrieved=1) for i in ids]
    verdicts = t.VerdictColumns(**{"relevant": [True, False], **columns})
    return compute(options, judged=pb.JudgedRankings(rankings=rankings, verdicts=verdicts))


def trec(qrels: object = None, run: object = None, **options: object) -> pb.ComputeMetricsRequest:
    return compute(
        t.MetricOptions(**options),
        trec=pb.TrecRankings(
            qrels=qrels or [pb.TopicQrels(query_id="1", document_ids=["a"], grades=[1])],
            run=run or [pb.TopicRun(query_id="1", document_ids=["a"], scores=[1.0])],
        ),
    )


def gains(*rankings: pb.GainRanking) -> pb.ComputeMetricsRequest:
    return compute(gains=pb.GainRankings(rankings=rankings))


def gain(query_id: str = "1", gains: object = (1.0,), relevant: object = (1.0,)) -> pb.GainRanking:
    return pb.GainRanking(query_id=query_id, gains=gains, relevant_gains=relevant)


def values(ids: object = ("1",), *columns: object) -> pb.ComputeMetricsRequest:
    return compute(values=pb.PerQueryValues(query_ids=ids, columns=[t_values(c) for c in columns]))


def t_values(column: object) -> pb.ValueColumn:
    return pb.ValueColumn(values=column)


@dataclass(frozen=True)
class Case:
    field: str  # the field of the contract that is bad
    request: Callable[[], object]
    path: str  # the path the error must name
    code: str = "INVALID_ARGUMENT"


def case(field: str, path: str, request: Callable[[], object], code: str = "INVALID_ARGUMENT"):
    return Case(field, request, path, code)


CASES = [
    case("BatchJudgeRequest.groups", "groups", pb.BatchJudgeRequest),
    case("BatchJudgeRequest.groups", "groups", lambda: batch(*[t.QueryGroup()] * 10_001)),
    case(
        "BatchJudgeRequest.groups",
        "groups",
        lambda: batch(*[group(expected=["e"] * 1001, retrieved=["r"] * 1000)]),
    ),
    case("BatchJudgeRequest.judge", "judge.kind", lambda: batch(profile="classic")),
    case("QueryGroup.query_id", "groups[1].query_id", lambda: batch(group(), group(query_id=LONG))),
    case("QueryGroup.query_id", "groups[0].query_id", lambda: evaluate(group(query_id=""))),
    case("QueryGroup.query_id", "groups[1].query_id", lambda: evaluate(group(), group())),
    case("QueryGroup.query", "groups[0].query", lambda: batch(group(query=LONG))),
    case("QueryGroup.expected", "groups[0].expected[1]", lambda: batch(group(expected=["", LONG]))),
    case("QueryGroup.retrieved", "groups[0].retrieved[0]", lambda: batch(group(retrieved=[LONG]))),
    case(
        "QueryGroup.document_ids",
        "groups[0].document_ids",
        lambda: batch(group(document_ids=["x"])),
    ),
    case(
        "QueryGroup.document_ids",
        "groups[0].document_ids[1]",
        lambda: batch(group(document_ids=["x", LONG])),
    ),
    case(
        "QueryGroup.relevant_document_ids",
        "groups[0].relevant_document_ids",
        lambda: batch(group(expected=[], relevant_document_ids=["x"])),
    ),
    case(
        "QueryGroup.relevant_document_ids",
        "groups[0].expected",
        lambda: evaluate(group(relevant_document_ids=["x"])),
    ),
    case(
        "QueryGroup.embeddings",
        "groups[0].embeddings",
        lambda: batch(
            t.QueryGroup(
                embeddings=t.GroupEmbeddings(
                    dimensions=2, expected=TWO_FLOATS, retrieved=TWO_FLOATS
                )
            ),
            kind="exact",
        ),
    ),
    case(
        "GroupEmbeddings.dimensions",
        "groups[0].embeddings.dimensions",
        lambda: vectors(dimensions=0),
    ),
    case(
        "GroupEmbeddings.dimensions",
        "groups[0].embeddings.dimensions",
        lambda: vectors(dimensions=4097),
    ),
    case(
        "GroupEmbeddings.expected",
        "groups[0].embeddings.expected",
        lambda: vectors(expected=b"xyz"),
    ),
    case(
        "GroupEmbeddings.expected",
        "groups[0].embeddings.expected",
        lambda: vectors(expected=NAN_FLOATS),
    ),
    case(
        "GroupEmbeddings.retrieved",
        "groups[0].embeddings.retrieved",
        lambda: vectors(retrieved=TWO_FLOATS * 2),
    ),
    case("JudgeSpec.kind", "", lambda: batch(kind="token_overlab"), "NOT_FOUND"),
    case("JudgeSpec.profile", "judge.profile", lambda: batch(kind="exact", profile="loose")),
    case("JudgeSpec.min_score", "judge.min_score", lambda: batch(min_score=NAN)),
    case("JudgeSpec.min_score", "judge.min_score", lambda: batch(min_score=float("inf"))),
    case("JudgeSpec.min_score", "judge.min_score", lambda: batch(min_score=1.0001)),
    case("JudgeSpec.min_score", "judge.min_score", lambda: batch(min_score=-0.1)),
    case("JudgeSpec.parameters", 'judge.parameters["x"]', lambda: parameter("x", int_value=1)),
    case("JudgeSpec.parameters", 'judge.parameters["min_tokens"]', lambda: parameter("min_tokens")),
    case(
        "ParameterValue.bool_value",
        'judge.parameters["min_tokens"]',
        lambda: parameter("min_tokens", bool_value=True),
    ),
    case(
        "ParameterValue.int_value",
        'judge.parameters["min_tokens"]',
        lambda: parameter("min_tokens", int_value=0),
    ),
    case(
        "ParameterValue.double_value",
        'judge.parameters["min_tokens"]',
        lambda: parameter("min_tokens", double_value=NAN),
    ),
    case(
        "ParameterValue.string_value",
        'judge.parameters["long_text"]',
        lambda: parameter("long_text", "semantic", string_value="squeeze"),
    ),
    case("EvaluateRequest.groups", "groups", lambda: evaluate(groups=[])),
    case(
        "EvaluateRequest.judge", "judge.min_score", lambda: evaluate(judge=t.JudgeSpec(min_score=2))
    ),
    case("EvaluateRequest.metrics", "metrics", lambda: evaluate(metrics=[])),
    case("EvaluateRequest.metrics", "metrics[1]", lambda: evaluate(metrics=["ap", "ndgc@10"])),
    case("EvaluateRequest.metrics", "metrics[0]", lambda: evaluate(metrics=["ap@0"])),
    case("EvaluateRequest.metrics", "metrics[1]", lambda: evaluate(metrics=["ap", "ap"])),
    case(
        "EvaluateRequest.options",
        "options.matching",
        lambda: evaluate(options=t.MetricOptions(matching=9)),
    ),
    case(
        "MetricOptions.matching",
        "options.matching",
        lambda: evaluate(options=t.MetricOptions(matching=0)),
    ),
    case(
        "MetricOptions.matching",
        "metrics[0]",
        lambda: evaluate(options=t.MetricOptions(matching=t.MATCHING_MODE_ANY), metrics=["ap"]),
    ),
    case(
        "MetricOptions.no_gold",
        "options.no_gold",
        lambda: evaluate(options=t.MetricOptions(no_gold=0)),
    ),
    case(
        "MetricOptions.no_gold",
        "groups[1].expected",
        lambda: evaluate(
            group(),
            group(query_id="2", expected=[]),
            options=t.MetricOptions(no_gold=t.NO_GOLD_POLICY_ERROR),
        ),
    ),
    case(
        "MetricOptions.strict_duplicates",
        "groups[0].document_ids[1]",
        lambda: evaluate(
            group(document_ids=["x", "x"], retrieved=["r", "r"]),
            options=t.MetricOptions(strict_duplicates=True),
        ),
    ),
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
]

HARMLESS = {
    "EvaluateRequest.include_verdicts": "a switch",
    "MetricOptions.complete": "a switch",
    "MetricOptions.per_query": "a switch",
    "VerdictColumns.errors": "ComputeMetrics reads the status column only",
    "StreamJudgeRequest.start": "see test_stream.py",
    "StreamJudgeRequest.chunk": "see test_stream.py",
    "StreamJudgeStart.judge": "see test_stream.py",
    "JudgeChunk.chunk_id": "see test_stream.py",
    "JudgeChunk.groups": "see test_stream.py",
    "JudgeSpec.ParametersEntry.key": "see JudgeSpec.parameters",
    "JudgeSpec.ParametersEntry.value": "see JudgeSpec.parameters",
}

CALLS = {
    pb.BatchJudgeRequest: "BatchJudge",
    pb.EvaluateRequest: "Evaluate",
    pb.ComputeMetricsRequest: "ComputeMetrics",
}


def request_fields() -> Iterator[str]:
    """Yield every field that a caller can set, as Message.field."""
    service = pb.DESCRIPTOR.services_by_name["JudgeService"]
    waiting = [method.input_type for method in service.methods]
    seen = set()
    while waiting:
        message = waiting.pop()
        if message.full_name in seen or message.full_name == "judged.v1.VerdictError":
            continue
        seen.add(message.full_name)
        for field in message.fields:
            yield f"{message.full_name.removeprefix('judged.v1.')}.{field.name}"
            if field.message_type is not None:
                waiting.append(field.message_type)


def test_every_request_field_has_a_case():
    covered = {c.field for c in CASES} | set(HARMLESS)
    assert set(request_fields()) - covered == set()


@pytest.fixture(scope="module")
def stub(server_address: str) -> Iterator[JudgeServiceStub]:
    with grpc.insecure_channel(
        server_address, options=[("grpc.max_send_message_length", -1)]
    ) as channel:
        yield JudgeServiceStub(channel)


@pytest.mark.parametrize("bad", CASES, ids=lambda c: f"{c.field}-{c.path}")
def test_a_bad_field_is_named_and_the_server_lives(bad: Case, stub: JudgeServiceStub):
    request = bad.request()
    with pytest.raises(grpc.RpcError) as caught:
        getattr(stub, CALLS[type(request)])(request, timeout=20)
    error = to_error(caught.value, "here")
    assert error.code == bad.code
    assert error.request_id
    if bad.code == "INVALID_ARGUMENT":
        assert error.field == bad.path
        assert error.reason in {"INVALID_FIELD", "LIMIT_EXCEEDED"}
        assert error.message.startswith(bad.path)
        assert LONG[:200] not in error.message
    assert list(stub.BatchJudge(batch(), timeout=20).verdicts.relevant) == [True, False]


def test_a_message_above_the_limit_is_refused_by_core(stub: JudgeServiceStub):
    request = batch(group(retrieved=["x" * (1 << 20)] * 17))
    with pytest.raises(grpc.RpcError) as caught:
        stub.BatchJudge(request, timeout=20)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize(
    "raw",
    [b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x04\x12\x02\xff\xfe", b"\xff" * 50, b"\x0a\x02\x12\x09"],
    ids=["length past the end", "not UTF-8", "garbage", "truncated"],
)
def test_bytes_that_do_not_parse_are_invalid_argument(raw: bytes, server_address: str):
    with grpc.insecure_channel(server_address) as channel:
        call = channel.unary_unary("/judged.v1.JudgeService/BatchJudge")
        with pytest.raises(grpc.RpcError) as caught:
            call(raw, timeout=20)
    error = to_error(caught.value, "here")
    assert (error.code, error.reason) == ("INVALID_ARGUMENT", "MALFORMED_MESSAGE")


def test_a_group_with_an_empty_side_has_no_verdicts(stub: JudgeServiceStub):
    request = batch(group(expected=[]), group(retrieved=[]), group())
    reply = stub.BatchJudge(request, timeout=20)
    assert list(reply.verdicts.group_offsets) == [0, 0, 0, 2]


@pytest.mark.parametrize(
    "text",
    ["\0", "\u202e", "\u200b", "\ud7ff\ue000", "x" * (1 << 20), "a\0b", "\U0010ffff" * 1000],
    ids=["nul", "bidi", "zero width", "near surrogates", "one long word", "inner nul", "astral"],
)
@pytest.mark.parametrize("kind", ["exact", "token_overlap", "semantic"])
def test_odd_texts_are_judged(text: str, kind: str, stub: JudgeServiceStub):
    reply = stub.BatchJudge(batch(group(expected=[text], retrieved=[text]), kind=kind), timeout=60)
    assert list(reply.verdicts.relevant) == [True]
    assert not reply.verdicts.errors
