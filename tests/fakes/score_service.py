"""A service that only scores, in this process, by a script: what a client meets on a real wire.

It keeps the promises of ScoreAnswers: the judges, a score a pair, in an order that is not that of
the request, then a summary.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import grpc
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import scores_pb2, verdicts_pb2
from judged.v1.judge_service_pb2_grpc import JudgeServiceServicer

from tests.fakes.services import running

IDENTITY = verdicts_pb2.JudgeIdentity(kind="answers", signature="answers|v1")


@dataclass(frozen=True)
class Break:
    """Ends a call with a status in place of what it was to bring."""

    code: grpc.StatusCode
    message: str = "broken"


Scored = scores_pb2.AnswerScore | float | Break | None
Script = Callable[[pb.ScoreAnswersRequest, scores_pb2.AnswerItem, str], Scored]
"""Gets the request, an item and a rubric. A number is a score that is OK, None one left out."""


def score_of(item_id: str, rubric: str, value: float) -> scores_pb2.AnswerScore:
    """A score that is OK."""
    return scores_pb2.AnswerScore(
        item_id=item_id, rubric=rubric, status=verdicts_pb2.VERDICT_STATUS_OK, score=value,
        passed=value >= 0.7, min_score=0.7, usage=verdicts_pb2.Usage(calls=1, attempts=1, cost=0.5),
        samples=1, agreement=1, source=verdicts_pb2.VERDICT_SOURCE_COMPUTED,
    )  # fmt: skip


@dataclass
class ScoreService(JudgeServiceServicer):
    """The running service. `requests` are all that came, in order, and `estimates` likewise.

    `refusal` is what an estimate ends with, `chat_models` what it says it has.
    """

    script: Script
    with_summary: bool = True
    refusal: Break | None = None
    chat_models: list[pb.ChatModelInfo] = field(default_factory=list)
    estimates: list[pb.ScoreAnswersRequest] = field(default_factory=list)
    requests: list[pb.ScoreAnswersRequest] = field(default_factory=list)
    request_ids: list[str] = field(default_factory=list)
    ended: int = 0
    address: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def GetServerInfo(
        self, request: pb.GetServerInfoRequest, context: grpc.ServicerContext
    ) -> pb.GetServerInfoResponse:
        return pb.GetServerInfoResponse(version="fake", chat_models=self.chat_models)

    def EstimateBatch(
        self, request: pb.EstimateBatchRequest, context: grpc.ServicerContext
    ) -> pb.EstimateBatchResponse:
        with self._lock:
            self.estimates.append(request.score)
        if self.refusal is not None:
            context.abort(self.refusal.code, self.refusal.message)
        return pb.EstimateBatchResponse(contexts=1)

    def ScoreAnswers(
        self, request: pb.ScoreAnswersRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.ScoreAnswersResponse]:
        with self._lock:
            self.requests.append(request)
            self.request_ids.append(str(dict(context.invocation_metadata())["x-request-id"]))
        if not context.add_callback(self._end):  # it was cancelled before it got here
            self._end()
        started = pb.ScoringStarted(judges=[IDENTITY] * len(request.rubrics))
        yield pb.ScoreAnswersResponse(started=started)
        usage = verdicts_pb2.Usage(cost=0.0)
        pairs = [(item, spec.rubric) for spec in request.rubrics for item in request.items]
        for item, rubric in reversed(pairs):
            scored = self.script(request, item, rubric)
            if isinstance(scored, Break):
                context.abort(scored.code, scored.message)
            if scored is None:
                continue
            if isinstance(scored, float | int):
                scored = score_of(item.item_id, rubric, scored)
            usage.calls += scored.usage.calls
            usage.attempts += scored.usage.attempts
            usage.cost += scored.usage.cost
            yield pb.ScoreAnswersResponse(score=scored)
        if self.with_summary:
            yield pb.ScoreAnswersResponse(summary=scores_pb2.ScoreSummary(usage=usage))

    def _end(self) -> None:
        with self._lock:
            self.ended += 1


@contextmanager
def score_service(script: Script) -> Iterator[ScoreService]:
    """A service on a port of its own, for as long as the block runs."""
    service = ScoreService(script)  # type: ignore[abstract]
    with running(service):
        yield service
