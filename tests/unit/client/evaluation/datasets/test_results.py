"""Results of queries, from a file or from a retriever."""

import pytest
from judged.evaluation import FileError, Results, Retrieved


def write(tmp_path, text):
    path = tmp_path / "results.jsonl"
    path.write_text(text, encoding="utf-8")
    return path


class TestFromJsonl:
    def test_keeps_the_given_order(self, tmp_path):
        path = write(
            tmp_path,
            '{"query_id": "q1", "results": [{"doc_id": "a", "score": 1, "text": "x"}, {"id": 7}]}\n'
            '{"id": 2, "results": [], "more": true}\n',
        )
        results = Results.from_jsonl(path)
        assert dict(results) == {
            "q1": [Retrieved("a", 1.0, "x"), Retrieved("7", None, None)],
            "2": [],
        }
        assert len(results) == 2
        assert results.out_of_order == []

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            ("[]", "must be an object"),
            ("{}", "has no 'query_id'"),
            ('{"query_id": "q2"}', 'has no "results"; write [] for a query that found nothing'),
            (
                '{"query_id": "q2", "results": [{}, {"text": 3}]}',
                "results[1] has 'text' that is not text but a number",
            ),
            (
                '{"query_id": "q2", "results": [{"doc_id": true}]}',
                "results[0] has 'doc_id' that is neither text nor a whole number",
            ),
            ('{"query_id": "q1", "results": []}', "query 'q1' was on line 1 already"),
        ],
    )
    def test_names_the_line_that_is_wrong(self, tmp_path, line, problem):
        path = write(tmp_path, f'{{"query_id": "q1", "results": []}}\n\n{line}\n')
        with pytest.raises(FileError) as caught:
            Results.from_jsonl(path)
        assert str(caught.value).startswith(f"{path}:3: {problem}")


class TestOutOfOrder:
    @pytest.mark.parametrize(
        ("scores", "rises"),
        [
            ([], False),
            ([3, 2, 2, 1], False),
            ([3, None, 1], False),
            ([1, 2], True),
            ([3, None, 4], True),
        ],
    )
    def test_names_queries_whose_scores_rise_with_rank(self, scores, rises):
        ranked = [Retrieved(str(rank), score) for rank, score in enumerate(scores)]
        assert Results.of({"q": ranked}).out_of_order == (["q"] if rises else [])


class TestTrecRun:
    def test_scores_that_are_one_in_single_precision_tie_and_ids_descend(self, tmp_path):
        path = tmp_path / "r.run"
        path.write_text(
            "q Q0 a 1 0.99999999 t\nq Q0 b 2 0.99999998 t\nq Q0 c 3 0.9999 t\n"
            "q Q0 d 4 3.4028234663852886e38 t\n"
        )
        found = Results.from_trec_run(path)["q"]
        assert [result.doc_id for result in found] == ["d", "b", "a", "c"]
        assert found[1:3] == [Retrieved("b", 0.99999998), Retrieved("a", 0.99999999)]
