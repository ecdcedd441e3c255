"""Which rows have an answer for good, by what the server said of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from judged.arrow import Judging
from judged.errors import InternalError
from judged.values import (
    Flag,
    JudgeIdentity,
    QueryGroup,
    Source,
    Status,
    Verdict,
    VerdictError,
    Verdicts,
)

ROWS = ["good", "good", "bad", "good", "busy", "late", "bad", "wrong"]
ERRORS = {
    "busy": VerdictError(0, "RATE_LIMITED", "m", retryable=True),
    "late": VerdictError(0, "TIMEOUT", "m", retryable=False),
    "wrong": VerdictError(3, "TEXT_TOO_LONG", "m", retryable=False),
}


class Scripted(Judging):
    """A server whose calls with a text "bad" fail for a fault of its own; all do if it is down."""

    down = False

    def _call(self, client: Any, items: Sequence[QueryGroup], *how: Any) -> Verdicts:
        texts = [group.retrieved[0] for group in items]
        if self.down or "bad" in texts:
            raise InternalError("m", code="INTERNAL", reason="INTERNAL")
        verdicts = [
            Verdict(
                Status.ERROR if text in ERRORS else Status.OK,
                True,
                1.0,
                Source.COMPUTED,
                Flag.NONE,
                ERRORS.get(text),
            )
            for text in texts
        ]
        return Verdicts.of(
            verdicts, range(len(texts) + 1), JudgeIdentity("exact", "", 1.0, "exact|", "", "")
        )


class Down(Scripted):
    """A server that fails whatever it is asked."""

    down = True


def asked(texts: Sequence[str], kind: type[Scripted] = Scripted, **options: Any) -> Any:
    given = {"id": list(range(len(texts))), "query": texts, "gold": texts, "text": texts}
    return kind("127.0.0.1:9", "exact", expected="gold", retrieved="text", **options).ask(
        pa.table(given)
    )


def test_a_fault_of_the_server_is_that_of_the_row_that_brings_it_about():
    found = asked(ROWS)
    assert found.table["id"].to_pylist() == [0, 1, 2, 3, 6, 7]
    assert found.table["status"].to_pylist() == ["OK", "OK", "ERROR", "OK", "ERROR", "ERROR"]
    assert found.table["score"].to_pylist() == [1.0, 1.0, None, 1.0, None, None]
    assert dict(found.missing) == {"RATE_LIMITED: m": 1, "TIMEOUT: m": 1}


def test_a_row_that_stands_alone_has_its_fault_where_the_server_works():
    found = asked(["bad", "bad", "bad"]).table
    assert found["status"].to_pylist() == ["ERROR"] * 3
    assert found["error"].to_pylist() == ["INTERNAL: m"] * 3


def test_where_nothing_is_answered_it_may_pass():
    found = asked(["bad", "good", "bad"], Down)
    assert found.table.num_rows == 0
    assert dict(found.missing) == {"INTERNAL: m": 3}
    whole = asked(["bad"], Down, every_row=True).table
    assert whole["status"].to_pylist() == [None]
    assert whole["error"].to_pylist() == ["INTERNAL: m"]
