from __future__ import annotations

from judged._codec import write_fields
from judged.v1 import verdicts_pb2
from judged.v1.error_reason_pb2 import ERROR_REASON_REFUSED
from judged.values.choices import Status
from judged.values.judges import Usage
from judged_server.api.convert.verdicts import write_detail
from judged_server.domain import VerdictDetail, VerdictSample


def test_usage_with_and_without_a_cost():
    message = write_fields(verdicts_pb2.Usage, Usage(1, 2, 3, 4, 0.0, 1.25))
    assert (message.calls, message.attempts) == (1, 2)
    assert (message.input_tokens, message.output_tokens) == (3, 4)
    assert message.HasField("cost")
    assert message.latency.ToNanoseconds() == 1_250_000_000
    assert not write_fields(verdicts_pb2.Usage, Usage(cost=None)).HasField("cost")


def test_a_detail_field_by_field():
    sample = VerdictSample(
        Status.OK, relevant=True, score=0.5, reason="", reasoning="r", raw_reply="w"
    )
    refused = VerdictSample(Status.ABSTAINED, False, 0.0, "REFUSED", "", "")
    message = write_detail(VerdictDetail(7, "r", (sample, refused), Usage(2), "m", "fp"))
    assert (message.index, message.rationale, message.usage.calls) == (7, "r", 2)
    assert (message.model, message.system_fingerprint) == ("m", "fp")
    first, second = message.samples
    assert (first.status, first.relevant, first.score) == (1, True, 0.5)
    assert (first.reasoning, first.raw_reply) == ("r", "w")
    assert (second.status, second.relevant, second.reason) == (3, False, ERROR_REASON_REFUSED)
