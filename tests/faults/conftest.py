"""No test of a fault may show a key, a text or a reply, whatever goes wrong in it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.fakes.canaries import refuse_canaries


@pytest.fixture(autouse=True)
def nothing_is_shown(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> Iterator[None]:
    caplog.set_level(logging.INFO)
    yield
    for record in caplog.get_records("call"):
        refuse_canaries("the log", f"{record.getMessage()} {record.exc_text or ''}")
    printed = capfd.readouterr()
    refuse_canaries("standard output", printed.out)
    refuse_canaries("standard error", printed.err)
