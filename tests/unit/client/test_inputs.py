"""Ids that are no texts, iterables that are read once, and values of the wrong type."""

from __future__ import annotations

from array import array
from numbers import Integral
from typing import Any, cast

import pytest
from judged import (
    AnswerItem,
    Asking,
    AsyncClient,
    Client,
    CompareOptions,
    Context,
    DocumentRankings,
    Embeddings,
    GainRanking,
    GainRankings,
    HumanLabels,
    InvalidArgument,
    Judge,
    JudgedRanking,
    JudgedRankings,
    LabelledScores,
    MetricOptions,
    PerQueryValues,
    QueryGroup,
    ScoredDocuments,
    Span,
    Spans,
    TrecRankings,
)
from judged._batching.judging import fold
from judged._batching.parts import metric_parts
from judged._convert import write_group
from judged._inputs import need_by_ids
from judged.errors import WrongType
from judged.evaluation import (
    Dataset,
    Document,
    Evaluator,
    Query,
    Question,
    Results,
    Retrieved,
    evaluate_answers,
)
from judged.values import StagedLabels


def written(metrics, relevance, options, metadata=None, human_values=None):
    """Return the one request for metrics."""
    (request,) = metric_parts(metrics, relevance, options, metadata or {}, human_values)
    return request


@Integral.register
class Whole:
    """A whole number that is no int, as NumPy's are."""

    def __init__(self, value):
        self.value = value

    def __int__(self):
        return self.value


class Text(str):
    __slots__ = ()


NUMBERS = [3, Whole(3), "3", Text("3")]

NOTHING = TrecRankings({}, {})


def once(*values):
    return (value for value in values)


class TestIds:
    @pytest.mark.parametrize("number", NUMBERS)
    def test_whole_numbers_are_their_texts_wherever_ids_enter(self, number):
        query = Query(number, "x", relevant_document_ids=[number])
        dataset = Dataset([query], {number: Document(number, "text")})
        (group,) = dataset.to_groups({number: [Retrieved(number)]})
        assert (group.query_id, group.retrieved) == ("3", ["text"])
        assert group.document_ids == group.relevant_document_ids == ["3"]
        assert QueryGroup("x", (), ["t"], number, [number], [number]) == group.__class__(
            "x", (), ["t"], "3", ["3"], ["3"]
        )
        assert list(Results.of({number: []})) == ["3"]
        assert Results({number: []})["3"] == Results({"3": []})[number] == []
        assert {AnswerItem(number).item_id, Question(number, "q").item_id} == {"3"}
        assert JudgedRanking(number, 1, 1).query_id == GainRanking(number, [], []).query_id == "3"
        assert PerQueryValues([number], [[1.0]]).query_ids == ["3"]
        assert HumanLabels([number], [True]).query_ids == ["3"]
        assert LabelledScores([1.0], [True], [number]).clusters == ["3"]
        request = written([], GainRankings([]), MetricOptions(), {number: {}})
        assert [one.query_id for one in request.metadata] == ["3"]
        assert list(DocumentRankings({number: ["a"]}).topics) == ["3"]

    @pytest.mark.parametrize(
        "run",
        [
            {3: {4: 1.0, 5: 0.5}},
            {Whole(3): ScoredDocuments(array("q", [4, 5]), array("d", [1.0, 0.5]))},
            {"3": ScoredDocuments([Whole(4), 5], [1.0, 0.5])},
        ],
    )
    def test_whole_numbers_of_runs_travel_as_texts_do(self, run):
        def write(qrels, run):
            return written(["ap"], TrecRankings(qrels, run), MetricOptions())

        told = write({"3": {"4": 1}}, {"3": {"4": 1.0, "5": 0.5}})
        assert write({3: {4: 1}}, run) == told

    @pytest.mark.parametrize("wrong", [True, 3.0, None, ("3",)])
    def test_what_is_no_id_is_refused_by_its_place(self, wrong):
        def refused(field, make):
            with pytest.raises(InvalidArgument, match="must be text or a whole number") as caught:
                make()
            assert caught.value.field == field
            assert isinstance(caught.value, TypeError) or field.startswith("trec")

        refused("query_id", lambda: Query(wrong, "x"))
        refused("doc_id", lambda: Document(wrong, "x"))
        graded = {"query_id": "q", "relevant_document_ids": ["a", wrong], "grades": {"a": 1}}
        refused("relevant_document_ids[1]", lambda: QueryGroup(**graded))
        if wrong is not None:
            refused("doc_id", lambda: Retrieved(wrong))
        group = QueryGroup("x", (), ["t"], "q", [wrong], ["a"])
        refused("groups[0].document_ids[0]", lambda: write_group(group))
        group = QueryGroup("x", (), ["t"], "q", ["a"], [wrong])
        refused("groups[0].relevant_document_ids[0]", lambda: write_group(group))
        refused("groups[0].query_id", lambda: write_group(QueryGroup("x", query_id=wrong)))
        values = PerQueryValues([wrong], [])
        refused("values.query_ids[0]", lambda: written([], values, MetricOptions()))
        run = TrecRankings({}, {"q": ["a", wrong]})
        refused("trec.run[0].document_ids[1]", lambda: written([], run, MetricOptions()))

    def test_a_number_beside_its_text_is_refused(self):
        with pytest.raises(InvalidArgument, match="'3' twice"):
            need_by_ids(cast("Any", {3: {}, "3": {}}), "qrels")


