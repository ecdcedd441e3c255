"""Lines and JSON from files, and the errors that name file and line."""

import gzip
import io

import pytest
from judged.evaluation.datasets.files import (
    FileError,
    Record,
    number_lines,
    parse_json,
    read_bytes,
    read_lines,
)


def record(**fields):
    return Record(fields, "f.jsonl", 7, "results[2]")


class TestReading:
    def test_numbers_lines_and_passes_over_blank_ones(self, tmp_path):
        path = tmp_path / "f"
        path.write_bytes(b"a\n\n  \nb")
        assert list(read_lines(path)) == [(1, b"a\n"), (4, b"b")]

    def test_reads_gzip_by_content_not_by_name(self, tmp_path):
        path = tmp_path / "f.txt"
        path.write_bytes(gzip.compress(b"a\nb\n"))
        assert list(read_lines(path)) == [(1, b"a\n"), (2, b"b\n")]

    def test_takes_off_a_byte_order_mark(self, tmp_path):
        path = tmp_path / "f"
        path.write_bytes(b"\xef\xbb\xbf{}\n{}")
        assert list(read_lines(path)) == [(1, b"{}\n"), (2, b"{}")]
        assert read_bytes(path).startswith(b"{}")

    def test_numbers_the_lines_of_an_open_file(self):
        assert list(number_lines(io.BytesIO(b"\nx\n"), "f")) == [(2, b"x\n")]

    def test_says_that_there_is_no_such_file(self, tmp_path):
        with pytest.raises(FileError, match="nowhere: there is no such file"):
            list(read_lines(tmp_path / "nowhere"))

    def test_says_that_a_folder_can_not_be_read(self, tmp_path):
        with pytest.raises(FileError, match="is a folder; name a file in it"):
            read_bytes(tmp_path)

    @pytest.mark.parametrize("cut", [3, 12, 25])
    def test_says_that_a_gzip_file_is_cut(self, tmp_path, cut):
        path = tmp_path / "f.gz"
        path.write_bytes(gzip.compress(b"some text that is long enough " * 9)[:cut])
        with pytest.raises(FileError, match="is not a whole gzip file"):
            list(read_lines(path))


class TestParseJson:
    @pytest.mark.parametrize(
        ("raw", "problem"),
        [
            (b"{", "is not JSON: Expecting property name enclosed in double quotes at column 2"),
            (b"{}}", "is not JSON: Extra data at column 3"),
            (b'{"a": NaN}', "is not JSON: NaN is no JSON number"),
            (b'{"a": -Infinity}', "is not JSON: -Infinity is no JSON number"),
            (b"[" * 100_000, "is nested too deeply"),
            (b'{"a": "\xff"}', "is not UTF-8: invalid start byte at byte 7"),
            (b'{"a": "\\ud800"}', "holds half of a surrogate pair"),
            (b"1" * 5000, "holds a whole number with too many digits"),
        ],
    )
    def test_names_line_and_problem(self, raw, problem):
        with pytest.raises(FileError) as caught:
            parse_json(raw, "f.jsonl", 7)
        assert str(caught.value).startswith(f"f.jsonl:7: {problem}")
        assert (caught.value.name, caught.value.line) == ("f.jsonl", 7)

    def test_names_the_line_inside_a_whole_document(self):
        with pytest.raises(FileError, match=r"^f\.json: is not JSON: .* at line 2 column 1$"):
            parse_json(b"[1\n2]", "f.json", None)

    def test_reads_whole_pairs_of_surrogates(self):
        assert parse_json(b'"\\ud83d\\ude00"', "f", 1) == "\U0001f600"


