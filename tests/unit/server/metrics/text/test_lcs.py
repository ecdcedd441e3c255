from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.metrics.text import formulas
from judged_server.scheduling.checkpoint import Abandoned, watched

SEQUENCES = st.integers(1, 5).flatmap(
    lambda n: st.lists(st.sampled_from([str(i) for i in range(n)]), max_size=40)
)


def by_table(first: list[str], second: list[str]) -> int:
    above = [0] * (len(second) + 1)
    for one in first:
        row = [0]
        for j, other in enumerate(second):
            row.append(above[j] + 1 if one == other else max(above[j + 1], row[j]))
        above = row
    return above[-1]


@pytest.mark.parametrize("bits", [16_384, 1, 5, 64])
@given(first=SEQUENCES, second=SEQUENCES)
def test_lengths_are_those_of_the_table(bits, first, second):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formulas, "BLOCK_BITS", bits)
        assert formulas.lcs_length(first, second) == by_table(first, second)


def test_long_texts_end_when_nobody_waits():
    first = [str(i % 7 * (i % 3)) for i in range(20_000)]
    second = [str(i % 5 * (i % 4)) for i in range(20_000)]
    looks = iter([False] * 5)
    with pytest.raises(Abandoned):
        watched(lambda: next(looks, True), formulas.lcs_length, first, second)
    assert formulas.lcs_length(first, first[::2]) == 10_000
