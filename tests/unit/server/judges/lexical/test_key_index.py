from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from judged_server.judges.lexical.texts import KeyIndex

keys = st.lists(st.one_of(st.integers(0, 20), st.integers(0, 2**64 - 1)), max_size=60)


@given(keys, keys)
def test_finds_what_is_there(indexed: list[int], probes: list[int]) -> None:
    index = KeyIndex(np.array(indexed, np.uint64))
    representative = index.representative.tolist()
    assert [indexed[entry] for entry in representative] == indexed
    assert len(set(representative)) == len(set(indexed))

    positions, entries = index.find(np.array(probes, np.uint64))
    found = dict(zip(positions.tolist(), entries.tolist(), strict=True))
    assert sorted(found) == [i for i, probe in enumerate(probes) if probe in indexed]
    assert all(indexed[entry] == probes[i] for i, entry in found.items())
    assert set(found.values()) <= set(representative)


def test_many_keys_that_share_their_bits() -> None:
    indexed = np.arange(5000, dtype=np.uint64) << np.uint64(40)
    index = KeyIndex(indexed)
    positions, entries = index.find(indexed[::-1])
    assert sorted(positions.tolist()) == list(range(5000))
    assert (entries == 4999 - positions).all()