class TestRecord:
    def test_takes_the_first_name_that_is_there(self):
        assert record(id="b").text("query_id", "id") == "b"
        assert record(query_id=None, id="b").text("query_id", "id") == "b"

    def test_reads_whole_numbers_as_ids(self):
        assert record(id=17).identifier("id") == "17"
        assert record(ids=[1, "b"]).identifiers("ids") == ["1", "b"]

    def test_has_nothing_where_optional_fields_are_missing_or_null(self):
        fields = record(score=None)
        assert fields.optional_number("score") is None
        assert fields.optional_text("text") is None
        assert fields.optional_identifier("id") is None
        assert fields.texts("texts") == []

    @pytest.mark.parametrize(
        ("read", "problem"),
        [
            (lambda r: r.text("none"), "has no 'none'"),
            (lambda r: r.text("number"), "has 'number' that is not text but a number"),
            (lambda r: r.identifier("none"), "has no 'none'"),
            (lambda r: r.identifier("empty"), "has no 'empty'"),
            (lambda r: r.identifier("true"), "has 'true' that is neither text nor a whole number"),
            (lambda r: r.identifiers("mixed"), "has 'mixed' that is neither text nor a whole"),
            (lambda r: r.texts("empty"), "has 'empty' that is not a list but text"),
            (lambda r: r.texts("mixed"), "has 'mixed' that holds null instead of text"),
            (lambda r: r.optional_number("true"), "has 'true' that is not a number but true or"),
            (lambda r: r.optional_number("huge"), "has 'huge' that is too large for a number"),
            (lambda r: r.optional_number("giant"), "has 'giant' that is too large for a number"),
            (lambda r: r.optional_text("object"), "has 'object' that is not text but an object"),
        ],
    )
    def test_refuses_wrong_fields_and_names_them(self, read, problem):
        fields = record(
            number=1, empty="", true=True, mixed=["a", None], huge=1e400, giant=10**400, object={}
        )
        with pytest.raises(FileError) as caught:
            read(fields)
        assert str(caught.value).startswith(f"f.jsonl:7: results[2] {problem}")

    @pytest.mark.parametrize("value", [None, [], "text", 3])
    def test_must_be_an_object(self, value):
        with pytest.raises(FileError, match=r"^f:1: must be an object, with braces$"):
            Record(value, "f", 1, "")


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b'{"a": 1e999}', "has 'a' that is too large"),
        (b'{"b": {"a": [[1, -1e999]]}}', "has 'a' that is too large"),
        (b'{"a": 1, "a": 2}', "has 'a' twice"),
        (b'{"a": ' + b"9" * 5000 + b"}", "too many digits"),
        (b"[" * 200_000 + b"]" * 200_000, "nested too deeply"),
        (b"{\n", "one line"),
        (b"query,expected,retrieved\n", "looks like CSV"),
        (b"query;expected\n", "looks like CSV, and JSON lines are read here"),
        (b"q1 Q0 d1 1\n", "looks like TREC"),
        ("{}".encode("utf-16"), "lines.jsonl:3: is UTF-16; save it as UTF-8"),
        ('{"a": 1}'.encode("utf-16-le"), "as UTF-16 does: save it as UTF-8"),
    ],
)
def test_json_that_python_or_a_writer_would_trip_over_is_refused(raw: bytes, problem: str) -> None:
    with pytest.raises(FileError, match=problem) as caught:
        parse_json(raw, "lines.jsonl", 3)
    assert caught.value.line == 3


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b'{"a": 1}\n{"a": 2}\n', "this looks like JSON lines, and one JSON value is read here"),
        (b"a;b\n1;2\n", "this looks like CSV, and one JSON value is read here"),
        (b'{"a": 1,\n"b"}\n', r"is not JSON: Expecting ':' delimiter at line 2 column 4$"),
    ],
)
def test_a_whole_file_of_another_format_is_told(raw: bytes, problem: str) -> None:
    with pytest.raises(FileError, match=problem):
        parse_json(raw, "whole.json", None)


def test_an_unfinished_text_is_told_in_one_at() -> None:
    with pytest.raises(FileError, match="starting at column"):
        parse_json(b'{"a": "b', "lines.jsonl", 1)


def test_a_null_is_called_null_and_a_known_field_is_no_misspelling() -> None:
    with pytest.raises(FileError, match="no 'retrieved_text': it is null"):
        Record({"expected_text": "a", "retrieved_text": None}, "f", 1, "").text("retrieved_text")
    with pytest.raises(FileError) as caught:
        Record({"query_text": "a"}, "f", 1, "").identifier("query_id")
    assert "query_text" not in str(caught.value)
