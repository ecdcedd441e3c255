"""What evaluators ask of a client that is scripted."""

import pytest
from judged import (
    AsyncClient,
    Client,
    InvalidArgument,
    JudgedRanking,
    MetricOptions,
    MetricTable,
    QueryGroup,
    Verdicts,
)
from judged.evaluation import AsyncEvaluator, Dataset, Evaluator, Query, Retrieved
from judged.values import CostEstimate, Evaluation, JudgeIdentity, MetricCounts, MetricResult

IDENTITY = JudgeIdentity("fake", "", 0.5, "fake|v1", "", "")


class FakeClient(Client):
    """Notes what it is asked."""

    def __init__(self):
        self.asked = []

    def evaluate(  # type: ignore[override]
        self, groups, metrics, judge, options, *, include_verdicts=None, **how
    ):
        self.asked.append(("evaluate", groups, judge, include_verdicts))
        return Evaluation(self.table(metrics), None, None)

    def compute_metrics(self, metrics, rankings, options, *, metadata, timeout):  # type: ignore[override]
        self.asked.append(("metrics", rankings, options, metadata))
        return self.table(metrics)

    def estimate(self, groups, judge, *, asking, timeout):  # type: ignore[override]
        self.asked.append(("estimate", groups))
        return CostEstimate(contexts=1)

    def server_info(self, *, timeout):  # type: ignore[override]
        return self

    rubrics = ("a rubric",)

    def table(self, metrics):
        result = MetricResult(metrics[0], 0.5, 1, None, None, "", [])
        return MetricTable([result], [], MetricCounts())


class FakeAsyncClient(AsyncClient):
    """The same to be awaited."""

    def __init__(self, client):
        self._client = client

    async def evaluate(self, *given, **named):
        return self._client.evaluate(*given, **named)

    async def compute_metrics(self, *given, **named):
        return self._client.compute_metrics(*given, **named)

    async def estimate(self, *given, **named):
        return self._client.estimate(*given, **named)

    async def server_info(self, **named):
        return self._client.server_info(**named)


class Recorded:
    """Has a verdict for every text: whether it is an expected one."""

    def __init__(self):
        self.asked = []

    def verdicts(self, groups, rubrics):
        self.asked.append((groups, list(rubrics)))
        relevant, offsets = [], [0]
        for group in groups:
            relevant += [text == wanted for text in group.retrieved for wanted in group.expected]
            offsets.append(len(relevant))
        n = len(relevant)
        scores = [float(yes) for yes in relevant]
        return Verdicts(relevant, scores, [1] * n, [4] * n, [0] * n, offsets, {}, IDENTITY)


class Awaited:
    """An AsyncEvaluator whose calls are awaited at once."""

    def __init__(self, client):
        self._evaluator = AsyncEvaluator(FakeAsyncClient(client))

    def __getattr__(self, name):
        import asyncio

        return lambda *given, **named: asyncio.run(getattr(self._evaluator, name)(*given, **named))


both = pytest.mark.parametrize("make", [Evaluator, Awaited])
GROUP = QueryGroup("q", ["e"], ["x", "e", "x"], "q0", ["a", "b", "a"], negatives=["x"])


@both
class TestEvaluateGroups:
    def test_verdicts_are_asked_for_where_a_metric_rests_on_them(self, make):
        client = FakeClient()
        make(client).evaluate_groups([GROUP], ["ap", "recall_exact@2"], "fake")
        make(client).evaluate_groups([GROUP], ["recall_exact@2", "f1_similarity"], "fake")
        assert client.asked == [
            ("evaluate", [GROUP], "fake", True),
            ("evaluate", [GROUP], "fake", False),
        ]

    def test_a_recorded_judge_is_asked_in_place_of_the_server(self, make):
        client, recorded = FakeClient(), Recorded()
        by_id = QueryGroup("q", (), ["?"], "q1", ["d"], ["c", "d"], metadata={"k": "v"})
        options = MetricOptions(slice_by=["k"])
        found = make(client).evaluate_groups([GROUP, by_id], ["ap"], recorded, options)
        ((groups, rubrics),) = recorded.asked
        assert [list(group.retrieved) for group in groups] == [["x", "e"], ["?"], ["x", "e"]]
        assert rubrics == ["a rubric"]
        ((_, rankings, _, metadata),) = client.asked
        # The server matches what has ids.
        assert rankings.rankings == [
            JudgedRanking("q0", 1, 2),
            JudgedRanking("q1", 0, 1, ["d"], ["c", "d"]),
        ]
        assert list(rankings.relevant) == [False, True]
        assert list(rankings.source) == [4, 4]
        assert metadata == {"q1": {"k": "v"}}
        assert found.judge == IDENTITY
        assert found.table.counts.duplicates == 1
        assert (found.table.counts.verdicts.ok, len(found.verdicts)) == (2, 2)
        assert (found.negatives.queries, found.negatives.queries_hit) == (1, 1)
        assert [(match.retrieved, match.document_id) for match in found.negatives.matches] == [
            (0, "a")
        ]

    def test_a_record_is_strict_about_repeats_where_asked_to_be(self, make):
        options = MetricOptions(strict_duplicates=True)
        with pytest.raises(InvalidArgument, match=r"groups\[0\]\.document_ids\[2\]"):
            make(FakeClient()).evaluate_groups([GROUP], ["ap"], Recorded(), options)

    def test_what_would_be_judged_is_estimated(self, make):
        client = FakeClient()
        assert make(client).estimate([GROUP], ["ap"]).contexts == 1
        assert make(client).estimate([GROUP], ["recall_exact"]).contexts == 1
        by_id = QueryGroup("q", (), ["x"], "q0", ["a"], ["a"])
        assert make(client).estimate([by_id], ["ap"]) == CostEstimate()
        asked = [[list(group.expected) for group in groups] for _, groups in client.asked]
        assert asked == [[["e"], ["x"]], [["x"]]]


@both
class TestEvaluate:
    def test_asks_for_k_documents_of_every_query(self, make):
        class Shelf:
            def retrieve(self, query, k):
                return [Retrieved(f"{query}{i}", -i, f"text {i}") for i in range(k)]

        client = FakeClient()
        dataset = Dataset([Query("q0", "x", ["e"]), Query("q1", "y", (), ["y1"])])
        make(client).evaluate(Shelf(), dataset, ["ap@3"], "fake", 2)
        (_, before, *_), (_, groups, *_) = client.asked
        assert [list(group.retrieved) for group in before] == [[], []]
        assert [list(group.retrieved) for group in groups] == [["text 0", "text 1"]] * 2
        assert [list(group.document_ids) for group in groups] == [["x0", "x1"], ["y0", "y1"]]

    def test_a_failure_is_that_of_its_query(self, make):
        async def retrieve(query, k):
            if query == "y":
                raise RuntimeError("no index")
            return [Retrieved("d", 1.0, "text")]

        client = FakeClient()
        dataset = Dataset([Query("q0", "x", ["e"]), Query("q1", "y", ["e"])])
        found = make(client).evaluate(retrieve, dataset, ["ap@1"], "fake")
        assert found.failures == {"q1": "RuntimeError: no index"}
        assert [group.query_id for group in client.asked[-1][1]] == ["q0"]


def test_an_evaluator_says_which_client_it_needs():
    with pytest.raises(InvalidArgument, match="must be an AsyncClient"):
        AsyncEvaluator(FakeClient())
