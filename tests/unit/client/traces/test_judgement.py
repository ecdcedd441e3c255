"""What a judgement says under another threshold, and what it is called."""

from hypothesis import given
from hypothesis import strategies as st
from judged import Status
from judged.traces.judgement import Judgement
from judged.values import JudgeIdentity

KEY = "a" * 64
SIGNATURE = "llm|rubric:retrieval_match@7|sha:3b70145c|model:small|samples:3|min_score:0.5|v1"
LLM = JudgeIdentity("llm", "", 0.5, SIGNATURE, KEY, "b" * 64)
OVERLAP = JudgeIdentity(
    "token_overlap", "classic", 0.6, "token_overlap|profile:classic|min_score:0.6|v1", KEY, ""
)


def voted(votes, min_score=0.5):
    yes = 2 * sum(votes) > len(votes)
    score = sum(votes) / len(votes)
    return Judgement(
        LLM,
        Status.OK,
        yes and score + 1e-9 >= min_score,
        score,
        samples=len(votes),
        majority=yes,
        agreement=max(sum(votes), len(votes) - sum(votes)) / len(votes),
    )


class TestBar:
    def test_a_judge_without_votes_needs_the_score_only(self):
        judgement = Judgement(OVERLAP, Status.OK, False, 0.55)
        lower = judgement.at_threshold(0.55)
        assert lower is not None
        assert (lower.passed, lower.score, lower.judge.min_score) == (True, 0.55, 0.55)
        assert judgement.at_threshold(0.55 + 1e-10).passed
        assert not judgement.at_threshold(0.56).passed

    @given(
        st.lists(st.booleans(), min_size=1, max_size=7).filter(
            lambda votes: 2 * sum(votes) != len(votes)
        ),
        st.floats(0, 1),
    )
    def test_votes_need_the_score_and_a_majority(self, votes, threshold):
        moved = voted(votes).at_threshold(threshold)
        majority, share = 2 * sum(votes) > len(votes), sum(votes) / len(votes)
        assert moved.passed == (majority and share + 1e-9 >= threshold)

    def test_unknown_votes_give_no_decision_unless_the_score_does(self):
        judgement = Judgement(LLM, Status.OK, False, 0.4, samples=3, agreement=2 / 3)
        assert judgement.at_threshold(0.3) is None
        assert judgement.at_threshold(0.45).passed is False
        assert judgement.at_threshold(0.9).passed is False
