from __future__ import annotations

import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged_server.settings import SettingsError
from judged_server.tenants import parse_tenants

SECRET = "00" * 32
DATA = Path(__file__).parents[3] / "data"
GOOD = """
[tenants.search]
judges = ["token_overlap", "llm"]
models = []
uris = ["spiffe://example.org/search"]

[tenants.qa]
cache = "shared:research"

[tenants.more-qa]
cache = "shared:research"
"""


def parse(text: str):
    return parse_tenants(tomllib.loads(text), "t.toml", SECRET)


def test_what_a_file_says():
    tenants = parse(GOOD)
    search = tenants.by_name["search"]
    assert search.allowed.judges == ("token_overlap", "llm")
    assert (search.allowed.rubrics, search.allowed.models) == (None, ())
    assert tenants.by_uri == {"spiffe://example.org/search": "search"}


def test_domains_are_private_unless_shared_by_name():
    search, qa, more = (parse(GOOD).by_name[name] for name in ("search", "qa", "more-qa"))
    assert qa.domain_key == more.domain_key != search.domain_key
    assert qa.own_key(b"k") == more.own_key(b"k") != search.own_key(b"k")
    assert search.own_keys([b"k"]) == [search.own_key(b"k")]
    # A tenant can't be named so that its private domain is a shared one.
    assert parse("[tenants.research]").by_name["research"].domain_key != qa.domain_key


def test_weights_are_read_against_the_largest():
    by_name = parse("[tenants.a]\n[tenants.b]\nweight = 3\n[tenants.c]\nweight = 6").by_name
    assert {name: tenant.weight for name, tenant in by_name.items()} == {
        "a": pytest.approx(1 / 6),
        "b": 0.5,
        "c": 1.0,
    }
    assert {tenant.weight for tenant in parse(GOOD).by_name.values()} == {1.0}


def test_a_secret_is_in_no_repr():
    assert "domain_key" not in repr(parse(GOOD))


REFUSED = tomllib.loads((DATA / "refused_tenants.toml").read_text())["refused"]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["says"][:40])
def test_what_it_can_not_say(case: dict[str, str]):
    with pytest.raises(SettingsError, match=case["says"]):
        parse(case["text"])


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=4,
)
_KEYS = st.sampled_from(["tenants", "judges", "models", "cache", "uris", "a"])


_OF_TENANTS = st.dictionaries(_KEYS, _VALUES, max_size=4)


@settings(max_examples=40)
@given(st.dictionaries(_KEYS, st.dictionaries(_KEYS, _OF_TENANTS, max_size=3), max_size=3))
def test_any_document_is_read_or_refused(content: dict[str, object]):
    with suppress(SettingsError):
        parse_tenants(content, "t.toml", SECRET)
