from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest
from judged_server.api.requests import (
    SMALL_MEMORY,
    Admission,
)
from judged_server.errors import Overloaded
from judged_server.process import Memory, Pressure
from judged_server.tenant import Sender

MIB = 1 << 20
LIMIT = 240 * MIB
"""Room for requests of 240 MiB, and for large ones of 180 MiB."""


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
    assert taken == [120, 40, 13]
    # Each holds its memory for as long as it likes, and a fourth one has room still.
    assert fill(admission, "d", MIB) == 4
    assert fill(admission, "e", SMALL_MEMORY) > 50


def test_what_ends_makes_room_again():
    admission = Admission(LIMIT)
    with ExitStack() as stack:
        for _ in range(12):
            stack.enter_context(admission.admit(10 * MIB))
        with pytest.raises(Overloaded):
            admission.admit(10 * MIB)
    assert admission.pending_bytes == 0
    assert fill(admission, "", 10 * MIB) == 12


def test_large_requests_leave_room_for_small_ones():
    admission = Admission(LIMIT)
    admission.admit(2 * LIMIT)  # no other large one is in work
    assert fill(Admission(LIMIT), "a", SMALL_MEMORY) == LIMIT * 2 // 3 // SMALL_MEMORY
    with pytest.raises(Overloaded):
        admission.admit(SMALL_MEMORY + 1)


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
    process = Memory()
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
