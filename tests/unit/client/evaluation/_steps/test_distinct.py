"""The checks of groups, and the drop of repeated results."""

import pytest
from judged import Embeddings, InvalidArgument, QueryGroup
from judged.evaluation._steps.distinct import distinct_groups


def group(**fields):
    return QueryGroup("what", **{"query_id": "q", **fields})


class TestDistinctGroups:
    def test_drops_the_same_id_with_the_same_text(self):
        given = group(
            expected=["e"], retrieved=["x", "y", "x", "x"], document_ids=["a", "a", "a", "b"]
        )
        (kept,) = distinct_groups([given], strict=False)
        assert kept.retrieved == ["x", "y", "x"]
        assert kept.document_ids == ["a", "a", "b"]

    def test_leaves_groups_without_repeats_as_they_are(self):
        given = [group(retrieved=["x", "x"]), group(query_id="r", document_ids=(), retrieved=())]
        assert all(a is b for a, b in zip(distinct_groups(given, strict=True), given, strict=True))

    def test_drops_vectors_with_their_ids(self):
        vectors = Embeddings.from_rows([[1.0]], [[1.0], [2.0], [3.0]])
        given = group(document_ids=["a", "b", "a"], embeddings=vectors)
        (kept,) = distinct_groups([given], strict=False)
        assert kept.document_ids == ["a", "b"]
        assert kept.embeddings == Embeddings.from_rows([[1.0]], [[1.0], [2.0]])

    @pytest.mark.parametrize(
        ("groups", "field", "rule"),
        [
            ([], "groups", "must hold at least one group"),
            ([group(query_id="")], "groups[0].query_id", "must be set"),
            ([group(), group()], "groups[1].query_id", "is that of groups[0].query_id again"),
            ([group(expected="text")], "groups[0].expected", "must be a list of texts"),
            (
                [group(retrieved=["x"], document_ids=["a", "b"])],
                "groups[0].document_ids",
                "2 ids for 1 retrieved; give one each or none",
            ),
            (
                [group(expected=["e"], relevant_document_ids=["a"])],
                "groups[0].expected",
                "must be empty when relevant_document_ids is set",
            ),
            (
                [group(retrieved=["x", "x"], document_ids=["a", "a"])],
                "groups[0].document_ids[1]",
                "has the id and text of entry 0",
            ),
        ],
    )
    def test_names_the_field_that_breaks_a_rule(self, groups, field, rule):
        with pytest.raises(InvalidArgument) as caught:
            distinct_groups(groups, strict=True)
        assert caught.value.field == field
        assert caught.value.message.startswith(f"{field}: {rule}")
