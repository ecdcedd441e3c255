"""Calls by HTTP and JSON on a real server: replies, errors, limits, deadlines, drain, TLS."""

from __future__ import annotations

import gzip
import http.client
import json
import shutil
import signal
import socket
import ssl
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from judged import Client, QueryGroup

from tests.fakes.authority import Authority
from tests.integration.access.test_tls import flags, wait_for_line
from tests.integration.http_calls import ask, client_context, connect, http_address
from tests.integration.server_process import ServerProcess, running_server, until

GROUP = {"query": "q", "expected": ["red green blue"], "retrieved": ["red green"]}
LIMITS = ("--max-message-bytes", "65536", "--max-pending-bytes", "1048576")


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with running_server("--http-listen", "127.0.0.1:0", *LIMITS) as ready:
        yield ready


@pytest.fixture(scope="module")
def address(server: ServerProcess) -> str:
    return http_address(server)


class TestReplies:
    def test_are_those_of_grpc(self, server: ServerProcess, address: str):
        told = ask(address, "/v1/BatchJudge", {"groups": [GROUP]})
        assert told.status == 200
        assert told.headers["content-type"] == "application/json"
        assert told.headers["x-request-id"]
        with Client(server.address) as client:
            verdicts = client.judge([QueryGroup("q", ["red green blue"], ["red green"])])
        assert told.json["verdicts"]["relevant"] == verdicts.relevant
        assert told.json["verdicts"]["score"] == verdicts.score
        assert told.json["judge"]["fingerprint"] == verdicts.judge.fingerprint


class TestErrors:
    def test_tell_no_text_to_the_log_and_no_value_to_the_caller(
        self, server: ServerProcess, address: str
    ):
        for body in (
            {"groups": [{**GROUP, "query": ["sk-canary"]}]},
            {"groups": [{**GROUP, "expected": ["sk-canary"]}], "judge": {"min_score": "sk-canary"}},
            {"groups": [GROUP], "asking": {"cache": "sk-canary"}},
            b'{"groups": [{"query": "sk-canary"',
        ):
            told = ask(address, "/v1/BatchJudge", body, {"Authorization": "Bearer sk-canary"})
            assert told.status == 400
            assert b"canary" not in told.body
        assert "canary" not in server.log_text()

    @pytest.mark.parametrize(
        "sent",
        [
            b"POST / HTTP/1.1\r\nAuthorization: Bearer canary-token-91ee\x01\r\n\r\n",
            b"POST / HTTP/1.1\r\nAuthorization: " + b"canary-token-91ee" * 600 + b"\r\n\r\n",
            # A message that is longer than its sender says goes on as what is no request.
            b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}canary-token-91ee: x\r\n\r\n",
            (
                b"POST /v1/BatchJudge HTTP/1.1\r\nContent-Type: application/json\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n5\r\n{canary-token-91ee\r\n"
            ),
        ],
    )
    def test_what_is_no_http_is_logged_without_what_it_says(
        self, server: ServerProcess, address: str, sent: bytes
    ):
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), 60) as connection:
            connection.sendall(sent)
            while connection.recv(65536):
                pass
        assert ask(address, "/v1/GetServerInfo", {}).status == 200
        assert "canary-token" not in server.log_text()
        assert "Traceback" not in server.log_text()

    def test_paths_and_methods_that_are_none(self, address: str):
        told = ask(address, "/v1/Nothing", {})
        assert (told.status, told.json["code"]) == (404, 5)
        said = "/v1/Nothing: no such call by HTTP; /openapi.json has them"
        assert told.json["message"] == said
        told = ask(address, "/v1/BatchJudge", method="GET")
        assert (told.status, told.json["code"], told.headers["allow"]) == (405, 12, "POST")

    def test_a_web_page_of_somewhere_can_not_call(self, address: str):
        told = ask(address, "/v1/GetServerInfo", {}, {"Origin": "http://rebound.example:8471"})
        assert (told.status, told.json["code"]) == (403, 7)
        for page in ("http://localhost:3000", "http://127.0.0.1"):
            assert ask(address, "/v1/GetServerInfo", {}, {"Origin": page}).status == 200

    @pytest.mark.parametrize("path", ["/openapi.json", "/healthz", "/readyz", "/v1/GetServerInfo"])
    def test_a_name_that_was_made_to_stand_for_this_machine_is_refused(
        self, address: str, path: str
    ):
        body: dict[str, object] | None
        body, method = ({}, "POST") if path.startswith("/v1") else (None, "GET")
        for host in ("rebound.example:8471", "localhost.rebound.example", "10.0.0.1", "[", ""):
            told = ask(address, path, body, {"Host": host}, method=method)
            assert (told.status, told.json["code"]) == (403, 7), host
        for host in ("localhost", "LOCALHOST:8471", "127.0.0.1:1", "[::1]:8471"):
            assert ask(address, path, body, {"Host": host}, method=method).status == 200, host


class TestLimits:
    def test_a_body_above_the_limit_is_refused(self, address: str):
        told = ask(address, "/v1/BatchJudge", {"request_id": "x" * 70_000})
        assert (told.status, told.reason) == (400, "LIMIT_EXCEEDED")

    def test_but_not_above_the_limit(self, address: str):
        bomb = gzip.compress(b" " * (40 << 20))
        assert len(bomb) < 1 << 16
        told = ask(address, "/v1/BatchJudge", bomb, {"Content-Encoding": "gzip"})
        assert (told.status, told.reason) == (400, "LIMIT_EXCEEDED")
        lies = bomb[:-4] + (100).to_bytes(4, "little")
        told = ask(address, "/v1/BatchJudge", lies, {"Content-Encoding": "gzip"})
        assert (told.status, told.reason) == (400, "MALFORMED_MESSAGE")

    def test_a_body_that_ends_too_soon_is_nothing(self, server: ServerProcess, address: str):
        host, port = address.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as raw:
            raw.sendall(
                b"POST /v1/BatchJudge HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Type: application/json\r\n"
                b"X-Request-Id: cut-off\r\nContent-Length: 100\r\n\r\n{"
            )
        until(lambda: '"cut-off"' in server.log_text())
        assert "bug" not in server.log_text()


