"""Senders take turns by what their work costs, and nobody waits while there is work."""

from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.scheduling.round_robin import (
    BATCH,
    INTERACTIVE,
    ClassOrder,
    FairQueue,
    RoundRobin,
)
from judged_server.tenant import Sender

QUANTUM = 10.0


def fill(work: dict[str, list[float]], weights: dict[str, float] | None = None):
    senders: RoundRobin[deque[float]] = RoundRobin(QUANTUM, deque)
    for sender, costs in work.items():
        senders.line(sender, (weights or {}).get(sender, 1.0)).extend(costs)
    return senders


def take(senders: RoundRobin[deque[float]]) -> tuple[str, float]:
    while (turn := senders.next()) is not None:
        sender, line = turn
        if line:
            cost = line.popleft()
            senders.charge(sender, cost)
            return sender, cost
        senders.leave(sender)
    raise IndexError


def test_equal_work_goes_in_turns():
    senders = fill({"a": [QUANTUM] * 3, "b": [QUANTUM] * 3})
    assert [take(senders)[0] for _ in range(6)] == list("ababab")


def test_a_dear_piece_is_made_up_for():
    senders = fill({"a": [3 * QUANTUM] * 2, "b": [QUANTUM] * 6})
    assert "".join(take(senders)[0] for _ in range(8)) in {"abbbabbb", "abbabbbb"}


def test_work_is_shared_by_weight():
    senders = fill({"a": [1.0] * 900, "b": [1.0] * 900}, {"b": 3.0})
    done = Counter(take(senders)[0] for _ in range(800))
    assert done["b"] / done["a"] == pytest.approx(3.0, rel=0.05)


def test_who_has_left_keeps_no_debt():
    senders = fill({"a": [100 * QUANTUM], "b": [QUANTUM] * 2})
    assert take(senders)[0] == "a"
    senders.leave("a")
    senders.line("a").append(1.0)
    assert [take(senders)[0] for _ in range(2)] == ["b", "a"]


def test_who_comes_with_work_is_next():
    senders = fill({"busy": [QUANTUM, *[1.0] * 99]})
    assert take(senders)[0] == "busy"
    senders.line("light").extend([1.0] * 2)
    assert [take(senders)[0] for _ in range(3)] == ["light", "light", "busy"]


def test_nobody_has_more_turns_by_coming_again_and_again():
    senders, done = fill({"busy": [1.0] * 400}), Counter[str]()
    for _ in range(200):
        for sender in "abc":
            line = senders.line(sender)
            if not line:
                line.append(QUANTUM)
        sender, cost = take(senders)
        done[sender] += cost
        if sender != "busy":
            senders.leave(sender)
    shares = {sender: cost / sum(done.values()) for sender, cost in done.items()}
    assert shares == pytest.approx(dict.fromkeys(("busy", "a", "b", "c"), 1 / 4), abs=0.05)


def test_who_has_gone_is_forgotten_after_a_round():
    senders = fill({"busy": [QUANTUM] * 10, "light": [1.0]})
    assert [take(senders)[0] for _ in range(2)] == ["busy", "light"]
    senders.leave("light")
    assert len(senders) == 1
    assert senders.known("light") is None
    assert [take(senders)[0] for _ in range(2)] == ["busy", "busy"]
    senders.line("light").append(1.0)
    assert take(senders)[0] == "light"


def test_nobody_is_next_where_nobody_has_work():
    senders = fill({})
    assert senders.next() is None
    senders.charge("a", 1.0)
    assert senders.known("a") is None
    senders.line("a")
    senders.clear()
    assert len(senders) == 0


@given(
    st.dictionaries(
        st.sampled_from("abcde"),
        st.lists(st.floats(0.1, 50.0), min_size=1, max_size=30),
        min_size=1,
    ),
    st.dictionaries(st.sampled_from("abcde"), st.floats(0.2, 5.0)),
)
def test_all_is_done_and_each_has_its_share(work, weights):
    """While all have work, each gets as much for its weight, but for a turn and a piece."""
    senders = fill(work, weights)
    left = {sender: len(costs) for sender, costs in work.items()}
    done = dict.fromkeys(work, 0.0)
    while any(left.values()):
        busy = [sender for sender, pieces in left.items() if pieces]
        shares = [done[sender] / weights.get(sender, 1.0) for sender in busy]
        if len(busy) == len(work):
            largest = max(50.0 / weights.get(sender, 1.0) for sender in busy)
            assert max(shares) - min(shares) <= 2 * (QUANTUM + largest)
        sender, cost = take(senders)
        left[sender] -= 1
        done[sender] += cost
    with pytest.raises(IndexError):
        take(senders)


class TestFairQueue:
    def test_a_busy_sender_holds_up_nobody_else(self):
        queue: FairQueue[str] = FairQueue(QUANTUM)
        for number in range(5):
            queue.put(f"busy {number}", Sender("busy"))
        taken = [queue.take(QUANTUM), queue.take(1.0)]
        queue.put("light", Sender("light"))
        while queue.first() is not None:
            taken.append(queue.take(1.0))
        assert taken == ["busy 0", "busy 1", "light", "busy 2", "busy 3", "busy 4"]
        assert len(queue) == 0

    def test_looking_takes_nothing(self):
        queue: FairQueue[str] = FairQueue(QUANTUM)
        queue.put("a", Sender("a"))
        queue.put("batch", Sender("a", is_batch=True))
        assert [queue.first() for _ in range(100)] == ["a"] * 100
        assert sorted(queue) == ["a", "batch"]
        assert [queue.take(0.0), queue.take(0.0), queue.first()] == ["a", "batch", None]

    def test_batch_work_has_one_turn_of_eight(self):
        queue: FairQueue[int] = FairQueue(QUANTUM)
        for number in range(20):
            queue.put(number, Sender("a"))
            queue.put(100 + number, Sender("a", is_batch=True))
        taken = [queue.take(QUANTUM) >= 100 for _ in range(16)]
        assert taken == ([False] * 7 + [True]) * 2


def test_batch_work_has_a_turn_now_and_then():
    order = ClassOrder(3)
    turns = [order.next(interactive=True, batch=True) for _ in range(8)]
    assert turns == [INTERACTIVE] * 3 + [BATCH] + [INTERACTIVE] * 3 + [BATCH]
    assert order.next(interactive=False, batch=True) == BATCH
    assert order.next(interactive=False, batch=False) is None
