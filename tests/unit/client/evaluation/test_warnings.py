"""What is said of an evaluation beside its numbers."""

import pytest
from judged import QueryGroup
from judged.evaluation.result import (
    blind_warnings,
    verdict_warnings,
)
from judged.values import JudgeIdentity, VerdictCounts


class TestWarnings:
    def test_tell_what_is_wrong_with_verdicts(self):
        counts = VerdictCounts(
            ok=5, error=2, not_assessable=1, flagged_no_tokens=4, flagged_truncated=3
        )
        first, second, third = verdict_warnings(counts)
        assert first == "3 of 8 verdicts are missing: 2 failed, 1 not assessable"
        assert "--profile unicode" in second
        assert third.startswith("3 of 8 verdicts are about a text longer than the model's window")

    def test_tell_of_what_was_read_in_part(self):
        (warning,) = verdict_warnings(VerdictCounts(ok=3, flagged_unknown_tokens=2))
        assert warning.startswith(
            "2 of 3 verdicts are about a text of which the judge does not read"
        )


def judge(kind, min_score=0.75):
    return JudgeIdentity(kind, "", min_score, "", "", "")


LONG = [QueryGroup("", ["Paris"], ["x" * 40] * 19 + ["x" * 39])]
ALIKE = [QueryGroup("", ["It is the city of Paris."], ["x" * 40] * 20)]


class TestBlindJudges:
    @pytest.mark.parametrize(
        ("kind", "min_score", "counts", "groups", "said"),
        [
            ("semantic", 0.75, VerdictCounts(ok=20), LONG, "most retrieved texts are 8 times"),
            ("semantic", 0.75, VerdictCounts(ok=20, relevant=1), LONG, "(1 of 20 are)"),
            ("semantic", 0.75, VerdictCounts(ok=20), ALIKE, "none of 20 verdicts is relevant"),
            ("token_overlap", 0.6, VerdictCounts(ok=20), LONG, "token_overlap at 0.6"),
            ("semantic", 0.75, VerdictCounts(ok=20, relevant=1), ALIKE, None),
            ("semantic", 0.3, VerdictCounts(ok=20, relevant=1), LONG, None),
            ("semantic", 0.75, VerdictCounts(ok=19), LONG, None),
        ],
    )
    def test_are_told_of_once(self, kind, min_score, counts, groups, said):
        found = list(blind_warnings(judge(kind, min_score), counts, groups))
        assert len(found) == (said is not None)
        assert all(said in warning and "judged calibrate" in warning for warning in found)
