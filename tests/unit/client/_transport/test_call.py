from __future__ import annotations

import time

import pytest
from judged import Overloaded, Unavailable
from judged._transport import call
from judged._transport.call import Attempts, Deadline, RetryBudget


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
        budget = RetryBudget()
        budget.answered()
        attempts = Attempts(Deadline(1000), budget)
        waits = []
        with pytest.raises(Unavailable):
            while True:
                waits.append(attempts.wait_after(Unavailable("failed to connect")))
                clock[0] += waits[-1]
        assert all(0 <= wait <= call.MAX_DELAY_S for wait in waits)
        assert sum(waits) > 1000 - call.MAX_DELAY_S

    def test_a_server_that_never_answered_is_given_up_soon(self, clock: list[float]):
        attempts = Attempts(Deadline(1000), RetryBudget())
        with pytest.raises(Unavailable):
            while True:
                clock[0] += attempts.wait_after(Unavailable("failed to connect"))
        assert clock[0] <= call.UNREACHED_S

    def test_the_user_is_told_of_a_longer_wait_and_of_its_end(
        self, clock: list[float], caplog: pytest.LogCaptureFixture
    ):
        budget = RetryBudget()
        budget.answered()
        attempts = Attempts(Deadline(1000), budget)
        for _ in range(100):
            attempts.wait_after(Unavailable("gone"))
            clock[0] += 0.5
        assert len(caplog.messages) == 2  # of 50 s
        assert all("waiting" in message for message in caplog.messages)
        budget.answered()
        assert "again" in caplog.messages[-1]

    def test_waits_until_there_is_a_retry_in_the_budget(self, clock: list[float]):
        budget = RetryBudget(tokens=0.0)
        waits = Attempts(Deadline(1000), budget).waits(Unavailable("gone"))
        first = sum(1 for _ in zip(waits, range(50), strict=False))
        assert first == 50  # time stands still
        clock[0] += 1.0
        assert list(waits) == []

    def test_the_wait_is_never_shorter_than_the_server_wished(self):
        attempts = Attempts(Deadline(1000), RetryBudget())
        assert attempts.wait_after(busy(3.0)) >= 3.0

    def test_an_oversize_refusal_of_grpc_itself_is_not_retried(self):
        with pytest.raises(Overloaded):
            Attempts(Deadline(1000), RetryBudget()).wait_after(busy(None))

    def test_no_retry_that_would_outlast_the_deadline(self):
        with pytest.raises(Overloaded):
            Attempts(Deadline(10), RetryBudget()).wait_after(busy(11.0))

    def test_when_the_time_is_over_the_last_failure_is_told(self, clock: list[float]):
        attempts = Attempts(Deadline(10), RetryBudget())
        attempts.wait_after(busy(1.0))
        clock[0] = 11.0
        with pytest.raises(Overloaded):
            attempts.timeout()


class TestRetryBudget:
    def test_bounds_retries_by_the_second(self, clock: list[float]):
        budget = RetryBudget()
        retries = 0
        for _ in range(1000):
            retries += budget.take()
            clock[0] += 0.01
        assert retries == pytest.approx(10 + 10 * budget.a_second, abs=1)

    def test_what_is_answered_earns_a_retry(self, clock: list[float]):
        budget = RetryBudget(tokens=0.0)
        assert not budget.take()
        budget.answered()
        assert budget.take()
        assert not budget.take()
