"""Cutting: every window once, the budget held, little padding, nobody starved."""

import gc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged_server.embedding.batching.windows import (
    PADDING_TOKENS,
    QUANTUM,
    SWEPT_FROM,
    CallWindows,
    InflightText,
    Window,
    WindowPool,
)

CALLS = st.lists(st.lists(st.integers(1, 300), min_size=1, max_size=40), min_size=1, max_size=6)
BUDGETS = st.integers(1, 1000)


def _windows(lengths):
    return [
        Window(np.zeros(length, np.int64), length, InflightText(b"", ""), 0) for length in lengths
    ]


def _pool(calls):
    pool = WindowPool()
    owners: dict[int, int] = {}
    for number, lengths in enumerate(calls):
        windows = _windows(lengths)
        owners |= {id(window): number for window in windows}
        pool.add(CallWindows(), windows)
    return pool, owners


def _batches(pool, budget, sharers=1):
    batches = []
    while batch := pool.cut(budget, sharers):
        batches.append(batch)
    return batches


@given(CALLS, BUDGETS, st.integers(1, 4))
def test_each_window_is_in_one_batch_and_nothing_is_left(calls, budget, sharers):
    pool, owners = _pool(calls)
    assert pool.tokens == sum(map(sum, calls))
    batches = _batches(pool, budget, sharers)
    assert sorted(id(window) for batch in batches for window in batch) == sorted(owners)
    assert pool.tokens == 0


@given(CALLS, BUDGETS)
def test_padding_counts_against_the_budget_and_is_small(calls, budget):
    pool, _ = _pool(calls)
    for batch in _batches(pool, budget):
        lengths = [window.length for window in batch]
        assert max(lengths) * len(batch) <= budget or len(batch) == 1
        assert max(lengths) - min(lengths) <= PADDING_TOKENS


@given(CALLS, BUDGETS)
def test_a_call_is_done_after_as_many_rounds_as_it_has_windows(calls, budget):
    pool, owners = _pool(calls)
    last: dict[int, int] = {}
    for turn, batch in enumerate(_batches(pool, budget), 1):
        last |= dict.fromkeys((owners[id(window)] for window in batch), turn)
    for number, lengths in enumerate(calls):
        assert last[number] <= len(lengths) * len(calls)


def test_a_short_text_is_not_starved_by_longer_ones_that_keep_coming():
    pool = WindowPool()
    (short,) = _windows([3])
    pool.add(CallWindows(), [short])
    for _ in range(3):
        pool.add(CallWindows(), _windows([200] * 5))
        pool.cut(256)
    assert short.taken


def test_small_calls_fill_each_others_batches():
    pool, owners = _pool([[50], [52], [48], [51]])
    (batch,) = _batches(pool, 256)
    assert {owners[id(window)] for window in batch} == {0, 1, 2, 3}


@pytest.mark.parametrize(("sharers", "sizes"), [(1, [4]), (2, [2, 2]), (3, [1, 1, 1, 1])])
def test_idle_workers_share_what_little_there_is(sharers, sizes):
    pool, _ = _pool([[40, 40, 40, 40]])
    batches = [pool.cut(512, sharers)]
    while batch := pool.cut(512, sharers):
        batches.append(batch)
    assert len(batches[0]) == sizes[0]
    assert sum(map(len, batches)) == 4


def test_a_window_of_two_pools_is_taken_from_both():
    one, two = WindowPool(), WindowPool()
    windows = _windows([10, 20])
    one.add(CallWindows(), windows)
    two.add(CallWindows(), windows)
    assert two.cut(10) == [windows[1]]
    assert (one.tokens, two.tokens) == (10, 10)
    assert one.cut(100) == [windows[0]]
    assert (one.cut(100), two.cut(100)) == ([], [])


def test_a_window_that_two_calls_bring_counts_once():
    pool = WindowPool()
    windows = _windows([10])
    pool.add(CallWindows(), windows)
    pool.add(CallWindows(), windows)
    assert pool.tokens == 10
    assert pool.cut(100) == windows
    assert pool.cut(100) == []


def test_what_was_taken_is_not_let_in_again():
    pool = WindowPool()
    windows = _windows([10])
    windows[0].take()
    pool.add(CallWindows(), windows)
    assert (pool.tokens, pool.cut(100)) == (0, [])


@given(st.integers(1, 400), st.integers(1, 5), st.integers(16, 512))
def test_a_sender_waits_for_no_more_than_a_turn_of_each_other(busy, light, budget):
    pool = WindowPool()
    for number in range(busy):
        pool.add(CallWindows("busy"), _windows([40 + number % 50] * 3))
    windows = _windows([20 * number + 150 for number in range(light)])
    pool.add(CallWindows("light"), windows)
    batches = _batches(pool, budget)
    # The longest window of the light one goes first, after at most a turn of the busy one, of
    # which the last batch may be over its quantum.
    first = next(
        i for i, batch in enumerate(batches) if set(map(id, windows)) & set(map(id, batch))
    )
    ran = sum(window.length for batch in batches[:first] for window in batch)
    assert ran <= QUANTUM + max(budget, 300)


