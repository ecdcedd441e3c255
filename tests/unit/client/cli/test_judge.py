"""The lines of `judged judge`."""

from judged import Context, Flag, Source, Status, Verdict, VerdictError
from judged.cli.context_lines import Line
from judged.cli.judge import judged_line

LINE = Line(1, {"id": 7, "query": "q", "score": 12.5}, [Context("q", "e", "r")])


def verdict(status=Status.OK, relevant=True, score=0.75, flags=Flag.NONE, error=None):
    return Verdict(status, relevant, score, Source.COMPUTED, flags, error)


class TestJudgedLine:
    def test_adds_the_verdict_behind_the_fields_of_the_line(self):
        assert list(judged_line(LINE, verdict()).items()) == [
            ("id", 7),
            ("query", "q"),
            ("status", "OK"),
            ("relevant", True),
            ("score", 0.75),
            ("source", "COMPUTED"),
        ]

    def test_names_flags(self):
        fields = judged_line(LINE, verdict(flags=Flag.NO_TOKENS | Flag.WINDOWED))
        assert fields["flags"] == ["NO_TOKENS", "WINDOWED"]

    def test_has_neither_score_nor_decision_where_there_is_no_verdict(self):
        error = VerdictError(3, "TEXT_TOO_LONG", "too long", False)
        fields = judged_line(LINE, verdict(Status.ERROR, None, None, error=error))
        assert fields["status"] == "ERROR"
        assert fields["relevant"] is None
        assert fields["score"] is None
        assert fields["error"] == {"reason": "TEXT_TOO_LONG", "message": "too long"}
