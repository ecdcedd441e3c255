"""Cutting: every window once, the budget held, little padding, nobody starved."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.embedding.batching.cutting import PADDING_TOKENS, Waiting, WindowHeap, WindowPool

CALLS = st.lists(st.lists(st.integers(1, 300), min_size=1, max_size=40), min_size=1, max_size=6)
BUDGETS = st.integers(1, 1000)


def _windows(lengths):
    return [Waiting(np.zeros(length, np.int64), length) for length in lengths]


def _pool(calls):
    pool = WindowPool()
    owners: dict[int, int] = {}
    for number, lengths in enumerate(calls):
        windows = _windows(lengths)
        owners |= {id(window): number for window in windows}
        pool.add(WindowHeap(), windows)
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
    pool.add(WindowHeap(), [short])
    for _ in range(3):
        pool.add(WindowHeap(), _windows([200] * 5))
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
    one.add(WindowHeap(), windows)
    two.add(WindowHeap(), windows)
    assert two.cut(10) == [windows[1]]
    assert (one.tokens, two.tokens) == (10, 10)
    assert one.cut(100) == [windows[0]]
    assert (one.cut(100), two.cut(100)) == ([], [])


def test_a_window_that_two_calls_bring_counts_once():
    pool = WindowPool()
    windows = _windows([10])
    pool.add(WindowHeap(), windows)
    pool.add(WindowHeap(), windows)
    assert pool.tokens == 10
    assert pool.cut(100) == windows
    assert pool.cut(100) == []


def test_what_was_taken_is_not_let_in_again():
    pool = WindowPool()
    windows = _windows([10])
    windows[0].take()
    pool.add(WindowHeap(), windows)
    assert (pool.tokens, pool.cut(100)) == (0, [])
