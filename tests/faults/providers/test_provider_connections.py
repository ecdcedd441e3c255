"""Connections that fail, and those that must never be made."""

from __future__ import annotations

import socket
import ssl
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme
from judged_server.llm.chat import Reason

from tests.fakes.providers.faulty_http import (
    always,
    completion,
    faulty_http,
    reply,
)
from tests.faults.providers.provider import GOOD, REQUEST, fault_of, models_at, reset


class TestConnecting:
    async def test_refused(self):
        with socket.socket() as closed:  # bound, so that no other test can listen there
            closed.bind(("127.0.0.1", 0))
            port = closed.getsockname()[1]
            async with models_at(f"http://127.0.0.1:{port}") as model:
                fault = await fault_of(model)
        assert (fault.reason, fault.retryable) == (Reason.PROVIDER_UNREACHABLE, True)
        assert 3 <= fault.attempts <= 40
        assert "is it running?" in fault.message

    async def test_reset(self):
        async with faulty_http(reset) as server, models_at(server.url) as model:
            fault = await fault_of(model)
        assert fault.reason is Reason.PROVIDER_UNREACHABLE
        assert 3 <= fault.attempts == len(server.requests) <= 40

    async def test_a_name_server_that_is_silent(self, monkeypatch):
        """Nobody waits for the thread that asks it."""
        answered = threading.Event()

        def wait(*_: object, **__: object) -> None:
            answered.wait(60)
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

        monkeypatch.setattr(socket, "getaddrinfo", wait)
        try:
            async with models_at("https://nowhere.invalid/v1") as model:
                fault = await fault_of(model, 0.2)
                assert (fault.reason, fault.retryable) == (Reason.TIMEOUT, True)
                assert not answered.is_set()
        finally:
            answered.set()

    @pytest.mark.parametrize("case", ["unknown authority", "expired", "other host"])
    async def test_bad_certificates(self, case, tmp_path):
        authority = trustme.CA()
        host = "elsewhere.test" if case == "other host" else "127.0.0.1"
        ends = datetime(2020, 1, 1, tzinfo=UTC) if case == "expired" else None
        begins = datetime(2019, 1, 1, tzinfo=UTC) if ends else None
        certificate = authority.issue_cert(host, not_after=ends, not_before=begins)
        trusted = {} if case == "unknown authority" else {"ca_file": written(authority, tmp_path)}
        async with (
            faulty_http(always(GOOD), tls=tls_of(certificate)) as server,
            models_at(server.url, **trusted) as model,
        ):
            fault = await fault_of(model)
        assert (fault.reason, fault.retryable) == (Reason.PROVIDER_UNREACHABLE, False)
        assert "certificate is not trusted" in fault.message
        assert (fault.attempts, server.requests) == (1, [])

    async def test_good_certificates(self, tmp_path):
        authority = trustme.CA()
        tls = tls_of(authority.issue_cert("127.0.0.1"))
        async with (
            faulty_http(always(GOOD), tls=tls) as server,
            models_at(server.url, ca_file=written(authority, tmp_path)) as model,
        ):
            assert (await model.complete(REQUEST, 100.0)).reply.text == "YES"


def tls_of(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


def written(authority: trustme.CA, folder: Path) -> str:
    path = folder / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return str(path)


@pytest.mark.parametrize("status", ["301 A", "302 B", "303 C", "307 D", "308 E"])
async def test_redirects_are_not_followed(status):
    async with faulty_http(always(GOOD)) as canary:
        bad = reply(b"", status, f"Location: {canary.url}/v1")
        async with faulty_http(always(bad)) as server, models_at(server.url) as model:
            fault = await fault_of(model)
        assert len(server.requests) == 1
        assert (canary.connections, canary.requests) == (0, [])
    assert (fault.reason, fault.retryable) == (Reason.PROVIDER_ERROR, False)
    assert "redirect" in fault.message


async def test_proxies_of_the_environment_and_cookies_are_not_used(monkeypatch):
    cookie = reply(completion(), "200 OK", "Set-Cookie: a=canary; Path=/")
    async with faulty_http(always(GOOD)) as proxy, faulty_http(always(cookie)) as server:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        async with models_at(server.url) as model:
            for _ in range(2):
                await model.complete(REQUEST, 100.0)
    assert proxy.connections == 0
    assert not any(b"canary;" in request or b"Cookie" in request for request in server.requests)
