"""Results as people and programs read them."""

from __future__ import annotations

import json

import judged
import pytest
from judged import (
    Evaluation,
    MetricTable,
    QueryGroup,
    ScoredAnswers,
    Status,
    TextMetricTable,
    TrecRankings,
    Verdicts,
)
from judged.evaluation import (
    AnsweredQuestion,
    AnswerEvaluation,
    Dataset,
    Query,
    Question,
    Results,
    Retrieved,
    TrecQrels,
)
from judged.values import (
    Agreement,
    AnswerScore,
    Calibration,
    CascadeBounds,
    ComparedRuns,
    ComparisonPower,
    CorrectedEstimate,
    CostEstimate,
    Estimate,
    Interval,
    JudgedChunk,
    JudgeIdentity,
    JudgeQuality,
    MeasuredAgreement,
    MetricCounts,
    MetricResult,
    MetricSlice,
    NegativeMatch,
    NegativeReport,
    RankAgreement,
    RubricSummary,
    RunComparison,
    ScoreCounts,
    TestResult,
    TextMetricResult,
    Usage,
    VerdictCounts,
)

JUDGE = JudgeIdentity("fake", "", 0.5, "fake|v1", "", "")
GROUPS = [
    QueryGroup("one", ["a", "b"], ["x", "y"], "q1", ["d1", "d2"]),
    QueryGroup("two", ["a"], ["z"], "q2"),
]
INTERVAL = Interval(0.1, 0.9, 0.95, 0.2, "t")
ESTIMATE = Estimate(0.5, INTERVAL)
SIX = (ESTIMATE, ESTIMATE, ESTIMATE, None, ESTIMATE, None)


def verdicts_of(n, groups=(), offsets=None):
    columns = [i % 2 == 0 for i in range(n)], [0.25] * n, [1] * n, [1] * n, [0] * n
    return Verdicts(*columns, [0, n] if offsets is None else offsets, {}, JUDGE, groups=groups)


def metric(name, n=2):
    values = [i / n for i in range(n)]
    return MetricResult(name, 0.5, n, 0.4, 0.6, f"{name}|v1", values, INTERVAL)


def table(n=2):
    counts = MetricCounts(n, n, verdicts=VerdictCounts(ok=3, relevant=2))
    slices = [MetricSlice("lang", "de", [metric("mrr")])]
    ids = [f"q{i}" for i in range(n)]
    return MetricTable([metric("mrr", n), metric("ndcg@10", n)], ids, counts, slices)


def score(item_id="i"):
    return AnswerScore(item_id, "r", Status.OK, 0.75, True, 0.5, "because", judge=JUDGE)


def scored(n=2):
    summary = RubricSummary("r", 0.75, ScoreCounts(ok=n, passed=n), JUDGE)
    return ScoredAnswers([score(f"i{i}") for i in range(n)], [summary], Usage())


def compared():
    test = TestResult(1.0, 0.01, 0.02, 0.02)
    made = RunComparison(
        *("mrr", "a", "b", 2, 0.4, 0.6, ESTIMATE, None, test, test, test, None, 1, 0, 1),
        [judged.values.MovedQuery("q1", 0.0, 1.0)],
        ComparisonPower(0.3, None, None),
        ["few queries"],
    )
    return ComparedRuns({"a": table(), "b": table()}, [made], "permutations:10")


def calibration():
    quality = JudgeQuality(4, 1, 1, 1, 1, *SIX, None)
    prevalence = CorrectedEstimate(ESTIMATE, ESTIMATE, None, 4, 9, 0.5)
    return Calibration(quality, prevalence, CascadeBounds(0.9, 0.1, 0.5, 0.05), "c|v1")


def answers():
    question = Question("i0", "q")
    done = AnsweredQuestion(question, judged.evaluation.Answer("a"), None, 0.5, {"r": score("i0")})
    failed = AnsweredQuestion(Question("i1", "q"), None, "OSError: no", 0.1, {})
    return AnswerEvaluation([done, failed], scored().rubrics, Usage())


