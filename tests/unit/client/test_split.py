from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged import GainRanking, GainRankings, JudgedRankings, TrecRankings, _split
from judged._split import split

ids = st.text("abc", min_size=1, max_size=3)
topics = st.dictionaries(ids, st.dictionaries(ids, st.integers(0, 3), max_size=5), max_size=8)


@given(topics.filter(bool), topics, st.integers(1, 200))
def test_topics_stay_whole_and_none_is_lost(qrels, run, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_split, "PART_BYTES", size)
        parts = split(TrecRankings(qrels, run))
    assert [q for part in parts for q in part.qrels] == list(qrels)
    joined = {q: ranked for part in parts for q, ranked in part.run.items()}
    assert joined == run
    assert all(part.qrels for part in parts)
    for part in parts:
        for query_id in part.run:
            assert query_id in part.qrels or query_id not in qrels


def test_gains_are_cut_between_queries(monkeypatch):
    monkeypatch.setattr(_split, "PART_BYTES", 100)
    whole = GainRankings([GainRanking(str(i), [1.0] * 5, [1.0]) for i in range(10)])
    parts = split(whole)
    assert len(parts) == 5
    assert [r for part in parts for r in part.rankings] == whole.rankings


def test_verdicts_travel_in_one_piece():
    whole = JudgedRankings([], [])
    assert split(whole) == [whole]
