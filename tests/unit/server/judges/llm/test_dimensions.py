from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.judges.llm.scoring import assessable
from judged_server.llm.rubrics.rubric import load_builtin

RUBRIC = load_builtin()["answer_quality"]
NAMES = [name for name, _ in RUBRIC.dimensions]
OWN = dict(RUBRIC.dimensions)


def test_without_contexts_the_others_carry_the_whole():
    shares = assessable(RUBRIC, OWN, has_contexts=False)
    assert set(NAMES) - set(shares) == {"accuracy", "source_attribution"}
    assert shares["relevance"] == pytest.approx(1 / 3)


def test_nothing_is_left_when_only_those_without_have_a_weight():
    assert assessable(RUBRIC, {"accuracy": 2.0}, has_contexts=False) == {}


@given(
    st.dictionaries(st.sampled_from(NAMES), st.floats(0, 1.7e308), min_size=1),
    st.booleans(),
)
def test_shares_sum_to_one_and_keep_their_proportions(weights: dict[str, float], contexts: bool):
    shares = assessable(RUBRIC, weights, has_contexts=contexts)
    kept = {name: weights.get(name, 0.0) for name in shares}
    if not shares:
        left_out = () if contexts else RUBRIC.need_contexts
        assert all(not weight or name in left_out for name, weight in weights.items())
        return
    assert math.fsum(shares.values()) == pytest.approx(1)
    heaviest = max(kept, key=kept.__getitem__)
    for name, weight in kept.items():
        assert shares[name] == pytest.approx(weight / kept[heaviest] * shares[heaviest])
