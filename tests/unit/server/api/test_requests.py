"""Messages received: parsed, inflated within bounds, refused where there is no room."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb
from judged_server import errors
from judged_server.api.requests import (
    GROWTH,
    Admission,
    Call,
    Reader,
    Receiver,
    count_fields,
)
from judged_server.scheduling.concurrency import INLINE_BYTES

from tests.fakes.calls import a_call

MOST = 1 << 20
READER = Reader(
    pb.BatchJudgeRequest.FromString,
    partial(count_fields, kind=pb.BatchJudgeRequest.DESCRIPTOR),
)


def request(characters: int = 10) -> pb.BatchJudgeRequest:
    text = "a" * characters
    return pb.BatchJudgeRequest(
        groups=[groups_pb2.QueryGroup(query="q", expected=[text], retrieved=["b"])]
    )


def receiver(admission: Admission | None = None) -> Receiver:
    return Receiver(admission or Admission(1 << 30), MOST)


async def received(raw: bytes, by: Receiver | None = None, call: Call | None = None) -> Any:
    """Return what a call gets whose message is `raw`."""

    async def read() -> Any:
        return raw

    return await (by or receiver()).first(read, READER, call or a_call())


@pytest.mark.parametrize("characters", [10, 2 * INLINE_BYTES])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
async def test_a_message_is_read_whatever_its_size_and_compressed_or_not(characters, compress):
    sent = request(characters)
    call = a_call()
    assert await received(compress(sent.SerializeToString()), call=call) == sent
    assert call.size == sent.ByteSize()


async def test_what_inflates_to_too_much_is_not_inflated():
    bomb = gzip.compress(b"\0" * (MOST + 1))
    with pytest.raises(errors.LimitExceeded) as refused:
        await received(bomb)
    assert refused.value.metadata == {
        "field": "message",
        "limit": str(MOST),
        "actual": str(MOST + 1),
    }


async def test_a_message_that_understates_what_it_inflates_to_is_malformed():
    raw = request(10_000).SerializeToString()
    liar = gzip.compress(raw)[:-4] + (100).to_bytes(4, "little")
    with pytest.raises(errors.MalformedMessage):
        await received(liar)


@pytest.mark.parametrize(
    "raw",
    [
        b"\x1f\x8b",
        gzip.compress(b"x")[:-9],
        gzip.compress(request().SerializeToString()) + gzip.compress(b""),
        b"\x1f\x8b" + zlib.compress(b"x"),
        b"\xff" * 10,
        b"\xff" * (2 * INLINE_BYTES),
        gzip.compress(b"\xff" * 10),
    ],
    ids=range(7),
)
async def test_bytes_that_are_no_message_are_malformed(raw):
    # What a stream that is cut says of its size may be anything.
    with pytest.raises((errors.MalformedMessage, errors.LimitExceeded)):
        await received(raw)


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_a_message_or_an_error_of_ours(raw, compressed):
    if compressed:
        raw = b"\x1f\x8b" + raw
    try:
        found = asyncio.run(received(raw))
    except (errors.MalformedMessage, errors.LimitExceeded):
        return
    assert isinstance(found, pb.BatchJudgeRequest)


async def test_a_message_without_room_is_refused_before_it_is_inflated():
    admission = Admission(MOST * GROWTH)
    raw = gzip.compress(request(MOST // 2).SerializeToString())
    with admission.admit(MOST * GROWTH), pytest.raises(errors.Overloaded):
        await receiver(admission).read(raw, READER, a_call())
    assert await received(raw, receiver(admission))


async def test_a_message_of_a_stream_waits_for_room():
    admission = Admission(MOST * GROWTH)
    sent = request(MOST // 2)

    async def messages() -> Any:
        yield sent.SerializeToString()

    stream = receiver(admission).each(messages(), READER, a_call())
    with admission.admit(MOST * GROWTH):
        waiting = asyncio.ensure_future(anext(stream))
        done, _ = await asyncio.wait({waiting}, timeout=0.3)  # a refusal would come at once
        assert not done
    assert (await waiting).message == sent
    assert admission.pending_bytes == 0


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
async def test_strangers_send_small_messages_alone(compress):
    raw = request(INLINE_BYTES).SerializeToString()

    async def read() -> Any:
        return compress(raw[:size])

    size = len(raw)
    with pytest.raises(errors.LimitExceeded):
        await receiver().strangers(read, READER, a_call())
    size = 0
    assert await receiver().strangers(read, READER, a_call()) == pb.BatchJudgeRequest()
