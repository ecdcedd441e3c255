"""What is no right request is told so by HTTP, in one form, and the connection is let go."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import http_requests
from tests.fuzz.http_requests import answer, fault_of
from tests.integration.http_calls import http_address
from tests.integration.server_process import ServerProcess, running_server, until


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with running_server("--http-listen", "127.0.0.1:0") as server:
        yield server


DATA = Path(__file__).parents[2] / "data" / "refused_http_requests.jsonl"
REFUSED = {case["note"]: case for case in map(json.loads, DATA.read_text().splitlines())}
"""Requests as they are sent, each with the status and some words of its reply."""


def sent_of(case: dict[str, Any]) -> bytes:
    text: str = case["sent"].replace("$LARGE", "1" + "0" * 309).replace("$LONG", "y" * 9000)
    return text.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("name", REFUSED)
def test_it_says_what_is_wrong(server: ServerProcess, name: str):
    case = REFUSED[name]
    sent = sent_of(case)
    host, _, port = http_address(server).rpartition(":")
    found = answer((host, int(port)), sent, is_whole=True, answer_s=60)
    assert fault_of(sent, found) == (case["status"], "")
    head, _, body = found.partition(b"\r\n\r\n")
    assert case["said"] in json.loads(body)["message"]
    assert b"aiohttp" not in head


def test_whatever_comes_is_answered(server: ServerProcess):
    descriptors = Path(f"/proc/{server.process.pid}/fd")
    before = len(list(descriptors.iterdir()))
    outcome = http_requests.run(http_address(server), 1500, seed=1, answer_s=60)
    assert outcome.faults == []
    assert outcome.statuses[200] > 20, "some are right"
    until(lambda: len(list(descriptors.iterdir())) < before + 10)
    assert '"bug"' not in server.log_text()
