from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from judged_server.domain import JudgeIdentity

parts = st.lists(st.tuples(st.text(max_size=4), st.text(max_size=4)), max_size=3)


@given(parts, parts)
def test_different_parts_never_share_a_key(first, second):
    a, b = (JudgeIdentity.build("k", "p", 0.5, given_parts, 1) for given_parts in (first, second))
    assert (a.scoring_key == b.scoring_key) == (first == second)


def test_fields_do_not_run_into_each_other():
    a = JudgeIdentity.build("k", "", 0.5, [("ab", "c")], 1)
    b = JudgeIdentity.build("k", "", 0.5, [("a", "bc")], 1)
    assert a.scoring_key != b.scoring_key


def test_the_signature_is_one_stable_line():
    identity = JudgeIdentity.build("semantic", "", 0.75, [("model", "m")], 1, [("sha", "0" * 64)])
    assert identity.signature == "semantic|model:m|min_score:0.75|v1"
    assert len(identity.fingerprint) == len(identity.scoring_key) == 64
