from __future__ import annotations

import time

import pytest
from judged import DeadlineExceeded, InvalidArgument, Overloaded, Unavailable, _call
from judged._call import MAX_TRIES, Attempts, Deadline, RetryBudget


def busy(retry_after: float | None) -> Overloaded:
    error = Overloaded("busy", code="RESOURCE_EXHAUSTED")
    error.retry_after = retry_after
    return error


class TestAttempts:
    def test_unavailable_is_tried_again_a_bounded_number_of_times(self):
        attempts = Attempts(Deadline(1000), RetryBudget())
        waits = []
        with pytest.raises(Unavailable):
            for _ in range(100):
                waits.append(attempts.wait_after(Unavailable("gone")))
        assert len(waits) == MAX_TRIES - 1
        assert all(0 <= wait <= _call.MAX_DELAY_S for wait in waits)

    def test_the_wait_is_never_shorter_than_the_server_wished(self):
        attempts = Attempts(Deadline(1000), RetryBudget())
        assert attempts.wait_after(busy(3.0)) >= 3.0

    def test_an_oversize_refusal_of_grpc_itself_is_not_retried(self):
        with pytest.raises(Overloaded):
            Attempts(Deadline(1000), RetryBudget()).wait_after(busy(None))

    def test_what_would_fail_again_is_not_retried(self):
        for error in (InvalidArgument("bad"), DeadlineExceeded("late")):
            with pytest.raises(type(error)):
                Attempts(Deadline(1000), RetryBudget()).wait_after(error)

    def test_no_retry_when_less_than_a_quarter_of_the_deadline_would_remain(self):
        with pytest.raises(Overloaded):
            Attempts(Deadline(10), RetryBudget()).wait_after(busy(8.0))

    def test_one_request_id_for_all_tries(self):
        attempts = Attempts(Deadline(1), RetryBudget())
        assert attempts.metadata == attempts.metadata
        assert attempts.metadata[0][0] == "x-request-id"


class TestRetryBudget:
    def test_a_sick_server_gets_one_retry_in_ten_calls(self):
        budget = RetryBudget()
        retries = 0
        for _ in range(1000):
            budget.answered()
            retries += budget.take()
        assert 90 <= retries <= 120


class TestDeadline:
    def test_an_expired_deadline_says_what_to_do(self, monkeypatch):
        clock = iter([0.0, 6.0])
        monkeypatch.setattr(time, "monotonic", lambda: next(clock))
        with pytest.raises(DeadlineExceeded, match="timeout="):
            Deadline(5).left()

    @pytest.mark.parametrize("timeout", [0, -1, float("nan")])
    def test_a_deadline_is_a_positive_number(self, timeout):
        with pytest.raises(ValueError, match="positive"):
            Deadline(timeout)
