"""Admission: bounded in time, shared among senders, and never for what can't be done in time."""

from dataclasses import dataclass, replace

import pytest
from judged_server.errors import DeadlineTooShort, Overloaded
from judged_server.scheduling.fairness import MAX_DELAY_S, Admission, Resource
from judged_server.tenant import ANYBODY, Sender

MODEL = Resource("the model", rate=5_000, most=1_000_000, interactive=4_096)
RATE = 10_000
ROOM = int(MAX_DELAY_S * RATE)
"""Tokens of interactive calls that a model of this rate takes in."""


@dataclass(eq=False)
class Call:
    cost: int
    sender: Sender = ANYBODY
    deadline: float | None = None
    begun: bool = False


class World:
    """A model of RATE tokens a second, and calls to it at one instant."""

    def __init__(self, most: float = 1_000_000) -> None:
        self.admission = Admission(replace(MODEL, most=most))
        self.admission.measured(RATE, 1.0, workers=1, full=True)

    def admit(self, cost, sender="a", weight=1.0, deadline=None, *, is_batch=False):
        call = Call(cost, Sender(sender, weight, is_batch), deadline)
        self.admission.admit(call, now=0.0)
        return call


@pytest.fixture
def world():
    return World()


def test_an_idle_model_takes_a_call_of_any_size(world):
    call = world.admit(50 * ROOM)
    world.admission.left(call)
    assert world.admission.cost == 0
    world.admit(50 * ROOM)


def test_interactive_calls_wait_no_longer_than_the_delay(world):
    for _ in range(10):
        world.admit(ROOM // 10)
    with pytest.raises(Overloaded) as refused:
        world.admit(1)
    assert refused.value.retry_after_s == pytest.approx(MAX_DELAY_S)
    assert world.admission.cost == ROOM


def test_a_sender_below_its_share_is_let_in_beside_one_that_fills_all(world):
    for _ in range(10):
        world.admit(ROOM // 10, "busy")
    for _ in range(5):
        world.admit(ROOM // 10, "light")
    for sender in ("busy", "light"):
        with pytest.raises(Overloaded):
            world.admit(ROOM // 10, sender)


def test_batch_calls_wait_as_long_as_their_deadline_allows(world):
    for _ in range(10):
        world.admit(RATE, is_batch=True, deadline=30.0)
    with pytest.raises(Overloaded):
        world.admit(RATE, is_batch=True, deadline=10.5)
    world.admit(RATE, is_batch=True, deadline=11.5)


def test_what_no_idle_model_could_do_in_time_is_not_worth_a_retry(world):
    with pytest.raises(DeadlineTooShort) as refused:
        world.admit(10 * RATE, deadline=2.0)
    assert refused.value.metadata == {"estimate_ms": "10000"}


def test_a_turn_that_comes_too_late_is_noticed(world):
    call = world.admit(RATE // 2, deadline=1.0)
    assert not world.admission.is_late(call, now=0.4)
    assert world.admission.is_late(call, now=0.6)
    call.begun = True
    assert not world.admission.is_late(call, now=0.6)


def test_batches_that_are_not_full_do_not_lower_the_rate(world):
    for _ in range(100):
        world.admission.measured(RATE // 10, 1.0, workers=1, full=False)
    assert world.admission.rate == RATE
    for _ in range(200):
        world.admission.measured(2 * RATE, 1.0, workers=1, full=False)
    assert world.admission.rate == pytest.approx(2 * RATE, rel=0.01)
