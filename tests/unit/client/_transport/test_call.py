from __future__ import annotations

import time

import pytest
from judged import Overloaded, Unavailable
from judged._transport import call
from judged._transport.call import Attempts, Deadline, Patience


def busy(retry_after: float | None) -> Overloaded:
    error = Overloaded("busy", code="RESOURCE_EXHAUSTED")
    error.retry_after = retry_after
    return error


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that only the test moves; the first element is the time."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


class TestAttempts:
    def test_a_server_that_answered_before_is_waited_for(self, clock: list[float]):
        patience = Patience()
        patience.answered()
        attempts = Attempts(Deadline(1000), patience)
        waits = []
        with pytest.raises(Unavailable):
            while True:
                waits.append(attempts.wait_after(Unavailable("failed to connect")))
                clock[0] += waits[-1]
        assert all(0 <= wait <= call.MAX_DELAY_S for wait in waits)
        assert sum(waits) > 1000 - call.MAX_DELAY_S

    def test_a_server_that_never_answered_is_given_up_soon(self, clock: list[float]):
        attempts = Attempts(Deadline(1000), Patience())
        with pytest.raises(Unavailable):
            while True:
                clock[0] += attempts.wait_after(Unavailable("failed to connect"))
        assert clock[0] <= call.UNREACHED_S

    def test_the_wait_is_never_shorter_than_the_server_wished(self):
        attempts = Attempts(Deadline(1000), Patience())
        assert attempts.wait_after(busy(3.0)) >= 3.0

    def test_an_oversize_refusal_of_grpc_itself_is_not_retried(self):
        with pytest.raises(Overloaded):
            Attempts(Deadline(1000), Patience()).wait_after(busy(None))

    def test_no_retry_that_would_outlast_the_deadline(self):
        with pytest.raises(Overloaded):
            Attempts(Deadline(10), Patience()).wait_after(busy(11.0))

    def test_when_the_time_is_over_the_last_failure_is_told(self, clock: list[float]):
        attempts = Attempts(Deadline(10), Patience())
        attempts.wait_after(busy(1.0))
        clock[0] = 11.0
        with pytest.raises(Overloaded):
            attempts.timeout()
