import pytest
from judged import Embeddings, InvalidArgument, Judge, QueryGroup, Span, Spans
from judged.evaluation._steps.families import split_metrics


def test_metrics_are_split_by_judge_the_callers_first():
    parts = split_metrics(
        ["f1_similarity@3", "ap", "hybrid_log_rank_exact(gamma=2)@10", "mrr_exact", "f1_exact"]
    )
    assert [(part.family, part.names, part.places) for part in parts] == [
        ("", ["ap", "mrr_exact"], [1, 3]),
        ("exact", ["hybrid_log_rank(gamma=2)@10", "f1"], [2, 4]),
        ("similarity", ["f1@3"], [0]),
    ]


def test_no_metric_is_left_to_the_server():
    (part,) = split_metrics([])
    assert (part.family, part.names) == ("", [])


def test_an_error_speaks_of_the_metrics_asked_for():
    part = split_metrics(["ap", "f1_exact", "mrr", "f1_exact"])[1]
    error = InvalidArgument.of_field("metrics[1]", "is f1 again, as in metrics[0]")
    part.original(error)
    assert error.field == "metrics[3]"
    assert error.message.endswith("as in metrics[1]")


class TestGroups:
    vectors = Embeddings.from_rows([[1.0]], [[1.0]])
    spans = Spans([Span("f", 0, 1)], [Span("f", 0, 1)])

    def test_vectors_are_for_the_family_of_vectors(self):
        (part,) = split_metrics(["f1_similarity"])
        group = QueryGroup(embeddings=self.vectors)
        assert part.groups([group]) == [group]
        assert part.judge([group]) == Judge("semantic", "", 0.8, {"model": "caller"})
        assert part.judge([QueryGroup("", ["a"], ["b"])]) == Judge("semantic", "", 0.8)

    @pytest.mark.parametrize("name", ["f1_exact", "f1_similarity"])
    def test_texts_beside_spans_are_judged(self, name):
        (part,) = split_metrics([name])
        group = QueryGroup("", ["a"], ["b"], spans=self.spans)
        assert part.groups([group]) == [QueryGroup("", ["a"], ["b"])]
        with pytest.raises(InvalidArgument) as caught:
            part.groups([QueryGroup(), QueryGroup(spans=self.spans)])
        assert caught.value.field == "metrics[0]"
        assert "groups[1] brings spans only" in caught.value.message
