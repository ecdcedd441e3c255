"""Groups of a request: what any bytes, texts, files and metadata become."""

from __future__ import annotations

import contextlib

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from judged.v1 import groups_pb2
from judged_server import errors
from judged_server.api.convert.judging import read_groups

from tests.fakes.limits import limits

LIMITS = limits(max_contexts=1000, max_text_bytes=100, max_groups=50, max_embedding_dimensions=16)


def read(**fields):
    return read_groups([groups_pb2.QueryGroup(**fields)], LIMITS)[0]


@given(st.text(max_size=60))
def test_a_text_fits_by_its_utf8_bytes(text: str):
    if len(text.encode()) <= LIMITS.max_text_bytes:
        assert read(expected=[text]).expected == [text]
    else:
        with pytest.raises(errors.LimitExceeded, match=r"groups\[0\]\.expected\[0\]"):
            read(expected=[text])


@given(st.binary(max_size=300))
def test_no_bytes_make_the_reader_fail_in_another_way(raw: bytes):
    message = groups_pb2.QueryGroup()
    with contextlib.suppress(DecodeError, errors.InvalidField):
        message.ParseFromString(raw)
        group = read_groups([message], LIMITS)[0]
        assert group.n_contexts == group.n_expected * group.n_retrieved


def span(file="f", start=0, end=1):
    return groups_pb2.Span(file=file, start=start, end=end)


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abcd")))
def test_equal_files_have_equal_numbers_on_both_sides(expected, retrieved):
    expected, retrieved = expected[:30], retrieved[:30]
    message = groups_pb2.GroupSpans(expected=map(span, expected), retrieved=map(span, retrieved))
    spans = read(spans=message).spans
    numbers = [*spans.expected.files.tolist(), *spans.retrieved.files.tolist()]
    named = dict(zip(numbers, expected + retrieved, strict=True))
    assert [named[number] for number in numbers] == expected + retrieved
    assert len(named) == len(set(expected + retrieved))


def test_positions_take_all_of_64_bits():
    top = 2**64 - 1
    spans = read(spans=groups_pb2.GroupSpans(expected=[span(start=top - 1, end=top)])).spans
    assert (int(spans.expected.starts[0]), int(spans.expected.ends[0])) == (top - 1, top)


@given(st.text(max_size=1100), st.text(max_size=1100))
def test_metadata_is_bounded_by_the_bytes_of_key_and_value(key, value):
    if len(key.encode()) <= 1024 and len(value.encode()) <= 1024:
        assert read(metadata={key: value}).metadata == {key: value}
    else:
        with pytest.raises(errors.LimitExceeded):
            read(metadata={key: value})
