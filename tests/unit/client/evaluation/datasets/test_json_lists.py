"""Objects of lists, read item by item."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged._files import parse_json
from judged.evaluation.datasets.joined_files import ReadWhole, read_lists

texts = st.text(st.characters(exclude_categories=["Cs"]))
scalars = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(-1e9, 1e9) | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=6
)
items = st.lists(st.dictionaries(texts, values))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("lists") / "object.json"


@given(
    whole=st.dictionaries(texts, items | scalars | st.dictionaries(texts, values), min_size=1),
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
    block=st.integers(1, 40),
    packed=st.booleans(),
    mark=st.sampled_from(["", "\ufeff"]),
)
def test_yields_what_the_whole_holds(path, whole, indent, ascii_only, block, packed, mark):
    raw = (mark + json.dumps(whole, indent=indent, ensure_ascii=ascii_only)).encode()
    path.write_bytes(gzip.compress(raw) if packed else raw)
    wanted: list[tuple[str, object]] = []
    for name, value in whole.items():
        wanted += [(name, v) for v in value] if isinstance(value, list) else [(name, None)]
    assert list(read_lists(path, block)) == wanted


REFUSED = [
    *(b"", b"[]", b"{}", b'{"a": [{}]', b'{"a": [{}]} {}', b'{"a": [{},]}', b'{"a": [1]}'),
    *(b'{"a": [{}], "a": []}', b'{"a": [{"b": 1, "b": 2}]}', b'{"a": [{"b": NaN}]}'),
    *(b'{"a": [{"b": 1e999}]}', b'{"a": 1e999}', b'{"a": [{"b": "\\ud800"}]}', b'{"a": [{} {}]}'),
    *(b'{"a": ["\xff"]}', b'{"a" [{}]}', b"{1: [{}]}", b'{"a": [{"b": ' + b"[" * 10**5),
]


@pytest.mark.parametrize("raw", REFUSED)
@pytest.mark.parametrize("block", [3, 1000])
def test_what_is_no_object_of_lists_is_to_be_read_whole(tmp_path, raw, block):
    path = tmp_path / "a.json"
    path.write_bytes(raw)
    with pytest.raises(ReadWhole):
        list(read_lists(path, block))


@given(st.text('[]{},:"\\ud80adefA1-.e+ \n\ttrunlsN', max_size=30))
def test_takes_nothing_that_the_whole_reading_refuses(path, text):
    path.write_text('{"a": [' + text, encoding="utf-8")
    try:
        list(read_lists(path, 4))
    except ReadWhole:
        return
    assert isinstance(parse_json(path.read_bytes(), "name", None), dict)
