from __future__ import annotations

import pytest
from judged_server.api.listening.receiving import GROWTH, LARGE_SHARE, SMALL_BYTES, Admission
from judged_server.errors import Overloaded
from judged_server.process.memory import Memory, Pressure

MIB = 1 << 20
LIMIT = 40 * GROWTH * MIB
"""Room for requests of 40 MiB, and for large ones of 30 MiB."""


def test_what_does_not_fit_is_turned_away_with_a_delay():
    admission = Admission(LIMIT)
    with admission.admit(20 * MIB):
        with pytest.raises(Overloaded) as caught, admission.admit(11 * MIB):
            pass
        assert caught.value.retry_after_s > 0
        with admission.admit(10 * MIB):
            assert admission.pending_bytes == 30 * MIB * GROWTH == LIMIT * LARGE_SHARE
    assert admission.pending_bytes == 0


def test_large_requests_leave_room_for_small_ones():
    admission = Admission(LIMIT)
    with admission.admit(30 * MIB):
        small = [admission.admit(SMALL_BYTES) for _ in range(10 * MIB // SMALL_BYTES)]
        with pytest.raises(Overloaded):
            admission.admit(SMALL_BYTES)
        for held in small:
            with held:
                pass
    assert admission.pending_bytes == 0


@pytest.mark.parametrize("size", [1_000_000, SMALL_BYTES])
def test_a_request_of_any_size_is_admitted_when_nothing_is_in_work(size: int):
    with Admission(100).admit(size):
        pass


def test_a_large_request_waits_for_large_ones_alone():
    admission = Admission(LIMIT)
    with admission.admit(SMALL_BYTES), admission.admit(100 * MIB):
        pass


def test_memory_is_given_back_when_a_call_fails():
    admission = Admission(LIMIT)
    with pytest.raises(ZeroDivisionError), admission.admit(100):
        raise ZeroDivisionError
    assert admission.pending_bytes == 0


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
    for size, fits in ((100, small), (MIB, large)):
        if fits:
            with admission.admit(size):
                pass
        else:
            with pytest.raises(Overloaded, match="short of memory"):
                admission.admit(size)


def test_a_new_limit_holds_for_what_comes_next():
    admission = Admission(GROWTH * 1000)
    with admission.admit(600):
        with pytest.raises(Overloaded):
            admission.admit(600)
        admission.limit(GROWTH * 2000)
        with admission.admit(600):
            admission.limit(GROWTH * 1000)
    assert admission.pending_bytes == 0
