"""Verdicts and scores from a trace: under which threshold, and whose."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged import AnswerItem, QueryGroup, Rubric, Source, Status, Verdicts
from judged.traces import (
    Judgement,
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
OVERLAP = replace(JUDGE, kind="token_overlap", min_score=0.6, signature="token_overlap|v1")
PANEL = replace(JUDGE, kind="panel", profile="mean", signature="panel|profile:mean|v1")
RUBRICS = [RubricInfo("retrieval_match", "1", "", 0.5, "3b70145c" + "0" * 56)]
GROUPS = [
    QueryGroup("q", ["e1", "e2"], ["r1", "r2"], "one"),
    QueryGroup("q", (), ["r1"], "by id", ["d1"], ["d1"]),
    QueryGroup("q", ["e3"], ["r3"], "two"),
]
SCORES = [1.0, 0.0, 0.0, 1.0, 1.0]
NO_OTHER = r"no other threshold than 0\.5 can be applied"


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
    def test_a_judge_without_votes_needs_the_score_only(self):
        judgement = Judgement(OVERLAP, Status.OK, False, 0.55)
        lower = judgement.at_threshold(0.55)
        assert (lower.passed, lower.score, lower.judge.min_score) == (True, 0.55, 0.55)
        assert judgement.at_threshold(0.55 + 1e-10).passed
        assert not judgement.at_threshold(0.56).passed

    @given(st.lists(st.booleans(), min_size=1, max_size=7), st.floats(0, 1))
    def test_votes_need_the_score_and_a_majority(self, votes, threshold):
        share, majority = sum(votes) / len(votes), 2 * sum(votes) > len(votes)
        agreement = max(share, 1 - share)
        judgement = Judgement(
            *(JUDGE, Status.OK, majority and share >= 0.5, share),
            samples=len(votes),
            majority=majority,
            agreement=agreement,
        )
        moved = judgement.at_threshold(threshold)
        assert moved.passed == (majority and share + 1e-9 >= threshold)

    def test_unknown_votes_give_no_decision_unless_the_score_does(self):
        judgement = Judgement(JUDGE, Status.OK, False, 0.4, samples=3, agreement=2 / 3)
        assert judgement.at_threshold(0.3) is None
        assert judgement.at_threshold(0.45).passed is False
        judged = replace(verdicts([0.4] * 5), agreement=[2 / 3] * 5)
        with pytest.raises(ReplayError, match=NO_OTHER):
            Replay(traced(judged), min_score=0.3).verdicts(GROUPS, RUBRICS)


class TestRecorded:
    """What is kept of one verdict, with or without its details."""

    def sample(self, yes, status=Status.OK):
        return VerdictSample(status, yes, 1.0 if yes else 0.0, "", "", "")

    def trace(self, judge, *votes, relevant=True, score=0.6):
        samples = [self.sample(v, Status.ERROR if v is None else Status.OK) for v in votes]
        detail = VerdictDetail("why", samples, Usage(), "small-1", "fp")
        details = {0: detail} if samples else {}
        verdicts = Verdicts(
            *([relevant], [score], [1], [1], [0], [0, 1], {}, judge, [2 / 3], details)
        )
        trace = Trace()
        record_verdicts(trace, GROUPS[2:], verdicts)
        return trace

    def judgement(self, *given, **named):
        trace = self.trace(JUDGE, *given, **named)
        return next(iter(trace.items.values())).judgements[trace.names()[0]]

    def test_votes_rationale_and_model_come_from_the_details(self):
        judgement = self.judgement(True, True, False, None)
        assert judgement.votes == (True, True, False, None)
        assert (judgement.samples, judgement.majority, judgement.agreement) == (4, True, 2 / 3)
        assert (judgement.rationale, judgement.model) == ("why", "small-1")

    @pytest.mark.parametrize(
        ("relevant", "score", "majority"),
        [(True, 0.6, True), (False, 0.6, False), (False, 0.4, None)],
    )
    def test_without_details_the_votes_follow_from_the_outcome(self, relevant, score, majority):
        judgement = self.judgement(relevant=relevant, score=score)
        assert (judgement.majority, judgement.samples) == (majority, 0)

    def test_a_panel_is_read_under_its_own_threshold_only(self, tmp_path):
        self.trace(PANEL, True, False, False).write(tmp_path / "t.jsonl")
        trace = Trace.read(tmp_path / "t.jsonl")
        assert Replay(trace).verdicts(GROUPS[2:], []).relevant == [True]
        with pytest.raises(ReplayError, match=NO_OTHER):
            Replay(trace, min_score=0.3).verdicts(GROUPS[2:], [])


ITEMS = [AnswerItem("a", "q", "x"), AnswerItem("b", "q", "y")]
ANSWERS = replace(JUDGE, kind="answers", signature="answers|rubric:r@1|sha:3b70145c|v1")


def info(form="score"):
    return [RubricInfo("r", "1", "", 0.5, "3b70145c" + "0" * 56, form)]


def both(samples=1, judge=ANSWERS):
    values = {"a": (0.25, False), "b": (0.75, True)}
    more = {"min_score": 0.5, "samples": samples, "agreement": 1.0, "judge": judge}
    return [AnswerScore(name, "r", Status.OK, *value, **more) for name, value in values.items()]


def score_replay(scores, form="score"):
    trace = Trace("t.jsonl")
    record_scores(trace, ITEMS, scores, info(form))
    return ScoreReplay(trace)


def passed(replay, rubric="r", form="score", **more):
    found = replay.scores(ITEMS, [Rubric(rubric, **more)], info(form))
    return [score.passed for score in found]


class TestScores:
    @pytest.mark.parametrize(
        ("form", "samples", "threshold", "outcome"),
        [
            ("score", 1, 0.2, [True, True]),
            ("score", 1, 0.8, [False, False]),
            ("score", 3, 0.8, [False, False]),
            ("score", 3, 0.2, None),
            ("score", 3, 0.5, [False, True]),
            ("verdict", 3, 0.2, [False, True]),
            ("claims", 3, 0.2, [True, True]),
        ],
    )
    def test_can_be_read_where_the_votes_do_not_depend_on_the_threshold(
        self, form, samples, threshold, outcome
    ):
        replay = score_replay(both(samples), form)
        if outcome is None:
            with pytest.raises(ReplayError, match=NO_OTHER):
                passed(replay, form=form, min_score=threshold)
        else:
            assert passed(replay, form=form, min_score=threshold) == outcome

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
