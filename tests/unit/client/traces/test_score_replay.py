"""Scores from a trace: under which bars they can be read."""

import pytest
from judged import AnswerItem, AnswerScore, JudgeIdentity, Rubric, RubricInfo, Status, VerdictError
from judged.traces import MissingScores, ReplayError, ScoreReplay, Trace, record_scores

ITEMS = [AnswerItem("a", "q", "x"), AnswerItem("b", "q", "y")]


def info(form):
    return [RubricInfo("r", "1", "", 0.5, "3b70145c" + "0" * 56, form)]


def judge(bar=0.5):
    signature = f"answers|rubric:r@1|sha:3b70145c|min_score:{bar:g}|v1"
    return JudgeIdentity("answers", "", bar, signature, "a" * 64, "b" * 64)


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


def test_scores_come_back_with_their_summary():
    found = replay("score", score("a", 0.25, False), score("b", 0.75, True)).scores(
        ITEMS, [Rubric("r")], info("score")
    )
    assert passed(found) == [False, True]
    assert (found.rubrics[0].mean, found.rubrics[0].passed) == (0.5, 1)
    assert found.usage.calls == 0


@pytest.mark.parametrize(
    ("form", "samples", "bar", "outcome"),
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
def test_another_bar_holds_where_the_votes_do_not_depend_on_it(form, samples, bar, outcome):
    scores = [score("a", 0.25, False, samples), score("b", 0.75, True, samples)]
    made, rubrics = replay(form, *scores), [Rubric("r", bar)]
    if outcome is None:
        with pytest.raises(ReplayError, match=r"no other bar than 0\.5 can be applied"):
            made.scores(ITEMS, rubrics, info(form))
    else:
        assert passed(made.scores(ITEMS, rubrics, info(form))) == outcome


def test_missing_ones_are_named_by_item():
    with pytest.raises(MissingScores) as caught:
        replay("score", score("a", 0.25, False)).scores(ITEMS, [Rubric("r")], info("score"))
    assert (caught.value.item_id, caught.value.missing, caught.value.total) == ("b", 1, 2)


def test_scores_that_no_judge_gave_are_not_recorded():
    error = VerdictError(9, "NOT_CACHED", "", False)
    gap = AnswerScore("a", "r", Status.ERROR, error=error, judge=judge())
    never = AnswerScore("b", "r", Status.ERROR, error=error)
    trace = Trace()
    record_scores(trace, ITEMS, [gap, never], info("score"))
    assert len(trace) == 0
