"""The lines of `judged judge`."""

import io
import sys

import pytest
from judged import Context, Flag, Source, Status, Verdict, VerdictError
from judged._chunks import fold
from judged.cli.judge import Line, judged_line, places, read_contexts
from judged.evaluation import FileError

LINE = Line(1, {"id": 7, "query": "q", "score": 12.5}, Context("q", "e", "r"))


def verdict(status=Status.OK, relevant=True, score=0.75, flags=Flag.NONE, error=None):
    return Verdict(status, relevant, score, Source.COMPUTED, flags, error)


class TestReadContexts:
    def test_keeps_numbers_and_other_fields(self, tmp_path):
        path = tmp_path / "c.jsonl"
        path.write_text('\n{"query": "", "expected_text": "e", "retrieved_text": "r", "n": 1}\n')
        (line,) = read_contexts(str(path))
        assert (line.number, line.context, line.fields["n"]) == (2, Context("", "e", "r"), 1)

    def test_reads_standard_input(self, monkeypatch):
        raw = b'{"query": "q", "expected_text": "e", "retrieved_text": "r"}'
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
        assert len(read_contexts("-")) == 1

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("", ": holds nothing to judge; write lines of {query, expected_text, retrieved_text}"),
            ("[]", ":1: must be an object"),
            ('{"query": "q", "expected_text": "e"}', ":1: has no 'retrieved_text'"),
            (
                '{"query": "q", "expected_text": ["e"], "retrieved_text": "r"}',
                ":1: has 'expected_text' that is not text but a list",
            ),
        ],
    )
    def test_names_the_line_that_is_wrong(self, tmp_path, text, problem):
        path = tmp_path / "c.jsonl"
        path.write_text(text)
        with pytest.raises(FileError) as caught:
            read_contexts(str(path))
        assert str(caught.value).startswith(f"{path}{problem}")


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


class TestPlaces:
    def test_finds_the_line_of_a_field(self):
        texts = [("q", "e0", "r0"), ("q", "e1", "r0"), ("q", "e0", "r1"), ("q", "e1", "r1")]
        contexts = [Context(*t) for t in [("first", "e", "r"), *texts]]
        groups = fold(contexts)
        assert len(groups) == 2
        lines = [Line(10 + i, {}, context) for i, context in enumerate(contexts)]
        place = places("f", lines, groups)
        assert place("groups[0].query") == "f:10: 'query'"
        assert place("groups[1].expected[1]") == "f:12: 'expected_text'"
        assert place("groups[1].retrieved[1]") == "f:13: 'retrieved_text'"
        assert place("judge.kind") is None
