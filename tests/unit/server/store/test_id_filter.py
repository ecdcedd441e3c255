"""The filter of ids: never without one that was added, within its bytes, seldom wrong."""

import hashlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from judged_server.store.replies import IdFilter

IDS = st.integers(-(1 << 63), (1 << 63) - 1)


def hashes(start, stop):
    digests = (hashlib.sha256(str(number).encode()).digest() for number in range(start, stop))
    return np.array([int.from_bytes(raw[:8], "little", signed=True) for raw in digests], np.int64)


@given(st.lists(IDS), st.lists(IDS), st.integers(0, 12))
def test_what_was_added_is_in_it_one_by_one_or_together(single, together, power):
    ids = IdFilter(1 << power)
    for number in single:
        ids.add(number)
    ids.add_all(np.array(together, np.int64))
    assert all(number in ids for number in [*single, *together])
    assert ids.added == len(single) + len(together)


@given(st.sets(st.integers(0, 1 << 15), max_size=50), st.integers(0, 1 << 15))
def test_while_there_is_a_bit_for_each_it_is_a_set(numbers, other):
    ids = IdFilter(1 << 13)
    ids.add_all(np.array(sorted(numbers), np.int64))
    other %= ids.size_bits
    assert (other in ids) == (other in {number % ids.size_bits for number in numbers})


def test_others_are_taken_for_it_as_often_as_bits_are_set():
    ids = IdFilter(1 << 13)
    ids.add_all(hashes(0, 4096))  # a sixteenth of the bits, less those that two share
    wrong = sum(number in ids for number in hashes(4096, 24_096).tolist())
    assert 0.05 < wrong / 20_000 < 0.07


def test_cleared_it_holds_nothing():
    ids = IdFilter(1 << 4)
    ids.add(7)
    ids.clear()
    assert (7 in ids, ids.added) == (False, 0)
