"""What is no right request is told so by HTTP, in one form, and the connection is let go."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz import http_requests
from tests.fuzz.http_requests import answer, fault_of
from tests.integration.http_calls import http_address
from tests.integration.server_process import ServerProcess, running_server, until

LARGE = "1" + "0" * 309


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with running_server("--http-listen", "127.0.0.1:0") as server:
        yield server


def post(path: str, body: str, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    lines += [*headers, f"Content-Length: {len(body.encode())}", "", body]
    return "\r\n".join(lines).encode("utf-8", "surrogateescape")


def group(fields: str, judge: str = '"kind": "exact"') -> bytes:
    return post("/v1/BatchJudge", f'{{"judge": {{{judge}}}, "groups": [{{{fields}}}]}}')


def vectors(expected: str) -> bytes:
    sides = f'"dimensions": 1, "expected": "{expected}", "retrieved": "AACAPw=="'
    return group(f'"embeddings": {{{sides}}}', '"kind": "semantic"')


REFUSED: dict[str, tuple[bytes, int, str]] = {
    "half a character": (post("/v1/BatchJudge", r'{"\ud800": 1}'), 400, r"\ud800: "),
    "the same, twice": (post("/v1/BatchJudge", r'{"\ud800": 1, "\ud800": 2}'), 400, r"\ud800: "),
    "two halves": (post("/v1/BatchJudge", r'{"\udc00\ud800": 1}'), 400, r"\udc00\ud800: "),
    "half a character of a map": (
        group(r'"grades": {"\udfff": 1}'), 400, r'groups[0].grades["\udfff"]: ',
    ),
    "half a character in a text": (group(r'"query": "\ud800"'), 400, "groups[0].query: "),
    "half a character in a list": (group(r'"expected": ["\ud800"]'), 400, "groups[0].expected"),
    "a name that is no text": (post("/v1/BatchJudge", r'{"\u001b[31m": 1}'), 400, r"\x1b[31m: "),
    "that stands twice": (post("/v1/Calibrate", r'{"\n": 1, "\n": 1}'), 400, r"\n: stands twice"),
    "a name that turns a line round": (post("/v1/Evaluate", '{"\u202e": 1}'), 400, r"\u202e: "),
    "a number of 310 digits": (
        group("", f'"kind": "exact", "min_score": {LARGE}'), 400, "judge.min_score: ",
    ),
    "a negative one": (
        group("", f'"kind": "exact", "min_score": -{LARGE}'), 400, "judge.min_score: ",
    ),
    "one in a map": (
        group("", f'"kind": "exact", "parameters": {{"a": {{"double_value": {LARGE}}}}}'), 400,
        "judge.parameters[\"a\"].double_value: ",
    ),
    **{
        f"a number as {text!r}": (
            group("", f'"kind": "exact", "min_score": "{text}"'), 400,
            "judge.min_score: takes numbers,",
        )
        for text in ("1_0", "\u0665", "1 ", "+1", "inf", "")
    },
    **{
        f"{number} for a name": (
            post("/v1/BatchJudge", f'{{"asking": {{"cache": {number}}}}}'), 400,
            "asking.cache: takes CACHE_MODE_USE",
        )
        for number in ("1.5", "-Infinity", "1e400", "NaN")
    },
    "one for a whole number": (
        post("/v1/GetUsage", f'{{"days": {LARGE}}}'), 400, "days: takes whole numbers from 0",
    ),
    "a sign that base64 has not": (vectors("AAC?APw=="), 400, "expected: must be base64"),
    "letters that are no ASCII": (vectors("\u00e9AACAPw=="), 400, "must be base64"),
    "a space in it": (vectors("AAC APw=="), 400, "must be base64"),
    "a half of it": (vectors("AACAPw==AACAPw=="), 400, "must be base64"),
    "a list of it": (
        group('"embeddings": {"dimensions": 1, "expected": ["AA=="]}'), 400, "must be base64",
    ),
    "one letter of it": (vectors("A"), 400, "must be base64"),
    "an origin that is none": (
        post("/v1/GetServerInfo", "{}", "Origin: http://["), 403, "origin: ",
    ),
    "a port that is none": (
        post("/v1/GetServerInfo", "{}", "Origin: http://x:99999"), 403, "origin: ",
    ),
    "what nobody expects": (post("/v1/BatchJudge", "{}", "Expect: \udcff"), 417, "expect: "),
    "that nobody expects elsewhere": (post("/v1/Nothing", "{}", "Expect: x"), 417, "expect: "),
    "a path that is no text": (post("/%1b", "{}"), 404, r"/\x1b: no such call"),
    "another method": (b"PUT /v1/BatchJudge HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "POST"),
    "no HTTP": (b"\x16\x03\x01 hello\r\n\r\n", 400, "this is no request of HTTP/1.1"),
    "a long header": (post("/v1/BatchJudge", "{}", "X: " + "y" * 9000), 400, "8190 bytes"),
    "a long path": (post("/" + "y" * 9000, "{}"), 400, "8190 bytes"),
    "two lengths": (
        post("/v1/BatchJudge", "{}", "Content-Length: 1"), 400, "this is no request of HTTP/1.1",
    ),
    "a chunk of no length": (
        b"POST /v1/GetUsage HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400,
        "this is no request of HTTP/1.1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_it_says_what_is_wrong(server: ServerProcess, name: str):
    sent, status, said = REFUSED[name]
    host, _, port = http_address(server).rpartition(":")
    found = answer((host, int(port)), sent, is_whole=True, answer_s=60)
    assert fault_of(sent, found) == (status, "")
    assert found is not None
    head, _, body = found.partition(b"\r\n\r\n")
    assert said in json.loads(body)["message"]
    assert b"aiohttp" not in head


def test_whatever_comes_is_answered(server: ServerProcess):
    descriptors = Path(f"/proc/{server.process.pid}/fd")
    before = len(list(descriptors.iterdir()))
    outcome = http_requests.run(http_address(server), 1500, seed=1, answer_s=60)
    assert outcome.faults == []
    assert outcome.statuses[200] > 20, "some are right"
    until(lambda: len(list(descriptors.iterdir())) < before + 10)
    assert '"bug"' not in server.log_text()