class TestDeadlines:
    def test_the_callers_own(self, address: str, server: ServerProcess):
        told = ask(address, "/v1/GetServerInfo", {}, {"grpc-timeout": "1n"})
        assert (told.status, told.reason) == (504, "DEADLINE_EXCEEDED")
        assert told.headers["x-request-id"]
        named = {"grpc-timeout": "1n", "x-request-id": "mine"}
        assert ask(address, "/v1/GetServerInfo", {}, named).headers["x-request-id"] == "mine"
        assert ask(address, "/v1/GetServerInfo", {}, {"grpc-timeout": "30S"}).status == 200


def half_sent(address: str, **headers: str) -> http.client.HTTPConnection:
    """Return a call that is in work: its message has not come in whole."""
    body = json.dumps({"groups": [GROUP]}).encode()
    connection = connect(address)
    connection.putrequest("POST", "/v1/BatchJudge")
    connection.putheader("content-type", "application/json")
    connection.putheader("content-length", str(len(body)))
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders(body[:5])
    return connection


def test_a_drain_lets_calls_end_and_turns_new_ones_away():
    with running_server("--http-listen", "127.0.0.1:0") as server:
        address = http_address(server)
        body = json.dumps({"groups": [GROUP]}).encode()
        assert ask(address, "/readyz", method="GET").status == 200
        mine = half_sent(address)
        # It has begun once a call on the same loop that came later has ended.
        assert ask(address, "/v1/GetServerInfo", {}).status == 200
        server.process.send_signal(signal.SIGTERM)
        until(lambda: ask(address, "/readyz", method="GET").status == 503)
        assert ask(address, "/healthz", method="GET").status == 200
        told = ask(address, "/v1/BatchJudge", body)
        assert (told.status, told.reason) == (503, "DRAINING")
        assert told.headers["retry-after"] == "1"
        mine.send(body[5:])
        reply = mine.getresponse()
        assert reply.status == 200
        assert json.loads(reply.read())["verdicts"]["relevant"] == [True]
        mine.close()
        assert server.process.wait(30) == 0


def test_a_drain_does_not_wait_for_who_does_not_read():
    given = ("--http-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0")
    with running_server(*given) as server, ExitStack() as stack:
        ports = wait_for_line(server, "ready")
        for address, path in ((ports["http"], "/openapi.json"), (ports["metrics"], "/metrics")):
            host, _, port = address.partition(":")
            unread = stack.enter_context(socket.create_connection((host, int(port)), timeout=60))
            unread.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 300)
            assert ask(address, "/healthz", method="GET").status == 200
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(8) == 0


def test_a_caller_who_leaves_ends_the_call(address: str, server: ServerProcess):
    mine = half_sent(address)
    # It has begun once a call on the same loop that came later has ended.
    assert ask(address, "/v1/GetServerInfo", {}).status == 200
    mine.close()
    until(
        lambda: any(
            '"CANCELLED"' in line and "BatchJudge" in line
            for line in server.log_text().splitlines()
        )
    )


class TestWhereItListens:
    def test_a_socket_for_owner_and_group_only(self, tmp_path: Path):
        path = tmp_path / "http.sock"
        given = ("--http-listen", f"unix:{path}", "--default-deadline-s", "0.3")
        with running_server(*given) as server:
            assert http_address(server) == f"unix:{path}"
            assert stat.S_IMODE(path.stat().st_mode) == 0o660
            patient = {"grpc-timeout": "1M"}
            told = ask(f"unix:{path}", "/v1/BatchJudge", {"groups": [GROUP]}, patient)
            assert told.status == 200
            # Who names no deadline has that of the server.
            connection = half_sent(f"unix:{path}")
            waiting = connection.getresponse()
            assert waiting.status == 504
            assert b"the call was stopped after 0.3 s" in waiting.read()
            connection.close()
        assert not path.exists()

    def test_the_certificate_is_that_of_grpc_and_is_replaced_in_place(self, tmp_path: Path):
        authority = Authority(tmp_path)
        own = authority.server()
        tls = client_context(authority.ca)
        with running_server(*flags(own), "--http-listen", "127.0.0.1:0") as server:
            address = http_address(server)
            standing = connect(address, tls)
            standing.request("GET", "/healthz")
            assert standing.getresponse().read() == b"ok\n"
            first = serial(standing)
            with pytest.raises((http.client.HTTPException, ConnectionError)):
                ask(address, "/healthz", method="GET")  # no TLS

            for old, new in zip(own, authority.issue("new", *_names(own[0])), strict=True):
                shutil.copy(new, old)
            wait_for_line(server, "certificate read")

            def replaced() -> bool:
                connection = connect(address, tls)
                connection.request("GET", "/healthz")
                assert connection.getresponse().read() == b"ok\n"
                shown = serial(connection)
                connection.close()
                return shown != first

            until(replaced)
            standing.request("GET", "/healthz")
            assert standing.getresponse().read() == b"ok\n"
            standing.close()


def serial(connection: http.client.HTTPConnection) -> str:
    """Return the number of the certificate that the server showed."""
    assert isinstance(connection.sock, ssl.SSLSocket)
    return str((connection.sock.getpeercert() or {})["serialNumber"])


def _names(certificate: Path):
    from cryptography import x509

    loaded = x509.load_pem_x509_certificate(certificate.read_bytes())
    return list(loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