class TestOnce:
    def test_values_are_read_once(self):
        group = QueryGroup(
            "q", once("e"), map(str, [1, 2]), "q", once(1, 2), (), None, None, once("n")
        )
        assert (group.n_expected, group.n_retrieved) == (1, 2)
        assert (group.document_ids, group.negatives) == (["1", "2"], ["n"])
        assert QueryGroup(relevant_document_ids=once(7)).relevant_document_ids == ["7"]
        assert Spans(once(Span("f", 0, 1))).expected == [Span("f", 0, 1)]
        item = AnswerItem("i", references=once("r"), contexts=once("c"))
        assert (item.references, item.contexts) == (["r"], ["c"])
        rankings = JudgedRankings(once(JudgedRanking("q", 1, 1)), once(True), once(1))
        assert (len(rankings.rankings), rankings.relevant, rankings.status) == (1, [True], [1])
        gains = GainRankings(once(GainRanking("q", once(1.0), once(1.0))))
        assert (gains.rankings[0].gains, gains.rankings[0].relevant_gains) == ([1.0], [1.0])
        assert PerQueryValues(once("q"), once(once(0.5))).columns == [[0.5]]
        rows = once(once(1.0, 0.0))
        assert Embeddings.from_rows(rows, once(once(0.0, 1.0))).dimensions == 2

    def test_a_run_is_read_once(self):
        run = {"q": ScoredDocuments(once("a", "b"), map(float, "12"))}
        rankings = TrecRankings({}, run)
        first, second = (written([], rankings, MetricOptions()) for _ in range(2))
        assert first == second
        assert list(first.trec.run_columns.n_documents) == [2]


class TestWrongTypes:
    @pytest.mark.parametrize(
        ("items", "field", "rule"),
        [
            (QueryGroup("q", ["e"], ["x"]), "groups", "must be a list .* not QueryGroup"),
            (Context("q", "e", "x"), "groups", "must be a list .* not Context"),
            ({"query": "q"}, "groups", "must be a list of QueryGroup or Context, not dict"),
            ("text", "groups", "not one text"),
            ([QueryGroup("q"), Context("q", "e", "x")], "groups[1]", "must be QueryGroup"),
            ([QueryGroup(None, ["e"], ["x"])], "groups[0].query", "must be text, not NoneType"),
            ([QueryGroup("q", [None], ["x"])], "groups[0].expected[0]", "must be text, not None"),
            ([QueryGroup("q", "e", ["x"])], "groups[0].expected", "not one text"),
            ([Context("q", None, "x")], "groups[0].expected[0]", "not NoneType"),
        ],
    )
    def test_of_what_is_to_be_judged(self, items, field, rule):
        with pytest.raises(TypeError, match=rule) as caught:
            fold(items)
        assert isinstance(caught.value, InvalidArgument)
        assert caught.value.field == field

    def test_a_document_id_that_is_missing_is_known_before_anything_is_sent(self):
        with pytest.raises(InvalidArgument, match="1 ids for 2 retrieved") as caught:
            fold([QueryGroup("q", ["e"], ["x", "y"], document_ids=["d"])])
        assert caught.value.field == "groups[0].document_ids"


