"""Scores from a trace: under which thresholds they can be read, and whose they must be."""

from dataclasses import replace

import pytest
from judged import AnswerItem, Rubric, ScoredAnswers, Source, Status
from judged.traces import ReplayError, ScoreReplay, Trace, record_scores
from judged.values import (
    AnswerScore,
    JudgeIdentity,
    RubricInfo,
    RubricSummary,
    ScoreCounts,
    Usage,
    VerdictError,
)

ITEMS = [AnswerItem("a", "q", "x"), AnswerItem("b", "q", "y")]


def info(form):
    return [RubricInfo("r", "1", "", 0.5, "3b70145c" + "0" * 56, form)]


def judge(threshold=0.5):
    signature = f"answers|rubric:r@1|sha:3b70145c|min_score:{threshold:g}|v1"
    return JudgeIdentity("answers", "", threshold, signature, "a" * 64, "b" * 64)


def score(item_id, value, passed, samples=1, agreement=1.0):
    return AnswerScore(
        item_id, "r", Status.OK, value, passed, 0.5, samples=samples, agreement=agreement,
        judge=judge(),
    )  # fmt: skip


def replay(form, *scores):
    trace = Trace("t.jsonl")
    record_scores(trace, ITEMS, scores, info(form))
    return ScoreReplay(trace)


def passed(found):
    return [one.passed for one in found]


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
def test_another_bar_holds_where_the_votes_do_not_depend_on_it(form, samples, threshold, outcome):
    scores = [score("a", 0.25, False, samples), score("b", 0.75, True, samples)]
    made, rubrics = replay(form, *scores), [Rubric("r", threshold)]
    if outcome is None:
        with pytest.raises(ReplayError, match=r"no other threshold than 0\.5 can be applied"):
            made.scores(ITEMS, rubrics, info(form))
    else:
        assert passed(made.scores(ITEMS, rubrics, info(form))) == outcome


def test_scores_that_no_judge_gave_are_not_recorded():
    error = VerdictError(9, "NOT_CACHED", "", False)
    gap = AnswerScore("a", "r", Status.ERROR, error=error, judge=judge())
    never = AnswerScore("b", "r", Status.ERROR, error=error)
    trace = Trace()
    record_scores(trace, ITEMS, [gap, never], info("score"))
    assert len(trace) == 0


BOTH = (score("a", 0.25, False), score("b", 0.75, True))
GAP = VerdictError(9, "NOT_CACHED", "the cache has no reply", False)


def cache(*scores, by):
    """A cache that was asked for a judge, and has these scores."""

    def cached(items, rubrics):
        return ScoredAnswers(scores, [RubricSummary("r", None, ScoreCounts(), by)], Usage())

    return cached


def gaps(by):
    return cache(*(AnswerScore(i, "r", Status.ERROR, error=GAP, judge=by) for i in "ab"), by=by)


class TestWhose:
    """Scores are those of the judge that is asked for, and of no other."""

    def read(self, cached=None, rubric=None, signature=None):
        scores = BOTH
        if signature is not None:
            scores = [replace(s, judge=replace(s.judge, signature=signature)) for s in BOTH]
        made = replay("score", *scores)
        made.cached = cached
        return made.scores(ITEMS, [rubric or Rubric("r")], info("score"))

    def test_the_cache_knows_it_even_where_it_has_no_score(self):
        assert passed(self.read(gaps(judge()))) == [False, True]
        assert passed(self.read(gaps(judge(0.9)))) == [False, True]  # thresholds aside
        other = replace(judge(), scoring_key="c" * 64, signature="answers|rubric:r@1|model:other")
        with pytest.raises(ReplayError, match=r"but the cache was asked for .*model:other"):
            self.read(gaps(other))

    @pytest.mark.parametrize(
        ("parameters", "asked"),
        [
            ({"model": "small", "samples": 3, "temperature": 0.5}, None),
            ({"model": "careful"}, "model careful"),
            ({"temperature": 0.0}, "temperature 0.0"),
        ],
    )
    def test_without_a_cache_parameters_must_be_those_of_the_trace(self, parameters, asked):
        signature = "answers|rubric:r@1|sha:3b70145c|model:small|samples:3|temperature:0.5|v1"
        if asked is None:
            self.read(rubric=Rubric("r", parameters=parameters), signature=signature)
            return
        with pytest.raises(ReplayError, match=f"but {asked} was asked for"):
            self.read(rubric=Rubric("r", parameters=parameters), signature=signature)

    @pytest.mark.parametrize(
        ("weights", "fits"),
        [({"x": 3, "y": 1}, True), ({"x": 1.5, "y": 0.5, "z": 0}, True), ({"x": 1}, False)],
    )
    def test_and_so_must_weights(self, weights, fits):
        signature = "answers|rubric:r@1|sha:3b70145c|weights:x=0.75,y=0.25,z=0|v1"
        rubric = Rubric("r", weights=weights)
        if fits:
            self.read(rubric=rubric, signature=signature)
            return
        with pytest.raises(ReplayError, match="but other weights were asked for"):
            self.read(rubric=rubric, signature=signature)


def test_what_it_took_is_what_the_cache_told_of_the_scores_it_gave():
    took = Usage(cached=3, cost=None)
    known = [replace(one, source=Source.CACHE, usage=took) for one in BOTH]
    made = replay("score", BOTH[0])
    made.cached = cache(*known, by=judge())
    found = made.scores(ITEMS, [Rubric("r")], info("score"))
    assert [one.source for one in found] == [Source.REPLAY, Source.CACHE]
    assert (found.usage.cached, found.usage.cost) == (3, None)
