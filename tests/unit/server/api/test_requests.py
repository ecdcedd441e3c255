"""Messages received, and the memory they may take: in work, and on their way."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb
from judged_server import errors
from judged_server.api import requests
from judged_server.api.requests import (
    GROWTH,
    SMALL_MEMORY,
    STEP_BYTES,
    STRANGER,
    Admission,
    Arrivals,
    Call,
    Reader,
    Receiver,
    count_fields,
)
from judged_server.errors import Overloaded
from judged_server.process import MemoryWatch, Pressure
from judged_server.scheduling.concurrency import INLINE_BYTES
from judged_server.tenant import Sender

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


async def test_the_memory_of_a_message_is_held_until_its_call_ends():
    admission, call = Admission(MOST), a_call()
    await received(request().SerializeToString(), receiver(admission), call)
    assert admission.pending_bytes == call.memory > 0
    call.room.close()
    assert admission.pending_bytes == 0


async def test_an_empty_message_is_let_in_whatever_its_sender_holds():
    admission = Admission(MOST)
    with admission.admit(MOST):
        assert await received(b"", receiver(admission)) == pb.BatchJudgeRequest()


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


MIB = 1 << 20
LIMIT = 240 * MIB
"""Room for requests."""


def fill(admission: Admission, name: str, memory: int, weight: float = 1.0) -> int:
    """Admit requests of a sender until none goes in any more; return how many did."""
    for count in range(100_000):
        try:
            admission.admit(memory, Sender(name, weight))
        except Overloaded:
            return count
    raise AssertionError


def test_others_find_room_beside_a_sender_that_takes_all_it_can():
    admission = Admission(LIMIT)
    taken = [fill(admission, name, MIB) for name in "abc"]
    assert taken == [160, 53, 18]
    # Each holds its memory for as long as it likes, and a fourth one has room still.
    assert fill(admission, "d", MIB) == 6
    assert fill(admission, "e", SMALL_MEMORY // 10) > 30


def test_what_ends_makes_room_again():
    admission = Admission(LIMIT)
    with ExitStack() as stack:
        for _ in range(16):
            stack.enter_context(admission.admit(10 * MIB))
        with pytest.raises(Overloaded):
            admission.admit(10 * MIB)
    assert admission.pending_bytes == 0
    assert fill(admission, "", 10 * MIB) == 16


def test_no_error_tells_what_others_do():
    admission = Admission(LIMIT)
    with (
        admission.admit(LIMIT),
        pytest.raises(Overloaded, match="no room for a request") as refused,
    ):
        admission.admit(LIMIT)
    assert not any(map(str.isdigit, refused.value.message))


@pytest.mark.parametrize(
    ("pressure", "small", "large"),
    [
        (Pressure.NONE, True, True),
        (Pressure.HIGH, True, False),
        (Pressure.CRITICAL, False, False),
    ],
)
def test_a_process_short_of_memory_takes_small_requests_and_at_last_none(
    pressure: Pressure, small: bool, large: bool
):
    process = MemoryWatch()
    process.pressure = pressure
    admission = Admission(LIMIT, process)
    for memory, fits in ((100, small), (MIB, large)):
        if fits:
            with admission.admit(memory):
                pass
        else:
            with pytest.raises(Overloaded, match="short of memory"):
                admission.admit(memory)


async def test_those_that_wait_hold_no_more_than_may_be_in_work():
    admission = Admission(10 * MIB)

    async def wait() -> None:
        with await admission.wait_for_room(4 * MIB):
            pass

    with admission.admit(10 * MIB):
        waiting = [asyncio.create_task(wait()) for _ in range(3)]
        done, left = await asyncio.wait(waiting, return_when="FIRST_EXCEPTION", timeout=60)
        assert [type(task.exception()) for task in done] == [Overloaded]
    await asyncio.gather(*left)
    assert admission.pending_bytes == 0


LARGEST = 4 * STEP_BYTES


class World:
    """Messages that never end by themselves, and looks at them that come when a test wants them."""

    def __init__(self, room: int, process: MemoryWatch | None = None) -> None:
        self.process = process or MemoryWatch()
        self.arrivals = Arrivals(Admission(room * LARGEST, self.process), LARGEST)
        self.tasks: list[asyncio.Task[object]] = []

    async def send(self, name: str, count: int = 1, *, by_stranger: bool = False) -> None:
        sender = STRANGER if by_stranger else Sender(name)
        self.tasks += [
            asyncio.create_task(self.arrivals.receive(asyncio.Event().wait, sender), name=name)
            for _ in range(count)
        ]
        await asyncio.sleep(0)

    async def look(self, times: int = 10) -> list[str]:
        """Look so many times; return whose messages gave way, the first one first."""
        gone: list[str] = []
        for _ in range(times):
            self.arrivals._look()
            for _ in range(3):
                await asyncio.sleep(0)
            for task in [task for task in self.tasks if task.done()]:
                assert isinstance(task.exception(), Overloaded)
                gone.append(task.get_name())
                self.tasks.remove(task)
        return gone


@pytest.fixture
def looks_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "LOOK_S", 3600.0)


async def test_who_has_most_on_its_way_gives_way(looks_by_hand: None):
    world = World(3)
    await world.send("light")
    await world.send("busy", 5)
    await world.send("other")
    assert await world.look() == ["busy"] * 4
    await world.send("new")
    assert await world.look() == ["new"]
    assert [task.get_name() for task in world.tasks] == ["light", "busy", "other"]


async def test_strangers_give_way_first_and_their_oldest(looks_by_hand: None):
    world = World(3)
    await world.send("tenant", 2)
    await world.send("s1", by_stranger=True)
    await world.look(1)
    await world.send("s2", by_stranger=True)
    assert await world.look() == ["s1"]


async def test_one_gives_way_at_each_look_while_the_process_is_short_of_memory(looks_by_hand: None):
    world = World(10)
    await world.send("busy", 3)
    await world.send("light")
    await world.look(2)
    world.process.pressure = Pressure.HIGH
    assert await world.look(1) == ["busy"]
    assert await world.look(1) == ["busy"]
    world.process.pressure = Pressure.NONE
    assert await world.look() == []
