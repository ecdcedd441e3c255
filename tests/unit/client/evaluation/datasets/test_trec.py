"""TREC judgements and runs."""

from array import array
from decimal import Decimal

import pytest
from judged import ScoredDocuments, TrecRankings
from judged.evaluation import Dataset, FileError, Query, Results, TrecQrels, TrecRun
from judged.evaluation.datasets.query import join_warnings
from judged.evaluation.evaluator import _given
from judged.values.agreement import ranking_warnings


def write(tmp_path, text):
    path = tmp_path / "file.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


class TestTrecQrels:
    def test_reads_grades_by_topic(self, tmp_path):
        path = write(tmp_path, "301 0 d1 1\n301\t0\td2\t-2\n\n302 Q0 \xa0x 0\r\n")
        assert TrecQrels.from_file(path).grades == {"301": {"d1": 1, "d2": -2}, "302": {"\xa0x": 0}}

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            ("301 0 d1", "has 3 columns instead of 4: topic 0 document grade"),
            ("301 0 d1 1.0", "the grade '1.0' is not a whole number"),
            ("301 0 d1 \u0663", "the grade '\u0663' is not a whole number"),
            ("301 0 d1 2147483648", "the grade '2147483648' is not a whole number"),
            ("301 0 d0 2", "judges 'd0' for topic '301' as 2, and an earlier line as 1"),
        ],
    )
    def test_names_the_line_that_is_wrong(self, tmp_path, line, problem):
        raw = line if isinstance(line, bytes) else line.encode()
        path = write(tmp_path, b"301 0 d0 1\n" + raw)
        with pytest.raises(FileError) as caught:
            TrecQrels.from_file(path)
        assert str(caught.value).startswith(f"{path}:2: {problem}")


class TestTrecRun:
    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            ("301 Q0 d1 1 0.5", "has 5 columns instead of 6: topic Q0 document rank score tag"),
            ("301 Q0 d1 1 high t", "the score 'high' is not a finite number"),
            ("301 Q0 d1 1 nan t", "the score 'nan' is not a finite number"),
            ("301 Q0 d1 1 \u0663 t", "the score '\u0663' is not a finite number"),
            ("301 Q0 d1 1 4e38 t", "the score '4e38' is not a finite number in single precision"),
        ],
    )
    def test_names_the_line_that_is_wrong(self, tmp_path, line, problem):
        path = write(tmp_path, f"301 Q0 d0 1 0.5 t\n\n{line}\n")
        with pytest.raises(FileError) as caught:
            TrecRun.from_file(path)
        assert str(caught.value).startswith(f"{path}:3: {problem}")


def run_of(*topics):
    """Return the text of a run: of each topic the (rank, score) of its documents, in order."""
    return "".join(
        f"{topic} Q0 d{place} {rank} {score} x\n"
        for topic, documents in enumerate(topics, 1)
        for place, (rank, score) in enumerate(documents)
    )


class TestWarningsOfARun:
    @pytest.mark.parametrize(
        "topics",
        [
            [[(1, 0.10), (2, 0.55), (3, 0.90)], [(1, 0.05), (2, 0.60)]],  # distances
            [[(0, -3), (1, -2), (2, -1)], [(0, -9), (1, -1)]],  # ranks from 0, scores below it
            [[(2, 0.9), (1, 0.2)], [(2, 8), (1, 7)]],  # lines in another order than the ranks
            [[(1, 3), (2, 2), (3, 9)], [(1, 1), (2, 5)]],  # a ranking that was fused, old scores
        ],
    )
    def test_scores_that_rise_with_rank(self, tmp_path, topics):
        (said,) = TrecRun.from_file(write(tmp_path, run_of(*topics))).warnings
        assert said.startswith("in 2 of 2 topics the scores rank otherwise than the rank column")
        assert said.endswith("for example in topic '1'")

    @pytest.mark.parametrize("score", ["0", "1", "0.5", "-1e9"])
    def test_scores_that_all_tie(self, tmp_path, score):
        topics = [[(1, 3), (2, 2)], [(1, score), (2, score), (3, score)]]
        (said,) = TrecRun.from_file(write(tmp_path, run_of(*topics))).warnings
        assert said.startswith("in 1 of 2 topics all scores tie")
        assert said.endswith("for example in topic '2'")

    @pytest.mark.parametrize(
        "scores",
        [
            [1999999999, 1999999998, 1999999997],
            [1795752002, 1795752001, 1795700000],  # time stamps: two of the three tie
            [16777217, 16777216, 3],
            ["0.30000000000000004", "0.3", "0.1"],
        ],
    )
    def test_scores_that_single_precision_does_not_tell_apart(self, tmp_path, scores):
        text = run_of(list(enumerate(scores, 1)))
        (said,) = TrecRun.from_file(write(tmp_path, text)).warnings
        assert said.startswith("in 1 of 1 topic scores differ, but not in single")

    def test_a_run_in_memory_has_them_too(self):
        columns = ([2e9, 2e9 - 1], array("d", [1, 1]), iter([1, 1]))
        documents = (ScoredDocuments(["a", "b"], column) for column in columns)
        all_runs = [*documents, {"a": Decimal(1), "b": Decimal(1)}, ["a", "b"], {}]
        run = {str(n): ranked for n, ranked in enumerate(all_runs)}
        rankings = TrecRankings({n: {"a": 1} for n in run}, run)
        rounded, tied = sorted(ranking_warnings(rankings, complete=False))
        assert "in 1 of 6 topics scores differ" in rounded
        assert "in 3 of 6 topics all scores tie" in tied

    @pytest.mark.parametrize(
        "topics",
        [
            [[(1, 3), (2, 2), (3, 2), (4, 1)]],  # a tie, as rankings have them
            [[(0, 1), (0, 2), (0, 3)]],  # BEIR's own runs have no ranks
            [[("-", 1), ("-", 2)]],
            [[(1, 3)]],
            [[(3, 1), (2, 2), (1, 3)]],
            # One pair of many that a double tells apart and a float does not.
            [[(n, 30 - n) for n in range(1, 20)] + [(20, 1.00000001), (21, 1)]],
        ],
    )
    def test_says_nothing_where_scores_rank(self, tmp_path, topics):
        assert TrecRun.from_file(write(tmp_path, run_of(*topics))).warnings == ()

    def test_results_of_a_run_have_them_and_so_has_an_evaluation(self, tmp_path):
        path = write(tmp_path, run_of([(1, 0.1), (2, 0.9)]))
        results = Results.from_trec_run(path)
        assert [said[:39] for said in results.warnings] == [
            "in 1 of 1 topic the scores rank otherwi"
        ]
        dataset = Dataset([Query("1", "q", relevant_document_ids=["d0"])])
        assert not list(join_warnings(dataset.queries, results))
        cut = _given(results, 1)
        assert cut.warnings == results.warnings
