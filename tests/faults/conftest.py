"""No test of a fault may show a key, a text or a reply, whatever goes wrong in it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.fakes.authority import Authority
from tests.fakes.canaries import refuse_canaries
from tests.faults.loads import limited
from tests.integration.server_process import ServerProcess, running_server


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


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Who signs the certificates of a module."""
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def container() -> Iterator[ServerProcess]:
    """A server in a control group of 1 GiB, where one can be made here."""
    with ExitStack() as stack:
        server = stack.enter_context(running_server("--log-level", "warning"))
        with limited(server.process.pid):
            yield server
            stack.close()
