"""Lines and JSON from files, and the errors that name file and line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

import pytest
from judged import Flag, Status
from judged._files import (
    FileError,
    Record,
    parse_json,
    read_bytes,
    read_lines,
)
from judged._views import plain


def record(**fields):
    return Record(fields, "f.jsonl", 7, "results[2]")


class TestReading:
    def test_takes_off_a_byte_order_mark(self, tmp_path):
        path = tmp_path / "f"
        path.write_bytes(b"\xef\xbb\xbf{}\n{}")
        assert list(read_lines(path)) == [(1, b"{}\n"), (2, b"{}")]
        assert read_bytes(path).startswith(b"{}")


class TestParseJson:
    @pytest.mark.parametrize(
        ("raw", "problem"),
        [
            (b"{", "is not JSON: Expecting property name enclosed in double quotes at column 2"),
            (b"{}}", "is not JSON: Extra data at column 3"),
            (b'{"a": NaN}', "is not JSON: NaN is no JSON number"),
            (b'{"a": -Infinity}', "is not JSON: -Infinity is no JSON number"),
            (b'{"a": "\xff"}', "is not UTF-8: invalid start byte at byte 7"),
            (b'{"a": "\\ud800"}', "holds half of a surrogate pair"),
        ],
    )
    def test_names_line_and_problem(self, raw, problem):
        with pytest.raises(FileError) as caught:
            parse_json(raw, "f.jsonl", 7)
        assert str(caught.value).startswith(f"f.jsonl:7: {problem}")
        assert (caught.value.name, caught.value.line) == ("f.jsonl", 7)

    def test_reads_whole_pairs_of_surrogates(self):
        assert parse_json(b'"\\ud83d\\ude00"', "f", 1) == "\U0001f600"


class Size(StrEnum):
    LARGE = "large"


@dataclass
class Inner:
    name: str
    size: Size = Size.LARGE


@dataclass
class Outer:
    count: int
    share: float | None
    made: datetime | None = None
    status: Status = Status.OK
    flags: Flag = Flag.NONE
    sure: bool = False
    inner: Inner | str | None = None
    parts: Sequence[Inner] = ()
    named: Mapping[str, int | str] = field(default_factory=dict)
    votes: Sequence[bool | None] = ()


WHEN = datetime(2026, 1, 31, tzinfo=UTC)
WHOLE = Outer(
    3,
    0.5,
    WHEN,
    Status.ERROR,
    Flag.NO_TOKENS | Flag.TRUNCATED,
    True,
    Inner("a"),
    [Inner("b")],
    {"x": 1, "y": "true", "z": -1},
    [True, None],
)


def test_a_dataclass_is_read_as_its_types_say() -> None:
    written = plain(WHOLE) | {"made": WHEN.isoformat(), "other": 7}
    assert Record(written, "f", 1, "").read(Outer) == WHOLE
    assert record(count=1, share=None, inner="text").read(Outer) == Outer(1, None, inner="text")
    assert record(share=1).read(Outer, count=2) == Outer(2, 1.0)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "has no 'count'"),
        ({"count": -1}, "has 'count' that is not a whole number from 0"),
        ({"share": True}, "has 'share' that is not a number but true or false"),
        ({"share": 10**400}, "has 'share' that is not a number but too large for one"),
        ({"made": "soon"}, "has 'made' that is no time"),
        ({"status": "FINE"}, "has 'status' 'FINE'; it must be one of OK, ERROR"),
        ({"sure": 2}, "has 'sure' that is neither true nor false"),
        ({"inner": {"name": 1}}, "results[2].inner has 'name' that is not text but a number"),
        ({"parts": [{"name": "a", "size": "L"}]}, "results[2].parts[0] has 'size' 'L'; it must be"),
        ({"named": []}, "results[2].named must be an object, with braces"),
        ({"votes": ["yes"]}, "has 'votes[0]' that is neither true nor false"),
    ],
)
def test_what_a_type_does_not_allow_is_named(fields, problem) -> None:
    with pytest.raises(FileError) as caught:
        record(**({"count": 1} if fields else {}) | fields).read(Outer)
    start = "" if problem.startswith("results") else "results[2] "
    assert str(caught.value).startswith(f"f.jsonl:7: {start}{problem}")


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b'{"a": 1e999}', "holds 1e999, which is too large"),
        (b'{"b": {"a": [[1, -1e999]]}}', "holds -1e999, which is too large"),
        (b'{"a": 1, "a": 2}', "has 'a' twice"),
        (b'{"a": ' + b"9" * 5000 + b"}", "too many digits"),
        (b"[" * 200_000 + b"]" * 200_000, "nested too deeply"),
        ("{}".encode("utf-16"), "lines.jsonl:3: is UTF-16; save it as UTF-8"),
    ],
)
def test_json_that_python_or_a_writer_would_trip_over_is_refused(raw: bytes, problem: str) -> None:
    with pytest.raises(FileError, match=problem) as caught:
        parse_json(raw, "lines.jsonl", 3)
    assert caught.value.line == 3
