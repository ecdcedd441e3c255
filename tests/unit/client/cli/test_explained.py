"""Errors of the server in words of the command line."""

from judged import DeadlineExceeded, InternalError, InvalidArgument, Unavailable
from judged.cli.output import explain, of_metrics


def invalid(field, rule="rule"):
    error = InvalidArgument(f"{field}: {rule}")
    error.field = field
    return error


class TestExplain:
    def test_says_what_helps(self):
        assert "--timeout" in explain(DeadlineExceeded("no answer within 3 s"), {})
        assert explain(Unavailable("can't reach x"), {}) == "can't reach x"
        assert "request id 77" in explain(InternalError("internal error", request_id="77"), {})


class TestRules:
    def test_speak_of_what_was_typed(self):
        again = invalid("metrics[1]", "repeats metrics[0]")
        assert explain(again, of_metrics(["ap", "ap()"])) == "--metric ap(): repeats metrics[0]"
