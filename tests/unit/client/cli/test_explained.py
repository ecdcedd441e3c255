"""Errors of the server in words of the command line."""

import pytest
from judged import DeadlineExceeded, InternalError, InvalidArgument, Unavailable
from judged.cli.output import explain, of_metrics


def invalid(field, rule="rule"):
    error = InvalidArgument(f"{field}: {rule}")
    error.field = field
    return error


class TestExplain:
    @pytest.mark.parametrize(
        ("field", "flag"),
        [
            ("judge.kind", "--judge"),
            ("judge.profile", "--profile"),
            ("start.judge.profile", "--profile"),
            ("judge.min_score", "--min-score"),
            ('judge.parameters["min_tokens"]', "--param min_tokens"),
            ("options.matching", "--matching"),
            ("metrics[1]", "--metric ap@x"),
        ],
    )
    def test_names_the_flag_of_a_field(self, field, flag):
        assert explain(invalid(field), of_metrics(["ndcg", "ap@x"])) == f"{flag}: rule"

    @pytest.mark.parametrize("field", ["groups[0].query", "metrics[7]"])
    def test_keeps_paths_it_does_not_know(self, field):
        assert explain(invalid(field), {}) == f"{field}: rule"

    def test_says_what_helps(self):
        assert "--timeout" in explain(DeadlineExceeded("no answer within 3 s"), {})
        assert explain(Unavailable("can't reach x"), {}) == "can't reach x"
        assert "request id 77" in explain(InternalError("internal error", request_id="77"), {})


class TestRules:
    def test_speak_of_what_was_typed(self):
        again = invalid("metrics[1]", "is ap again, as in metrics[0]")
        assert (
            explain(again, of_metrics(["ap", "ap()"]))
            == "--metric ap(): is ap again, as in --metric ap"
        )
