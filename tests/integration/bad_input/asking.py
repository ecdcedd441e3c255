"""Bad requests about how language models are asked."""

from __future__ import annotations

from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb

from tests.integration.bad_input.case import Case
from tests.integration.bad_input.judging import batch, evaluate


def asking(**fields: object) -> pb.BatchJudgeRequest:
    request = batch()
    request.asking.CopyFrom(groups_pb2.AskingOptions(**fields))
    return request


CASES = [
    Case("asking.cache", lambda: asking(cache=0)),
    Case("asking.cache", lambda: asking(cache=99)),
    Case("asking.cache", lambda: evaluate(asking=groups_pb2.AskingOptions(cache=4))),
]

HARMLESS = {"StreamJudgeStart.asking": "see test_stream.py"}