class TestMisuse:
    """Every call names the argument that is of the wrong type, before anything is sent."""

    GROUP = QueryGroup("q", ["e"], ["x"], "q")

    @pytest.mark.parametrize(
        ("field", "call"),
        [
            ("groups[0].spans", lambda c, g: c.judge([QueryGroup("q", spans=[1])])),
            ("groups[0].metadata", lambda c, g: c.evaluate([QueryGroup(metadata=None)], ["mrr"])),
            ("judge", lambda c, g: c.judge([g], 3)),
            ("judge.members", lambda c, g: c.judge([g], Judge("panel", members="exact"))),
            ("judge.min_score", lambda c, g: c.judge([g], Judge("semantic", min_score="0.7"))),
            ("asking.max_cost", lambda c, g: c.judge([g], asking=Asking(max_cost="1"))),
            ("metrics", lambda c, g: c.evaluate([g], "mrr")),
            ("options", lambda c, g: c.evaluate([g], ["mrr"], None, {"per_query": True})),
            ("options.matching", lambda c, g: c.evaluate([g], ["mrr"], None, MetricOptions("any"))),
            ("relevance", lambda c, g: c.compute_metrics(["mrr"], {})),
            ("asking", lambda c, g: c.judge([g], asking="cached")),
            ("options", lambda c, g: c.evaluate([g], ["mrr"], None, CompareOptions())),
            ("comparison", lambda c, g: c.compare_runs(["mrr"], {}, comparison=MetricOptions())),
            ("runs['a']", lambda c, g: c.compare_runs(["mrr"], {"a": {}})),
            ("items[0]", lambda c, g: c.compute_text_metrics(["bleu"], [AnswerItem("i")])),
            ("labels[0]", lambda c, g: c.calibrate(LabelledScores([0.5], [float("nan")]))),
            ("labels[0]", lambda c, g: c.calibrate_cascade(StagedLabels([], [None]))),
            ("items", lambda c, g: c.score_answers(AnswerItem("i"), ["r"])),
            ("run['q']", lambda c, g: TrecRankings({}, dict.fromkeys("q", frozenset("a")))),
            ("retrieved", lambda c, g: QueryGroup("q", ["e"], {"x", "y"})),
            ("system", lambda c, g: evaluate_answers([Question("i", "q")], "s", ["r"], client=c)),
        ],
    )
    def test_the_argument_is_named(self, field, call):
        with Client("127.0.0.1:1") as client, pytest.raises(WrongType) as caught:
            call(client, self.GROUP)
        assert caught.value.field == field

    def test_credentials_are_no_text(self):
        with pytest.raises(InvalidArgument, match=r"^credentials: must be Token\(\.\.\.\) or Tls"):
            Client("127.0.0.1:1", credentials=cast("Any", "token"))

    def test_numbers_may_be_those_of_numpy(self):
        half = pytest.importorskip("numpy").float32(0.5)
        assert Judge("exact", min_score=half).min_score == 0.5
        assert type(Retrieved("d", half).score) is float

    async def test_the_evaluator_takes_no_asynchronous_client(self):
        async with AsyncClient("127.0.0.1:1") as client:
            with pytest.raises(WrongType, match=r"^client: must be Client, not AsyncClient"):
                Evaluator(client)
            with pytest.raises(WrongType, match=r"^groups: must be a list of QueryGroup"):
                await client.judge({"query": "q"})
