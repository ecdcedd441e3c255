from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.v1 import groups_pb2
from judged_server.api.convert.golden import read_metadata
from judged_server.api.convert.judging import read_groups, refuse_evaluation
from judged_server.errors import InvalidField, LimitExceeded

from tests.fakes.limits import limits

LIMITS = limits(max_contexts=1000, max_text_bytes=100, max_embedding_dimensions=16)


def span(file="f", start=0, end=1):
    return groups_pb2.Span(file=file, start=start, end=end)


def read(**fields):
    return read_groups([groups_pb2.QueryGroup(**fields)], LIMITS)[0]


def refused(path, **fields):
    with pytest.raises(InvalidField) as caught:
        read(**fields)
    assert caught.value.field == path
    return caught.value


class TestSpans:
    @given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abcd")))
    def test_equal_files_have_equal_numbers_on_both_sides(self, expected, retrieved):
        expected, retrieved = expected[:30], retrieved[:30]
        message = groups_pb2.GroupSpans(
            expected=[span(file) for file in expected], retrieved=[span(file) for file in retrieved]
        )
        spans = read(spans=message).spans
        numbers = [*spans.expected.files.tolist(), *spans.retrieved.files.tolist()]
        named = dict(zip(numbers, expected + retrieved, strict=True))
        assert [named[number] for number in numbers] == expected + retrieved
        assert len(named) == len(set(expected + retrieved))

    def test_positions_take_all_of_64_bits(self):
        top = 2**64 - 1
        spans = read(spans=groups_pb2.GroupSpans(expected=[span(start=top - 1, end=top)])).spans
        assert (int(spans.expected.starts[0]), int(spans.expected.ends[0])) == (top - 1, top)

    def test_an_end_must_lie_above_its_start(self):
        bad = groups_pb2.GroupSpans(expected=[span()], retrieved=[span(), span(start=3, end=3)])
        error = refused("groups[0].spans.retrieved[1].end", spans=bad)
        assert "above start, which is 3" in error.rule

    def test_texts_must_be_as_many(self):
        spans = groups_pb2.GroupSpans(expected=[span()], retrieved=[span()])
        assert read(spans=spans, expected=["a"]).n_expected == 1
        refused("groups[0].spans.expected", spans=spans, expected=["a", "b"])

    def test_a_file_name_keeps_the_limit_of_texts(self):
        refused(
            "groups[0].spans.expected[0].file",
            spans=groups_pb2.GroupSpans(expected=[span("f" * 101)]),
        )

    def test_not_both_spans_and_vectors(self):
        refused(
            "groups[0].spans",
            spans=groups_pb2.GroupSpans(),
            embeddings=groups_pb2.GroupEmbeddings(dimensions=1),
        )


class TestNegatives:
    def test_are_read_and_count_as_contexts(self):
        assert read(negatives=["n", "m"], retrieved=["r"]).negatives == ["n", "m"]
        with pytest.raises(LimitExceeded):
            read(negatives=["n"] * 101, retrieved=["r"] * 10)

    @pytest.mark.parametrize(
        "brings",
        [
            {"spans": groups_pb2.GroupSpans()},
            {"embeddings": groups_pb2.GroupEmbeddings(dimensions=1)},
        ],
    )
    def test_are_refused_beside_what_is_no_text(self, brings):
        refused("groups[0].negatives", negatives=["n"], **brings)

    def test_calls_that_only_judge_refuse_them(self):
        with pytest.raises(InvalidField, match=r"only Evaluate") as caught:
            refuse_evaluation([read(negatives=["n"])], "chunk.groups")
        assert caught.value.field == "chunk.groups[0].negatives"


class TestMetadata:
    def test_is_read(self):
        assert read(metadata={"lang": "de"}).metadata == {"lang": "de"}

    def test_has_limits(self):
        assert len(read(metadata={str(i): "" for i in range(64)}).metadata) == 64
        refused("groups[0].metadata", metadata={str(i): "" for i in range(65)})
        refused('groups[0].metadata["k"]', metadata={"a": "", "k": "v" * 1025})

    @given(st.text(max_size=1100), st.text(max_size=1100))
    def test_counts_bytes_of_key_and_value(self, key, value):
        fits = len(key.encode()) <= 1024 and len(value.encode()) <= 1024
        if fits:
            assert read_metadata({key: value}, "m") == {key: value}
        else:
            with pytest.raises(LimitExceeded):
                read_metadata({key: value}, "m")
