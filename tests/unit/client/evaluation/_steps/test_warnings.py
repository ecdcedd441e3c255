"""What is said of an evaluation beside its numbers."""

import pytest
from judged import Verdicts
from judged.evaluation._steps.warnings import (
    count_warnings,
    reason_warnings,
    reasons_of,
    verdict_warnings,
)
from judged.types import JudgeIdentity, MetricCounts, VerdictCounts, VerdictError


class TestWarnings:
    def test_are_none_where_all_is_well(self):
        assert list(count_warnings(MetricCounts(queries=3, evaluated=3))) == []
        assert list(verdict_warnings(VerdictCounts(ok=3, relevant=1))) == []

    def test_tell_what_was_left_out(self):
        counts = MetricCounts(skipped_no_gold=1, skipped_unsettled=2, duplicates=3)
        first, second, third = count_warnings(counts)
        assert first.startswith("1 query left out: nothing to be found")
        assert second.startswith("2 queries left out of the means: missing verdicts")
        assert third.startswith("3 repeated results dropped")

    def test_tell_what_is_wrong_with_verdicts(self):
        counts = VerdictCounts(
            ok=5, error=2, not_assessable=1, flagged_no_tokens=4, flagged_truncated=3
        )
        first, second, third = verdict_warnings(counts)
        assert first == "3 of 8 verdicts are missing: 2 failed, 1 not assessable"
        assert "--profile unicode" in second
        assert third.startswith("3 of 8 verdicts are about a text longer than the model's window")

    def test_tell_of_one_in_the_singular(self):
        (first,) = verdict_warnings(VerdictCounts(error=1))
        assert first == "1 of 1 verdict is missing: 1 failed"

    @pytest.mark.parametrize(
        ("flagged", "said"), [(1, "1 verdict is flagged"), (2, "2 verdicts are flagged")]
    )
    def test_tell_of_texts_that_may_be_meant_for_the_model(self, flagged, said):
        (warning,) = verdict_warnings(VerdictCounts(ok=3, flagged_reserved_tokens=flagged))
        assert warning.startswith(f"{said} RESERVED_TOKENS: ")


def test_the_commonest_reasons_of_missing_verdicts_are_told():
    errors = {
        i: VerdictError(13, reason, "m", False) for i, reason in enumerate("AABBBCD", start=1)
    }
    identity = JudgeIdentity("llm", "", 0.5, "", "", "")
    verdicts = Verdicts([False] * 8, [0] * 8, [2] * 8, [1] * 8, [0] * 8, [0, 8], errors, identity)
    assert list(reason_warnings(reasons_of(verdicts))) == [
        "3 verdicts missing: B: m",
        "2 verdicts missing: A: m",
        "1 verdict missing: C: m",
    ]
