"""Batches: every index once, the budget held, padding small."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from judged_server.embedding.batches import cut_batches, pad

LENGTHS = st.lists(st.integers(0, 300), max_size=200)
BUDGETS = st.integers(1, 2000)


@given(LENGTHS, BUDGETS)
def test_each_index_is_in_one_batch(lengths, budget):
    batches = cut_batches(lengths, budget)
    assert sorted(i for batch in batches for i in batch.tolist()) == list(range(len(lengths)))


@given(LENGTHS, BUDGETS)
def test_padding_counts_against_the_budget(lengths, budget):
    for batch in cut_batches(lengths, budget):
        longest = max(lengths[i] for i in batch)
        assert longest * len(batch) <= budget or len(batch) == 1


@given(LENGTHS, BUDGETS)
def test_batches_go_from_long_to_short(lengths, budget):
    flat = [lengths[i] for batch in cut_batches(lengths, budget) for i in batch]
    assert flat == sorted(lengths, reverse=True)


@given(LENGTHS, BUDGETS)
def test_no_two_neighbours_would_fit_one_batch(lengths, budget):
    batches = cut_batches(lengths, budget)
    for batch, following in itertools.pairwise(batches):
        longest = max(1, lengths[batch[0]])
        assert longest * (len(batch) + 1) > budget
        assert len(following)


def test_rows_are_padded_on_the_right_to_the_longest():
    token_ids, mask = pad([np.array([5, 6]), np.array([7, 8, 9]), np.array([4])], pad_id=1)
    assert token_ids.tolist() == [[5, 6, 1], [7, 8, 9], [4, 1, 1]]
    assert mask.tolist() == [[1, 1, 0], [1, 1, 1], [1, 0, 0]]
    assert token_ids.dtype == mask.dtype == np.int64
