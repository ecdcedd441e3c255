"""The steps of an evaluation, against a client that is scripted."""

from types import SimpleNamespace

import pytest
from judged import InvalidArgument, JudgedRanking, MetricOptions, MetricTable, QueryGroup, Verdicts
from judged.evaluation import Dataset, Evaluator, Query, Retrieved
from judged.types import JudgedChunk, JudgeIdentity, MetricCounts, MetricResult

IDENTITY = JudgeIdentity("fake", "", 0.5, "fake|v1", "", "")


class FakeClient:
    def __init__(self):
        self.calls = []
        self.sources = []
        self.details = []
        self._budget = None

    def server_info(self, *, timeout):
        return SimpleNamespace(limits=SimpleNamespace(max_contexts=1000), rubrics=["a rubric"])

    def compute_metrics(self, metrics, rankings, options, *, timeout):
        self.calls.append(("metrics", list(rankings.rankings), list(rankings.relevant)))
        self.sources.append(rankings.source)
        if "nope" in metrics:
            raise InvalidArgument("metrics[0]: no metric is called 'nope'")
        counts = MetricCounts(queries=len(rankings.rankings), duplicates=0)
        result = MetricResult(metrics[0], 0.5, 1, None, None, "", [])
        return MetricTable([result], [], counts)

    def judge_stream(self, chunks, judge, *, include_details, asking, timeout, request_id):
        self.details.append(include_details)
        for chunk_id, groups in enumerate(chunks):
            self.calls.append(("judge", judge, [list(group.retrieved) for group in groups]))
            n = sum(group.n_expected * group.n_retrieved for group in groups)
            columns = ([True] * n, [1.0] * n, [1] * n, [1] * n, [0] * n)
            yield JudgedChunk(chunk_id, Verdicts(*columns, [], {}, IDENTITY), None, n, n)


class TestEvaluate:
    def test_checks_the_metrics_then_judges_then_measures(self):
        client = FakeClient()
        group = QueryGroup("q", ["e"], ["x", "y", "x"], "q0", ["a", "b", "a"])
        found = Evaluator(client).evaluate([group], ["ap"], "fake")
        assert client.calls == [
            ("metrics", [JudgedRanking("", 1, 0)], []),
            ("judge", "fake", [["x", "y"]]),
            ("metrics", [JudgedRanking("q0", 1, 2)], [True, True]),
        ]
        assert found.judge == IDENTITY
        assert found.table.counts.duplicates == 1
        assert found.table.counts.verdicts.ok == 2
        assert len(found.verdicts) == 2

    def test_judges_nothing_for_a_metric_that_is_refused(self):
        client = FakeClient()
        with pytest.raises(InvalidArgument, match="nope"):
            Evaluator(client).evaluate([QueryGroup("q", ["e"], ["x"], "q0")], ["nope"])
        assert len(client.calls) == 1

    def test_refuses_repeats_when_strict(self):
        group = QueryGroup("q", ["e"], ["x", "x"], "q0", ["a", "a"])
        with pytest.raises(InvalidArgument, match=r"groups\[0\]\.document_ids\[1\]"):
            Evaluator(FakeClient()).evaluate(
                [group], ["ap"], "fake", MetricOptions(strict_duplicates=True)
            )

    def test_a_recorded_judge_is_asked_in_place_of_the_client(self):
        client = FakeClient()
        asked = []

        class Recorded:
            def verdicts(self, groups, rubrics):
                asked.append((groups, rubrics))
                columns = [True, False], [1.0, 0.0], [1, 1], [4, 4], [0, 0]
                return Verdicts(*columns, [0, 2], {}, IDENTITY)

        group = QueryGroup("q", ["e"], ["x", "y"], "q0", ["a", "b"])
        found = Evaluator(client).evaluate([group], ["ap"], Recorded())
        assert asked == [([group], ["a rubric"])]
        assert [call[0] for call in client.calls] == ["metrics", "metrics"]
        assert client.sources == [(), [4, 4]]
        assert found.judge == IDENTITY

    def test_the_families_have_no_recorded_judge(self):
        class Recorded:
            def verdicts(self, groups, rubrics):
                raise AssertionError

        group = QueryGroup("q", ["e"], ["x"], "q0")
        with pytest.raises(InvalidArgument, match=r"metrics\[1\]: metrics of the family exact ask"):
            Evaluator(FakeClient()).evaluate([group], ["ap", "recall_exact"], Recorded())

    def test_tells_verdicts_with_details_before_it_measures(self):
        client = FakeClient()
        told = []

        def record(groups, verdicts):
            told.append((groups, len(verdicts), [call[0] for call in client.calls]))

        group = QueryGroup("q", ["e"], ["x"], "q0", negatives=["n"])
        Evaluator(client).evaluate([group], ["ap"], "fake", record=record)
        without = QueryGroup("q", ["e"], ["x"], "q0")
        assert told == [([without, QueryGroup("q", ["n"], ["x"])], 2, ["metrics", "judge"])]
        assert client.details == [True]

    def test_names_no_judge_when_all_is_matched_by_id(self):
        found = Evaluator(FakeClient()).evaluate(
            [QueryGroup("q", (), ["x"], "q0", ["a"], ["a"])], ["ap"], "fake"
        )
        assert found.judge is None
        assert found.verdicts is None


class TestEvaluateRetriever:
    def test_asks_for_k_documents_of_every_query(self):
        class Shelf:
            def retrieve(self, query, k):
                return [Retrieved(f"{query}{i}", -i, f"text {i}") for i in range(k)]

        client = FakeClient()
        dataset = Dataset([Query("q0", "x", ["e"]), Query("q1", "y", (), ["y1"])])
        Evaluator(client).evaluate_retriever(Shelf(), dataset, ["ap"], 2, "fake")
        assert client.calls[1] == ("judge", "fake", [["text 0", "text 1"]])
        assert client.calls[2] == (
            "metrics",
            [JudgedRanking("q0", 1, 2), JudgedRanking("q1", 1, 2)],
            [True, True, False, True],
        )
