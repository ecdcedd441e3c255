"""The backlog: bounded, but an idle engine takes a call of any size."""

import pytest
from judged_server.embedding.batching.queue import DEFAULT_RATE, Backlog
from judged_server.errors import Overloaded


def test_a_call_of_any_size_is_let_in_when_nothing_waits():
    backlog = Backlog(100)
    backlog.admit(10_000)
    assert backlog.tokens == 10_000
    backlog.release(10_000)
    assert backlog.tokens == 0


def test_more_than_the_bound_is_refused_with_a_delay():
    backlog = Backlog(100)
    backlog.admit(60)
    backlog.admit(40)
    with pytest.raises(Overloaded) as refused:
        backlog.admit(1)
    assert refused.value.retry_after_s >= 0.1
    assert backlog.tokens == 100


def test_what_costs_nothing_is_let_in_always():
    backlog = Backlog(100)
    backlog.admit(1_000)
    backlog.admit(0)


def test_the_delay_follows_the_measured_rate():
    delays = []
    for seconds in (1.0, 100.0):
        backlog = Backlog(100)
        for _ in range(100):
            backlog.measured(int(DEFAULT_RATE), seconds, workers=1)
        backlog.admit(50_000)
        with pytest.raises(Overloaded) as refused:
            backlog.admit(1)
        delays.append(refused.value.retry_after_s)
    assert delays[0] == pytest.approx(10, rel=0.01)
    assert delays[1] == 30.0
