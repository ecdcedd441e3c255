"""Every field of every request message: what a bad value gets, by path, and the server lives on.

The cases are in `requests`, a file for each call. They are checked against the descriptors, so a
field that enters the contract without a case fails `test_every_request_field_has_a_case`;
`harmless.txt` has those that no value of is bad, or that are elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from judged import InvalidArgument
from judged._transport.call import to_error
from judged.v1 import error_reason_pb2, statistics_service_pb2
from judged.v1 import judge_service_pb2 as pb

from tests.fakes.stubs import stub_of_all_calls
from tests.integration.bad_input.case import FOLDER, LONG, Case, below, written
from tests.integration.bad_input.large import CASES as LARGE
from tests.integration.bad_input.large import batch, group

CASES = [*written(), *LARGE]
HARMLESS = {field for _, fields in below(FOLDER / "harmless.txt") for field in fields}
UNREAD = {"judged.v1.VerdictError", "judged.v1.VerdictDetail"}
"""What callers may send back with the verdicts they got."""


def request_fields() -> Iterator[str]:
    """Yield every field that a caller can set, as Message.field."""
    files = (pb.DESCRIPTOR, statistics_service_pb2.DESCRIPTOR)
    services = [service for file in files for service in file.services_by_name.values()]
    waiting = [method.input_type for service in services for method in service.methods]
    seen = set()
    while waiting:
        message = waiting.pop()
        if message.full_name in seen or message.full_name in UNREAD:
            continue
        seen.add(message.full_name)
        for field in message.fields:
            yield f"{message.full_name.removeprefix('judged.v1.')}.{field.name}"
            if field.message_type is not None:
                waiting.append(field.message_type)


def call_of(request: object) -> str:
    """Return the name of the call that takes a request."""
    return type(request).__name__.removesuffix("Request")


def test_every_request_field_has_a_case():
    covered = HARMLESS.union(*(case.covers for case in CASES))
    assert set(request_fields()) - covered == set()


@pytest.fixture(scope="module")
def stub(server_address: str) -> Iterator[Any]:
    with grpc.insecure_channel(
        server_address, options=[("grpc.max_send_message_length", -1)]
    ) as channel:
        yield stub_of_all_calls(channel)


@pytest.mark.parametrize("bad", CASES, ids=lambda case: case.path)
def test_a_bad_field_is_named_and_the_server_lives(bad: Case, stub: Any):
    request = bad.request()
    with pytest.raises(grpc.RpcError) as caught:
        answered = getattr(stub, call_of(request))(request, timeout=20)
        if isinstance(answered, Iterator):  # a stream, which has yet to fail
            list(answered)
    error = to_error(caught.value, "here")
    assert error.code == bad.code
    assert error.request_id
    if bad.code == "INVALID_ARGUMENT":
        assert isinstance(error, InvalidArgument)
        assert error.field == bad.path
        assert error.reason in {"INVALID_FIELD", "LIMIT_EXCEEDED"}
        assert error.message.startswith(bad.path)
        assert LONG[:200] not in error.message
    assert list(stub.BatchJudge(batch(), timeout=20).verdicts.relevant) == [True, False]


def test_a_message_above_the_limit_is_refused_by_core(stub: Any):
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
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            "/judged.v1.JudgeService/BatchJudge"
        )
        with pytest.raises(grpc.RpcError) as caught:
            call(raw, timeout=20)
    error = to_error(caught.value, "here")
    assert (error.code, error.reason) == ("INVALID_ARGUMENT", "MALFORMED_MESSAGE")


def test_a_group_with_an_empty_side_has_no_verdicts(stub: Any):
    request = batch(group(expected=[]), group(retrieved=[]), group())
    reply = stub.BatchJudge(request, timeout=20)
    assert list(reply.verdicts.group_offsets) == [0, 0, 0, 2]


@pytest.mark.parametrize(
    "text",
    ["\0", "\u202e", "\u200b", "\ud7ff\ue000", "x" * (1 << 20), "a\0b", "\U0010ffff" * 1000],
    ids=["nul", "bidi", "zero width", "near surrogates", "one long word", "inner nul", "astral"],
)
@pytest.mark.parametrize("kind", ["exact", "token_overlap", "semantic"])
def test_odd_texts_are_judged(text: str, kind: str, stub: Any):
    reply = stub.BatchJudge(batch(group(expected=[text], retrieved=[text]), kind=kind), timeout=60)
    if kind == "semantic" and text not in {"\u202e", "\u200b", "a\0b"}:
        # The model knows no word of these.
        assert [error.reason for error in reply.verdicts.errors] == [
            error_reason_pb2.ERROR_REASON_UNSUPPORTED_TEXT
        ]
        return
    assert list(reply.verdicts.relevant) == [True]
    assert not reply.verdicts.errors
