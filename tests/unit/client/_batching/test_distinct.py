"""The drop of repeated results."""

import pytest
from judged import Embeddings, InvalidArgument, QueryGroup, Span, Spans
from judged._batching.chunks import at_ranks, distinct_group, distinct_ranks


def group(**fields):
    return QueryGroup("what", **{"query_id": "q", **fields})


def test_drops_the_same_id_with_the_same_text():
    given = group(retrieved=["x", "y", "x", "x"], document_ids=["a", "a", "a", "b"])
    kept = distinct_group(given)
    assert (kept.retrieved, kept.document_ids) == (["x", "y", "x"], ["a", "a", "b"])
    assert list(distinct_ranks(given)) == [0, 1, 3]


@pytest.mark.parametrize(
    "given",
    [group(retrieved=["x", "x"]), group(), group(retrieved=["x", "x"], document_ids=["a", "b"])],
)
def test_leaves_groups_without_repeats_as_they_are(given):
    assert distinct_group(given) is given


def test_drops_vectors_with_their_ids():
    vectors = Embeddings.from_rows([[1.0]], [[1.0], [2.0], [3.0]])
    kept = distinct_group(group(document_ids=["a", "b", "a"], embeddings=vectors))
    assert kept.document_ids == ["a", "b"]
    assert kept.embeddings == Embeddings.from_rows([[1.0]], [[1.0], [2.0]])


def test_tells_spans_of_one_document_apart():
    spans = Spans([], [Span("f", 0, 1), Span("f", 1, 2), Span("f", 0, 1)])
    assert list(distinct_ranks(group(document_ids=["d"] * 3, spans=spans))) == [0, 1]


def test_takes_some_ranks():
    given = group(expected=["e"], retrieved=["x", "y", "z"], document_ids=["a", "b", "c"])
    part = at_ranks(given, range(1, 3))
    assert (part.expected, part.retrieved, part.document_ids) == (["e"], ["y", "z"], ["b", "c"])


def test_a_repeat_is_named_where_it_is_refused():
    with pytest.raises(InvalidArgument) as caught:
        distinct_ranks(
            group(retrieved=["x", "x"], document_ids=["a", "a"]), "groups[3]", strict=True
        )
    assert caught.value.field == "groups[3].document_ids[1]"
