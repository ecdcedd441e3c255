"""What is said of an evaluation beside its numbers."""

import pytest
from judged import QueryGroup, Verdicts
from judged.evaluation.warnings import (
    balance_of_lengths,
    blind_warnings,
    count_warnings,
    reason_warnings,
    reasons_of,
    verdict_warnings,
)
from judged.values import JudgeIdentity, MetricCounts, VerdictCounts, VerdictError


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

    def test_tell_of_what_was_read_in_part(self):
        (warning,) = verdict_warnings(VerdictCounts(ok=3, flagged_unknown_tokens=2))
        assert warning.startswith(
            "2 of 3 verdicts are about a text of which the judge does not read"
        )

    def test_tell_of_one_in_the_singular(self):
        (first,) = verdict_warnings(VerdictCounts(error=1))
        assert first == "1 of 1 verdict is missing: 1 failed"

    @pytest.mark.parametrize(
        ("flagged", "said"), [(1, "1 of 3 verdicts is flagged"), (2, "2 of 3 verdicts are flagged")]
    )
    def test_tell_of_texts_that_may_be_meant_for_the_model(self, flagged, said):
        (warning,) = verdict_warnings(VerdictCounts(ok=3, flagged_reserved_tokens=flagged))
        assert warning.startswith(f"{said} RESERVED_TOKENS: ")


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
            ("semantic", 0.8, VerdictCounts(ok=20), LONG, "at 0.8"),
            ("semantic", 0.75, VerdictCounts(ok=20), ALIKE, "none of 20 verdicts is relevant"),
            ("token_overlap", 0.6, VerdictCounts(ok=20), LONG, "token_overlap at 0.6"),
            ("llm", 0.5, VerdictCounts(ok=30, abstained=9), ALIKE, "none of 30 verdicts"),
            # And these are well, or too few to say.
            ("semantic", 0.75, VerdictCounts(ok=20, relevant=1), ALIKE, None),
            ("semantic", 0.3, VerdictCounts(ok=20, relevant=1), LONG, None),
            ("token_overlap", 0.6, VerdictCounts(ok=20, relevant=1), LONG, None),
            ("semantic", 0.75, VerdictCounts(ok=19), LONG, None),
            ("semantic", 0.75, VerdictCounts(error=20), LONG, None),
        ],
    )
    def test_are_told_of_once(self, kind, min_score, counts, groups, said):
        lengths = balance_of_lengths(groups)
        found = list(blind_warnings(judge(kind, min_score), counts, lengths))
        assert len(found) == (said is not None)
        assert all(said in warning and "judged calibrate" in warning for warning in found)

    def test_nothing_is_said_without_a_judge_or_verdicts(self):
        assert list(blind_warnings(None, VerdictCounts(ok=20), 1)) == []
        assert list(blind_warnings(judge("semantic"), None, 1)) == []

    def test_empty_texts_are_not_much_longer(self):
        assert balance_of_lengths([QueryGroup("", [""], ["", "x"])]) == -2


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
