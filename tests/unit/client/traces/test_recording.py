"""What is kept of a verdict."""

from dataclasses import replace

import pytest
from judged import QueryGroup, Status, Verdicts
from judged.traces import Replay, ReplayError, Trace, record_verdicts
from judged.values import JudgeIdentity, Usage, VerdictDetail, VerdictSample

GROUPS = [QueryGroup("q", ["e"], ["r"], "1")]
LLM = JudgeIdentity("llm", "", 0.5, "llm|model:small|min_score:0.5|v1", "a" * 64, "b" * 64)
PANEL = replace(LLM, kind="panel", profile="mean", signature="panel|profile:mean|v1")


def sample(yes, status=Status.OK):
    return VerdictSample(status, yes, 1.0 if yes else 0.0, "", "", "")


def verdicts(judge, *samples, relevant=True, score=0.6, agreement=2 / 3):
    detail = VerdictDetail("why", samples, Usage(), "small-1", "fp")
    return Verdicts(
        *([relevant], [score], [1], [1], [0], [0, 1], {}, judge, [agreement]),
        {0: detail} if samples else {},
    )


def recorded(found):
    trace = Trace()
    record_verdicts(trace, GROUPS, found)
    return next(iter(trace.items.values())).judgements[trace.names()[0]]


def test_votes_rationale_and_model_come_from_the_details():
    samples = sample(True), sample(True), sample(False), sample(None, Status.ERROR)
    judgement = recorded(verdicts(LLM, *samples))
    assert judgement.votes == (True, True, False, None)
    assert (judgement.samples, judgement.majority, judgement.agreement) == (4, True, 2 / 3)
    assert (judgement.rationale, judgement.model) == ("why", "small-1")


def test_without_details_the_votes_follow_from_the_outcome_where_they_can():
    assert recorded(verdicts(LLM)).majority is True
    assert recorded(verdicts(LLM, relevant=False, score=0.6)).majority is False
    unknown = recorded(verdicts(LLM, relevant=False, score=0.4))
    assert (unknown.majority, unknown.samples) == (None, 0)


def test_a_panel_is_read_under_its_own_bar_only(tmp_path):
    trace = Trace()
    record_verdicts(trace, GROUPS, verdicts(PANEL, sample(True), sample(False), sample(False)))
    trace.write(tmp_path / "t.jsonl")
    trace = Trace.read(tmp_path / "t.jsonl")
    assert Replay(trace).verdicts(GROUPS, []).relevant == [True]
    with pytest.raises(ReplayError, match=r"no other threshold than 0\.5 can be applied"):
        Replay(trace, min_score=0.3).verdicts(GROUPS, [])
