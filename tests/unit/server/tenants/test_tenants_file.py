from __future__ import annotations

import tomllib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.settings import SettingsError
from judged_server.tenants.tenants_file import parse_tenants

SECRET = "00" * 32
GOOD = """
[tenants.search]
judges = ["token_overlap", "llm"]
models = []
uris = ["spiffe://example.org/search"]
sockets = [{ path = "/run/judged/search.sock", group = "search", mode = "0660" }]

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
    (socket,) = tenants.sockets["search"]
    assert (socket.path, socket.group, socket.mode) == ("/run/judged/search.sock", "search", "0660")


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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tenants.Search]", r"t.toml: tenants: a name must be small letters"),
        ("tenants = 1", r"t.toml: tenants must be a table"),
        ("[tenants.a]\nweight = 0", r"tenants: a: weight must be greater than or equal to 1"),
        (
            "[tenants.a]\ntokens_per_second = 0",
            r"tokens_per_second must be greater than",
        ),
        ("[tenant.search]", r"t.toml: tenant is not known here; did you mean tenants\?"),
        ("[tenants.a]\njudges = []", r"t.toml: tenants: a: judges must have at least 1 item"),
        ("[tenants.a]\njudges = 'exact'", r"t.toml: tenants: a: judges must be an array"),
        ("[tenants.a]\njudge = []", r"tenants: a: judge is not known here; did you mean judges\?"),
        ("[tenants.a]\ncache = 'public'", r'a: cache must be "private", or "shared:NAME"'),
        ("[tenants.a]\nsockets = [{}]", r"a: sockets\[0\]: path is missing"),
        ("[tenants.a]\nsockets = [{path='/s', mode='rw'}]", r"sockets\[0\]: mode must be perm"),
        (f"[tenants.a]\nsockets = [{{path='/{'s' * 200}'}}]", r"sockets\[0\]: path the path"),
        ("[tenants.a]\nsockets = [{path='/s'}, {path='/s'}]", r"\[1\]: path is that of another"),
        ("[tenants.a]\nuris=['x:y']\n[tenants.b]\nuris=['x:y']", r"b: uris has one of a too"),
    ],
)
def test_what_it_can_not_say(text: str, said: str):
    with pytest.raises(SettingsError, match=said):
        parse(text)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=4,
)
_KEYS = st.sampled_from(["tenants", "judges", "models", "cache", "uris", "sockets", "path", "a"])


_OF_TENANTS = st.dictionaries(_KEYS, _VALUES, max_size=4)


@given(st.dictionaries(_KEYS, st.dictionaries(_KEYS, _OF_TENANTS, max_size=3), max_size=3))
def test_any_document_is_read_or_refused(content: dict[str, object]):
    with suppress(SettingsError):
        parse_tenants(content, "t.toml", SECRET)
