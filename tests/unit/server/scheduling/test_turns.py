"""Senders take turns by what their work costs, and nobody waits while there is work."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.scheduling.fairness import RoundRobin
from judged_server.tenant import Sender

QUANTUM = 10.0

Piece = tuple[str, float]


def fill(work: dict[str, list[float]], weights: dict[str, float] | None = None):
    senders: RoundRobin[Piece] = RoundRobin(QUANTUM)
    for sender, costs in work.items():
        put(senders, sender, costs, (weights or {}).get(sender, 1.0))
    return senders


def put(senders: RoundRobin[Piece], sender: str, costs: list[float], weight: float = 1.0) -> None:
    for cost in costs:
        senders.put((sender, cost), Sender(sender, weight))


def take(senders: RoundRobin[Piece]) -> Piece:
    head = senders.first()
    assert senders.take(head[1]) == head
    return head


def test_nobody_has_more_turns_by_coming_again_and_again():
    senders, done = fill({"busy": [1.0] * 400}), Counter[str]()
    for _ in range(200):
        for sender in "abc":
            if sender not in {name for name, _ in senders}:
                put(senders, sender, [QUANTUM])
        sender, cost = take(senders)
        done[sender] += cost
    shares = {sender: cost / sum(done.values()) for sender, cost in done.items()}
    assert shares == pytest.approx(dict.fromkeys(("busy", "a", "b", "c"), 1 / 4), abs=0.05)


def test_a_part_of_what_comes_next_is_charged_too():
    senders = fill({"a": [1.0, 2.0], "b": [1.0]})
    senders.charge(QUANTUM, to_the_end=True)
    assert [take(senders) for _ in range(3)] == [("b", 1.0), ("a", 2.0), ("a", 1.0)]
    assert (senders.first(), senders.take(1.0), bool(senders)) == (None, None, False)


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
    assert not senders
