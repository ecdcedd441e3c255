"""What is said of an evaluation beside its numbers."""

import pytest
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


class TestBlindJudges:
    @pytest.mark.parametrize(
        ("counts", "told"),
        [
            (VerdictCounts(ok=20), True),
            (VerdictCounts(ok=20, relevant=1), False),
            (VerdictCounts(ok=19), False),
        ],
    )
    def test_are_told_of(self, counts, told):
        judge = JudgeIdentity("semantic", "", 0.75, "", "", "")
        found = list(blind_warnings(judge, counts))
        assert ["semantic at 0.75 does not suit them" in warning for warning in found] == [
            True
        ] * told
