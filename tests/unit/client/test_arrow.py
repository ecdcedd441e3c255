"""Which rows have an answer for good, by what the server said of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from judged.arrow import Judging, _Row
from judged.values import QueryGroup, VerdictError

ROWS = ["good", "good", "bad", "good", "busy", "late", "bad", "wrong"]
ERRORS = {
    "busy": VerdictError(0, "RATE_LIMITED", "m", retryable=True),
    "late": VerdictError(0, "TIMEOUT", "m", retryable=False),
    "wrong": VerdictError(3, "TEXT_TOO_LONG", "m", retryable=False),
}
BROKEN = VerdictError(0, "INTERNAL", "m", retryable=False)


class Scripted(Judging):
    """A server whose calls with a text "bad" fail for a fault of its own."""

    def _ask(self, *asked: Any) -> Iterator[tuple[Sequence[_Row], None]]:
        for chunk in asked[1]:
            texts = [group.retrieved[0] for group in chunk]
            if "bad" in texts:
                yield [_Row("ERROR", error=BROKEN)] * len(chunk), None
            else:
                yield [self._said(text) for text in texts], None

    def _said(self, text: str) -> _Row:
        if text in ERRORS:
            return _Row("ERROR", error=ERRORS[text], judge="j")
        return _Row("OK", True, 1.0, None, None, "COMPUTED", "j")


def asked(texts: Sequence[str], **options: Any) -> Any:
    given = {"id": list(range(len(texts))), "query": texts, "gold": texts, "text": texts}
    return Scripted("127.0.0.1:9", "exact", expected="gold", retrieved="text", **options).ask(
        pa.table(given)
    )


def test_a_fault_of_the_server_is_that_of_the_row_that_brings_it_about():
    found = asked(ROWS)
    assert found.table["id"].to_pylist() == [0, 1, 2, 3, 6, 7]
    assert found.table["status"].to_pylist() == ["OK", "OK", "ERROR", "OK", "ERROR", "ERROR"]
    assert dict(found.missing) == {"RATE_LIMITED: m": 1, "TIMEOUT: m": 1}


def test_where_nothing_was_answered_it_may_pass():
    found = asked(["bad", "bad", "bad"])
    assert found.table.num_rows == 0
    assert dict(found.missing) == {"INTERNAL: m": 3}
    whole = asked(["bad"], every_row=True).table
    assert whole["status"].to_pylist() == [None]
    assert whole["error"].to_pylist() == ["INTERNAL: m"]


def test_a_group_is_a_row():
    assert Judging()._item(0, {"query": "q", "retrieved": "r"}) == QueryGroup("q", [""], ["r"])
