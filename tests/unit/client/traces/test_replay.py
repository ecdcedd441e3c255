"""Verdicts and scores from a trace: under which threshold, and whose."""

from dataclasses import replace

import pytest
from judged import AnswerItem, QueryGroup, Rubric, Source, Status, Verdicts
from judged.traces import (
    Missing,
    Replay,
    ReplayError,
    ScoreReplay,
    Trace,
    record_scores,
    record_verdicts,
)
from judged.values import (
    AnswerScore,
    JudgeIdentity,
    RubricInfo,
    Usage,
    VerdictDetail,
    VerdictError,
    VerdictSample,
)

SIGNATURE = "llm|rubric:retrieval_match@1|sha:3b70145c|min_score:0.5|v1"
JUDGE = JudgeIdentity("llm", "", 0.5, SIGNATURE, "a" * 64, "b" * 64)
RUBRICS = [RubricInfo("retrieval_match", "1", "", 0.5, "3b70145c" + "0" * 56)]
GROUPS = [
    QueryGroup("q", ["e1", "e2"], ["r1", "r2"], "one"),
    QueryGroup("q", (), ["r1"], "by id", ["d1"], ["d1"]),
    QueryGroup("q", ["e3"], ["r3"], "two"),
]
SCORES = [1.0, 0.0, 0.0, 1.0, 1.0]


def verdicts(scores=SCORES, judge=JUDGE, failed=None, reason="TIMEOUT"):
    status = [int(Status.ERROR if i == failed else Status.OK) for i in range(len(scores))]
    errors = {} if failed is None else {failed: VerdictError(9, reason, "why", False)}
    columns = [score >= 0.5 for score in scores], list(scores), status
    rest = [int(Source.CACHE)] * len(scores), [0] * len(scores), [0, 4, 4, 5]
    return Verdicts(*columns, *rest, errors, judge, [1.0] * len(scores))


def traced(found=None, without=None):
    trace = Trace("t.jsonl")
    record_verdicts(trace, GROUPS, found or verdicts())
    if without is not None:
        del trace.items[list(trace.items)[without]]
    return trace


class TestVerdicts:
    def test_of_a_trace_are_those_that_were_recorded_group_by_group(self):
        found = Replay(traced()).verdicts(GROUPS, RUBRICS)
        assert found.relevant == [True, False, False, True, True]
        assert (found.score, found.offsets) == (SCORES, [0, 4, 4, 5])
        assert found.source == [Source.REPLAY] * 5
        assert found.agreement == [1.0] * 5
        assert (found.judge, found.usage) == (JUDGE, None)

    def test_that_failed_are_replayed_as_failures_and_gaps_are_not_recorded(self):
        found = Replay(traced(verdicts(failed=1))).verdicts(GROUPS, RUBRICS)
        assert (found[1].status, found[1].error.reason) == (Status.ERROR, "TIMEOUT")
        assert found[1].relevant is None
        assert len(traced(verdicts(failed=1, reason="NOT_CACHED"))) == 4

    @pytest.mark.parametrize(
        ("index", "place"),
        [
            (0, "groups[0].retrieved[0]"),
            (3, "groups[0].retrieved[1]"),
            (4, "groups[2].retrieved[0]"),
        ],
    )
    def test_that_are_missing_are_named(self, index, place):
        with pytest.raises(Missing) as caught:
            Replay(traced(without=index)).verdicts(GROUPS, RUBRICS)
        missing = caught.value
        assert (missing.first, missing.missing, missing.total) == (place, 1, 5)
        assert (missing.name, missing.judge) == ("llm/retrieval_match", JUDGE)


class TestThreshold:
    def test_of_a_trace_is_the_only_one(self):
        assert Replay(traced(), min_score=0.5).verdicts(GROUPS, RUBRICS).score == SCORES
        with pytest.raises(ReplayError, match=r"made with the min_score 0\.5; for another"):
            Replay(traced(), min_score=0.3).verdicts(GROUPS, RUBRICS)

    def test_two_of_them_are_two_judges(self):
        trace, other = traced(), replace(JUDGE, min_score=0.4, fingerprint="c" * 64)
        one = Verdicts([True], [1.0], [1], [1], [0], [0, 1], {}, other, [1.0])
        record_verdicts(trace, GROUPS[2:], one)
        with pytest.raises(ReplayError, match="are those of several judges"):
            Replay(trace).verdicts(GROUPS, RUBRICS)


class TestRecorded:
    """What is kept of one verdict, with or without its details."""

    def sample(self, yes, status=Status.OK):
        return VerdictSample(status, yes, 1.0 if yes else 0.0, "", "", "")

    def trace(self, judge, *votes, relevant=True, score=0.6):
        samples = [self.sample(v, Status.ERROR if v is None else Status.OK) for v in votes]
        detail = VerdictDetail("why", samples, Usage(), "small-1", "fp")
        details = {0: detail} if samples else {}
        verdicts = Verdicts([relevant], [score], [1], [1], [0], [0, 1], {}, judge, [2 / 3], details)
        trace = Trace()
        record_verdicts(trace, GROUPS[2:], verdicts)
        return trace

    def judgement(self, *given, **named):
        trace = self.trace(JUDGE, *given, **named)
        return next(iter(trace.items.values())).judgements[trace.names()[0]]

    def test_votes_rationale_and_model_come_from_the_details(self):
        judgement = self.judgement(True, True, False, None)
        assert judgement.votes == (True, True, False, None)
        assert (judgement.samples, judgement.agreement) == (4, 2 / 3)
        assert (judgement.rationale, judgement.model) == ("why", "small-1")


ITEMS = [AnswerItem("a", "q", "x"), AnswerItem("b", "q", "y")]
ANSWERS = replace(JUDGE, kind="answers", signature="answers|rubric:r@1|sha:3b70145c|v1")


KNOWN = [RubricInfo("r", "1", "", 0.5, "3b70145c" + "0" * 56)]


def both(samples=1, judge=ANSWERS):
    values = {"a": (0.25, False), "b": (0.75, True)}
    more = {"min_score": 0.5, "samples": samples, "agreement": 1.0, "judge": judge}
    return [AnswerScore(name, "r", Status.OK, *value, **more) for name, value in values.items()]


def score_replay(scores):
    trace = Trace("t.jsonl")
    record_scores(trace, ITEMS, scores)
    return ScoreReplay(trace)


def passed(replay, rubric="r", **more):
    found = replay.scores(ITEMS, [Rubric(rubric, **more)], KNOWN)
    return [score.passed for score in found]


class TestScores:
    def test_have_the_threshold_of_the_trace(self):
        assert passed(score_replay(both()), min_score=0.5) == [False, True]
        with pytest.raises(ReplayError, match="made with the min_score"):
            passed(score_replay(both()), min_score=0.2)

    def test_that_no_judge_gave_are_not_recorded(self):
        error = VerdictError(9, "NOT_CACHED", "the cache has no reply", False)
        gap = AnswerScore("a", "r", Status.ERROR, error=error, judge=ANSWERS)
        never = AnswerScore("b", "r", Status.ERROR, error=error)
        assert len(score_replay([gap, never]).trace) == 0

    @pytest.mark.parametrize("asked", [{"parameters": {"model": "m"}}, {"weights": {"x": 1}}])
    def test_have_the_parameters_and_weights_of_the_trace(self, asked):
        with pytest.raises(ReplayError, match="as they were made"):
            passed(score_replay(both()), **asked)

    def test_that_are_missing_are_named(self):
        with pytest.raises(Missing, match=r"1 of 2 .*missing, first that of item 'b'"):
            passed(score_replay(both()[:1]))
