"""Keys: equal for what is equal, different for any difference."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st
from judged_server.embedding.base import ModelCard
from judged_server.embedding.vector_cache import vector_keys

from tests.fakes.models.cards import others_than

CARD = ModelCard("m", 2, 8, "a" * 64, "b" * 64, "mean", True, "fp32", "CPU")


def _key(card=CARD, runtime="ort 1", text="text", policy="truncate"):
    return vector_keys(card, runtime, [text], policy)[0]


def test_any_part_of_the_model_changes_it():
    keys = {name: _key(card) for name, card in others_than(CARD)}
    assert len({_key(), *keys.values()}) == 1 + len(keys) == 9


def test_runtime_and_policy_change_it():
    assert len({_key(), _key(runtime="ort 2"), _key(policy="reject")}) == 3


@given(st.lists(st.text(), unique=True, max_size=20))
def test_texts_have_keys_of_their_own(texts):
    keys = vector_keys(CARD, "ort", texts, "truncate")
    assert len(set(keys)) == len(texts)
    assert {len(key) for key in keys} <= {32}
    assert keys == vector_keys(CARD, "ort", texts, "truncate")


def test_parts_do_not_run_into_each_other():
    first = dataclasses.replace(CARD, pooling="mean", precision="fp32")
    assert _key(dataclasses.replace(first, precision="CPU", execution_provider="fp32")) != _key()
    assert _key(runtime="ab", policy="c") != _key(runtime="a", policy="bc")


def test_the_key_is_the_same_in_every_version_and_on_every_machine():
    assert _key().hex() == ("4fbe18e938dd67df60060672ed106b07c6e7f20169b3a5aef044f827e80a6394")
