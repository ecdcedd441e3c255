"""The tables of bad input that the tests have, each case by every call that it can be put to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from judged.v1 import judge_service_pb2 as pb

from tests.goldens.cases import Call, Http, pack
from tests.goldens.servers import PLAIN
from tests.integration.bad_input.case import LONG
from tests.integration.bad_input.large import batch, evaluate, group
from tests.integration.bad_input.test_bad_input import CASES
from tests.integration.clients.test_stream import chunk, start
from tests.integration.http.test_http_refusals import REFUSED, sent_of


def refused_calls() -> Iterator[Call]:
    for case in CASES:
        request: Any = case.request()
        yield Call.of(f"{case.field} {case.path}", PLAIN, request)
        if request.ByteSize() < 1 << 23:  # two messages of the largest would take seconds
            for messages in _elsewhere(request):
                yield Call.of(f"of {case.field} {case.path}", PLAIN, *messages)
    for name, streamed in _STREAMS.items():
        yield Call.of(name, PLAIN, *streamed)


def _elsewhere(request: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the same fault in the other calls that take such groups or items."""
    match request:
        case pb.BatchJudgeRequest():
            yield (pb.EstimateBatchRequest(judge=request),)
            first = pb.StreamJudgeStart(judge=request.judge, asking=request.asking)
            only = pb.JudgeChunk(chunk_id=1, groups=request.groups)
            yield pb.StreamJudgeRequest(start=first), pb.StreamJudgeRequest(chunk=only)
        case pb.EvaluateRequest():
            fields = {field.name: value for field, value in request.ListFields()}
            given = {
                name: fields[name] for name in ("judge", "options", "asking") if name in fields
            }
            yield (
                pb.StreamEvaluateRequest(
                    start=pb.StreamEvaluateStart(metrics=request.metrics, **given)
                ),
                _evaluated(1, *request.groups),
            )
        case pb.ScoreAnswersRequest():
            yield (pb.EstimateBatchRequest(score=request),)


def _evaluated(chunk_id: int, *groups: Any) -> pb.StreamEvaluateRequest:
    return pb.StreamEvaluateRequest(chunk=pb.EvaluateChunk(chunk_id=chunk_id, groups=groups))


def _begun(*metrics: str) -> pb.StreamEvaluateRequest:
    return pb.StreamEvaluateRequest(start=pb.StreamEvaluateStart(metrics=metrics or ["mrr"]))


_STREAMS: dict[str, tuple[Any, ...]] = {
    "without a start": (chunk(1, "a"),),
    "with two starts": (start(), start()),
    "of a message that is empty": (start(), pb.StreamJudgeRequest()),
    "of no chunk": (start(),),
    "of a chunk id that stands twice": (start(), chunk(1, "a"), chunk(1, "b")),
    "of an unknown judge": (start("nobody"), chunk(1, "a")),
    "of some bad chunks": (start(), chunk(1), chunk(2, "a"), chunk(3, LONG), chunk(4, "b")),
    "evaluated without a start": (_evaluated(1, group()),),
    "evaluated with two starts": (_begun(), _begun()),
    "evaluated of no chunk": (_begun(),),
    "evaluated of a query that stands twice": (
        _begun(), _evaluated(1, group()), _evaluated(2, group()),
    ),
    "evaluated by an unknown metric": (_begun("mrr", "nope"), _evaluated(1, group())),
    "evaluated of a chunk that is empty": (_begun(), _evaluated(1)),
    "evaluated of an empty query": (_begun(), _evaluated(1, group(retrieved=[]))),
    "of a group with no texts": (batch(group(expected=[]), group(retrieved=[]), group()),),
    "evaluated of no groups": (pb.EvaluateRequest(metrics=["mrr"]),),
    "evaluated by nothing": (evaluate(metrics=[]),),
}  # fmt: skip


def refused_by_http() -> Iterator[Http]:
    for name, case in REFUSED.items():
        yield Http(f"HTTP {name}", PLAIN, pack(sent_of(case)))