AGREEMENT = Agreement(
    ["a", "b"],
    4,
    ["x", "y"],
    [[1, 1], [1, 1]],
    ESTIMATE,
    ESTIMATE,
    ESTIMATE,
    None,
    None,
    None,
)
NEGATIVES = NegativeReport(1, 1, [NegativeMatch("q", 0, 1, "d", 0.9)], VerdictCounts(ok=2))
EVALUATION = Evaluation(
    table(), JUDGE, verdicts_of(5), NEGATIVES, Usage(2), {"q9": "OSError"}, ["w"]
)
RESULTS = {
    "verdicts": (verdicts_of(5, GROUPS, [0, 4, 5]), 5),
    "chunk": (JudgedChunk(3, verdicts_of(2), None, 2, 2), 1),
    "table": (table(), 2),
    "metric": (metric("mrr"), 1),
    "slice": (table().slices[0], 1),
    "evaluation": (EVALUATION, 2),
    "negatives": (NEGATIVES, 1),
    "compared": (compared(), 1),
    "comparison": (compared().comparisons[0], 1),
    "agreement": (MeasuredAgreement(AGREEMENT, RankAgreement(3, ESTIMATE, None)), 8),
    "calibration": (calibration(), 8),
    "scores": (scored(), 2),
    "score": (score(), 1),
    "answers": (answers(), 2),
    "text metrics": (TextMetricTable([TextMetricResult("bleu", 0.5, 2, None, "s", [], [], [])]), 1),
    "cost": (CostEstimate(3, cost=None), 1),
}


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_is_a_dictionary_rows_and_a_table(name):
    result, n = RESULTS[name]
    document = result.to_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert len(result.to_rows()) == n
    assert len({tuple(row) for row in result.to_rows()}) <= 1
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(result.to_rows())
    assert len(frame) == n
    assert not frame.map(lambda value: isinstance(value, list | dict)).any(axis=None)
    assert result._repr_html_().count("<tr>") == n + 1
    assert len(repr(result)) < 1100


class TestVerdicts:
    def test_rows_name_query_rank_and_document(self):
        rows = verdicts_of(5, GROUPS, [0, 4, 5]).to_rows()
        assert [(r["query_id"], r["rank"], r["document_id"], r["expected"]) for r in rows] == [
            ("q1", 1, "d1", 0),
            ("q1", 1, "d1", 1),
            ("q1", 2, "d2", 0),
            ("q1", 2, "d2", 1),
            ("q2", 1, None, 0),
        ]
        assert rows[1] | {"group": 0} == rows[1]
        assert (rows[0]["status"], rows[0]["relevant"], rows[0]["score"]) == ("OK", True, 0.25)


class TestTables:
    def test_metrics_are_found_by_name_and_walked_over(self):
        found = table()
        assert "mrr" in found
        assert "ap" not in found
        assert [part.name for part in found] == ["mrr", "ndcg@10"]
        with pytest.raises(KeyError, match="ap; this table has mrr, ndcg@10"):
            found["ap"]
        texts = RESULTS["text metrics"][0]
        assert ("bleu" in texts, "mrr" in texts, len(list(texts))) == (True, False, 1)

    def test_rows_of_queries_have_a_column_a_metric(self):
        assert table().to_query_rows() == [
            {"query_id": "q0", "mrr": 0.0, "ndcg@10": 0.0},
            {"query_id": "q1", "mrr": 0.5, "ndcg@10": 0.5},
        ]

    def test_html_escapes_what_it_shows_and_counts_the_rest(self):
        result = verdicts_of(50, [QueryGroup("<b>", ["e"], ["x"] * 50, "<i>")])
        html = result._repr_html_()
        assert "&lt;i&gt;" in html
        assert "<b>" not in html
        assert "and 30 more rows" in html


@pytest.mark.parametrize(
    "value",
    [
        verdicts_of(30_000),
        table(30_000),
        QueryGroup("q" * 9_999, ["e" * 9_999] * 99, ["x"] * 9_999),
        TrecRankings({"q": dict.fromkeys(map(str, range(9_999)), 1)}, {}),
        TrecQrels({str(i): {} for i in range(9_999)}),
        Dataset([Query(str(i), "x") for i in range(9_999)]),
        Results.of({str(i): [Retrieved("d")] * 9 for i in range(9_999)}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_repr_is_short_however_much_it_stands_for(value):
    assert repr(value).startswith(type(value).__name__)
    assert len(repr(value)) < 1100