def test_a_light_call_is_in_the_next_batch_whole():
    pool = WindowPool(in_turns=False)
    for _ in range(20):
        pool.add(CallWindows("busy"), _windows([75, 70, 65]))
    for _ in range(3):  # its first turn is over
        assert len(pool.cut(256)) == 3
    windows = _windows([70, 55, 20])
    pool.add(CallWindows("light"), windows)
    assert pool.cut(256, whole={"light"}.__contains__)[:3] == windows


def test_a_light_call_that_is_too_long_for_a_batch_brings_what_fits():
    pool = WindowPool(in_turns=False)
    pool.add(CallWindows("busy"), _windows([300] * 9))
    assert [len(pool.cut(256)) for _ in range(2)] == [1, 1]  # its first turn is over
    pool.add(CallWindows("light"), _windows([100, 60, 40]))
    light = {"light"}.__contains__
    assert [[w.length for w in pool.cut(256, whole=light)] for _ in range(2)] == [[100, 60], [40]]


class TestWeights:
    """Of senders who always have windows that wait, whatever their lengths are."""

    @settings(max_examples=40)
    @given(
        st.sampled_from([1 / 100, 1 / 3, 1.0]),
        st.lists(st.integers(20, 300), min_size=1, max_size=8),
        st.lists(st.integers(20, 300), min_size=1, max_size=8),
        st.sampled_from([64, 256, 4096]),
    )
    def test_tokens_are_shared_by_weight(self, light_weight, light, busy, budget):
        weights = {"light": light_weight, "busy": 1.0}
        lengths = {"light": light, "busy": busy}
        pool, waiting = WindowPool(), dict.fromkeys(weights, 0)
        ran = dict.fromkeys(weights, 0)
        while sum(ran.values()) < 60 * QUANTUM:
            for sender, weight in weights.items():
                # As much as a batch may take of anybody waits, of each length: where one sender has
                # no more that fits, the batch is filled with the other's, whatever the weights.
                each = sum(lengths[sender]) / min(lengths[sender])
                while waiting[sender] < 2 * (budget + 300) * each:
                    pool.add(CallWindows(sender, weight), _windows(lengths[sender]))
                    waiting[sender] += sum(lengths[sender])
            for window in pool.cut(budget):
                ran[window.sender] += window.length
                waiting[window.sender] -= window.length
        share = ran["light"] / sum(ran.values())
        due = light_weight / sum(weights.values())
        # A turn more or less for one of them, or a window that is longer than its turn.
        slack = (QUANTUM * light_weight + budget + 300) / sum(ran.values())
        assert share == pytest.approx(due, abs=slack)

    def test_one_to_three_is_one_to_three_within_a_tenth(self):
        pool = WindowPool()
        for sender, weight in (("one", 1 / 3), ("three", 1.0)):
            for number in range(300):
                pool.add(CallWindows(sender, weight), _windows([20 + number % 200] * 4))
        ran: Counter[str] = Counter()
        while sum(ran.values()) < 60_000:
            for window in pool.cut(256):
                ran[window.sender] += window.length
        assert ran["three"] / ran["one"] == pytest.approx(3.0, rel=0.1)

    def test_a_sender_alone_has_all(self):
        pool = WindowPool()
        pool.add(CallWindows("light", 1 / 100), _windows([60] * 50))
        assert [len(batch) for batch in _batches(pool, 240)] == [4] * 12 + [2]

    def test_a_new_weight_holds_from_the_next_call(self):
        pool = WindowPool()
        ran: Counter[str] = Counter()
        for weight in (1 / 2, 1.0):
            for sender, own in (("a", weight), ("b", 1.0)):
                pool.add(CallWindows(sender, own), _windows([64] * 1000))
        for _ in range(100):
            for window in pool.cut(256):
                ran[window.sender] += window.length
        assert ran["a"] == pytest.approx(ran["b"], abs=QUANTUM)


def test_windows_that_ran_are_let_go_of_while_others_wait():
    pool, call = WindowPool(), CallWindows("a")
    pool.add(CallWindows("b"), _windows([500]))  # waits all the time
    before = _texts_in_memory()
    for number in range(4 * SWEPT_FROM):
        windows = _windows([1 + number % 400])
        pool.add(call, windows)
        windows[0].take()  # by another pool, or dropped
        call.heap.clear()
    assert _texts_in_memory() - before <= 2 * SWEPT_FROM
    assert [window.length for window in pool.cut(4096)] == [500]


def _texts_in_memory():
    gc.collect()
    return sum(isinstance(each, InflightText) for each in gc.get_objects())
