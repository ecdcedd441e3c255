"""Verdicts from a trace and a cache: which one counts, and what is said where both lack one."""

from dataclasses import replace

import pytest
from judged import (
    Flag,
    QueryGroup,
    Source,
    Status,
    Verdicts,
)
from judged.traces import Missing, Replay, ReplayError, Trace, record_verdicts
from judged.values import JudgeIdentity, RubricInfo, VerdictError

SIGNATURE = "llm|rubric:retrieval_match@1|sha:3b70145c|min_score:0.5|v1"
JUDGE = JudgeIdentity("llm", "", 0.5, SIGNATURE, "a" * 64, "b" * 64)
RUBRICS = [RubricInfo("retrieval_match", "1", "", 0.5, "3b70145c" + "0" * 56)]
GROUPS = [
    QueryGroup("q", ["e1", "e2"], ["r1", "r2"], "one"),
    QueryGroup("q", (), ["r1"], "by id", ["d1"], ["d1"]),
    QueryGroup("q", ["e3"], ["r3"], "two"),
]
SCORES = [1.0, 0.0, 0.0, 1.0, 1.0]


def verdicts(scores=SCORES, judge=JUDGE, status=(), errors=None, source=Source.CACHE):
    n = len(scores)
    return Verdicts(
        [score >= 0.5 for score in scores],
        list(scores),
        list(status) or [1] * n,
        [int(source)] * n,
        [int(Flag.NONE)] * n,
        [0, 4, 4, 5],
        errors or {},
        judge,
        [1.0] * n,
    )


def traced(found=None, groups=GROUPS):
    trace = Trace("t.jsonl")
    record_verdicts(trace, groups, found or verdicts())
    return trace


def without(trace, place):
    key = list(trace.items)[place]
    del trace.items[key]
    return trace


def failed(place, reason):
    status = [int(Status.OK)] * 5
    status[place] = int(Status.ERROR)
    scores = [0.0 if index == place else score for index, score in enumerate(SCORES)]
    error = VerdictError(9, reason, "why", False)
    return verdicts(scores, status=status, errors={place: error})


class TestTrace:
    def test_gives_what_was_recorded_group_by_group(self):
        found = Replay(traced()).verdicts(GROUPS, RUBRICS)
        assert found.relevant == [True, False, False, True, True]
        assert found.score == SCORES
        assert found.offsets == [0, 4, 4, 5]
        assert found.source == [Source.REPLAY] * 5
        assert found.agreement == [1.0] * 5
        assert found.judge == JUDGE
        assert found.usage is None

    def test_failures_are_replayed_as_failures(self):
        found = Replay(traced(failed(1, "TIMEOUT"))).verdicts(GROUPS, RUBRICS)
        assert found[1].status is Status.ERROR
        assert found[1].error.reason == "TIMEOUT"
        assert found[1].relevant is None

    def test_what_was_not_cached_is_not_recorded(self):
        assert len(traced(failed(1, "NOT_CACHED"))) == 4


class TestMissing:
    @pytest.mark.parametrize(
        ("place", "group", "retrieved", "expected"), [(0, 0, 0, 0), (3, 0, 1, 1), (4, 2, 0, 0)]
    )
    def test_says_which_and_how_many(self, place, group, retrieved, expected):
        with pytest.raises(Missing) as caught:
            Replay(without(traced(), place)).verdicts(GROUPS, RUBRICS)
        assert caught.value.place == (group, retrieved, expected)
        assert (caught.value.missing, caught.value.total) == (1, 5)
        assert caught.value.group is GROUPS[group]
        assert caught.value.name == "llm/retrieval_match"
        assert caught.value.judge == JUDGE


class TestFit:
    def test_votes_that_are_not_known(self):
        judged = replace(verdicts([0.4] * 5), agreement=[2 / 3] * 5)
        with pytest.raises(ReplayError, match=r"no other threshold than 0\.5 can be applied"):
            Replay(traced(judged), min_score=0.3).verdicts(GROUPS, RUBRICS)


class TestCache:
    def test_is_asked_for_all_under_the_bar_of_the_trace(self):
        asked = []

        def cached(groups, threshold):
            asked.append((list(groups), threshold))
            return verdicts()

        Replay(traced(), cached=cached).verdicts(GROUPS, RUBRICS)
        assert asked == [([GROUPS[0], QueryGroup(), GROUPS[2]], 0.5)]

    def test_fills_gaps_and_takes_the_place_of_failures(self):
        trace = without(traced(failed(1, "TIMEOUT")), 3)
        replay = Replay(trace, cached=lambda groups, threshold: verdicts())
        found = replay.verdicts(GROUPS, RUBRICS)
        replayed, cache = int(Source.REPLAY), int(Source.CACHE)
        assert found.source == [replayed, cache, replayed, cache, replayed]
        assert found.relevant == [True, False, False, True, True]
        assert replay.disagreements == []

    def test_stands_alone(self):
        found = Replay(None, cached=lambda groups, threshold: verdicts()).verdicts(GROUPS, RUBRICS)
        assert found.source == [Source.CACHE] * 5
        assert found.judge == JUDGE

    def test_disagreement_is_told_and_the_trace_counts(self):
        replay = Replay(traced(), cached=lambda groups, threshold: verdicts([0.0, *SCORES[1:]]))
        found = replay.verdicts(GROUPS, RUBRICS)
        assert found.relevant[0] is True
        assert replay.disagreements == [0]

    def test_of_another_judge_is_refused(self):
        other = replace(JUDGE, scoring_key="c" * 64)
        replay = Replay(traced(), cached=lambda groups, threshold: verdicts(judge=other))
        with pytest.raises(ReplayError, match="but the cache was asked for"):
            replay.verdicts(GROUPS, RUBRICS)
