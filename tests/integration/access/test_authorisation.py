"""Every call of the server, by every kind of credential: who is let in, and who is not. By gRPC,
and by HTTP, which has no streams of requests.

The calls come from the descriptors: a new one fails here until it is listed.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from judged._transport.call import to_error
from judged.v1 import judge_service_pb2, statistics_service_pb2
from judged_server.tenants import changing, tokens_beside

from tests.fakes.authority import Authority
from tests.integration.http_calls import ask, client_context, http_address
from tests.integration.server_process import running_server
from tests.integration.tenant_files import new_token

TENANT, ANYBODY = "a tenant", "anybody"
WHO = {
    "/grpc.health.v1.Health/Check": ANYBODY,
    "/grpc.health.v1.Health/List": ANYBODY,
    "/grpc.health.v1.Health/Watch": ANYBODY,
    "/judged.v1.JudgeService/BatchJudge": TENANT,
    "/judged.v1.JudgeService/ComputeMetrics": TENANT,
    "/judged.v1.JudgeService/EstimateBatch": TENANT,
    "/judged.v1.JudgeService/Evaluate": TENANT,
    "/judged.v1.JudgeService/GetServerInfo": TENANT,
    "/judged.v1.JudgeService/GetUsage": TENANT,
    "/judged.v1.JudgeService/ScoreAnswers": TENANT,
    "/judged.v1.JudgeService/StreamEvaluate": TENANT,
    "/judged.v1.JudgeService/StreamJudge": TENANT,
    "/judged.v1.JudgeService/StreamMetrics": TENANT,
    "/judged.v1.StatisticsService/Calibrate": TENANT,
    "/judged.v1.StatisticsService/CalibrateCascade": TENANT,
    "/judged.v1.StatisticsService/CompareRuns": TENANT,
    "/judged.v1.StatisticsService/ComputeTextMetrics": TENANT,
    "/judged.v1.StatisticsService/MeasureAgreement": TENANT,
    "/judged.v1.StatisticsService/RankSystems": TENANT,
    "/judged.v1.StatisticsService/StreamTextMetrics": TENANT,
}
"""Who may make each call."""
METHODS = {
    f"/{service.full_name}/{method.name}": method
    for file in (judge_service_pb2, statistics_service_pb2, health_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
GARBAGE = b"\xff\xff\xff\xff"


@dataclass(frozen=True)
class Credential:
    """How a call is made, and whose it is: that of a tenant, or of nobody."""

    name: str
    channel: str
    metadata: tuple[tuple[str, str], ...]
    tenant: str | None


@dataclass
class World:
    """Two servers, one of which wants certificates, and the credentials for them."""

    channels: dict[str, grpc.Channel]
    credentials: dict[str, Credential]
    http: dict[str, tuple[str, ssl.SSLContext | None]]


def bearer(token: str, scheme: str = "Bearer ") -> tuple[tuple[str, str], ...]:
    return (("authorization", f"{scheme}{token}"),)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world")
    path, authority = folder / "tenants.toml", Authority(folder)
    secure = folder / "secure.toml"
    for file in (path, secure):
        file.write_text("".join(f'[tenants.{n}]\nuris = ["spiffe://x/{n}"]\n' for n in "ab"))
    tokens = tokens_beside(path)
    revoked = new_token(path, "b")
    with changing(tokens) as held:
        held[0] = held[0].without("b")
    older, a = new_token(path, "a"), new_token(path, "a")
    b, gone = new_token(path, "b"), new_token(path, "c")
    expired = new_token(path, "b", timedelta(seconds=-1))
    tokens_beside(secure).write_bytes(tokens.read_bytes())
    certificates = {name: authority.client(f"spiffe://x/{name}", name) for name in "abz"}
    tls = [str(file) for file in authority.server()]
    found = [
        Credential("none", "plain", (), None),
        Credential("malformed", "plain", bearer("not, a; token"), None),
        Credential("other scheme", "plain", bearer(a, "Basic "), None),
        Credential("empty", "plain", bearer(""), None),
        Credential("unknown", "plain", bearer("judged_" + "x" * 43), None),
        Credential("expired", "plain", bearer(expired), None),
        Credential("revoked", "plain", bearer(revoked), None),
        Credential("token of a", "plain", bearer(a), "a"),
        Credential("token of b", "plain", bearer(b), "b"),
        Credential("older token of a", "plain", bearer(older, "bearer "), "a"),
        Credential("token of nobody any more", "plain", bearer(gone), None),
        Credential("certificate of a", "certificate a", (), "a"),
        Credential("certificate of b", "certificate b", (), "b"),
        Credential("certificate of a, token of a", "certificate a", bearer(a), "a"),
        Credential("certificate of a, token of b", "certificate a", bearer(b), None),
        Credential("certificate of a, unknown token", "certificate a", bearer("x"), None),
        Credential("certificate of nobody", "certificate z", (), None),
        Credential("certificate, token of b", "certificate z", bearer(b), "b"),
    ]
    with (
        running_server(
            "--tenants",
            str(path),
            "--http-listen",
            "127.0.0.1:0",
            "--failed-calls-per-minute",
            "0",
        ) as plain,
        running_server(
            "--tenants",
            str(secure),
            "--certificate",
            tls[0],
            "--private-key",
            tls[1],
            "--client-ca",
            str(authority.ca),
            "--http-listen",
            "127.0.0.1:0",
            "--failed-calls-per-minute",
            "0",
        ) as mutual,
    ):
        channels = {
            "plain": grpc.insecure_channel(plain.address),
        }
        http: dict[str, tuple[str, ssl.SSLContext | None]] = {"plain": (http_address(plain), None)}
        for name, (certificate, key) in certificates.items():
            shown = client_context(authority.ca, (certificate, key))
            http[f"certificate {name}"] = (http_address(mutual), shown)
            own = grpc.ssl_channel_credentials(
                authority.ca.read_bytes(), key.read_bytes(), certificate.read_bytes()
            )
            channels[f"certificate {name}"] = grpc.secure_channel(mutual.address, own)
        yield World(channels, {each.name: each for each in found}, http)
        for channel in channels.values():
            channel.close()


def outcome(world: World, credential: Credential, path: str, message: bytes) -> tuple[str, str]:
    """Return the code and the message of a call with one message."""
    method = METHODS[path]
    channel: Any = world.channels[credential.channel]
    ways = {
        (False, False): channel.unary_unary,
        (False, True): channel.unary_stream,
        (True, False): channel.stream_unary,
        (True, True): channel.stream_stream,
    }
    call = ways[method.client_streaming, method.server_streaming](path)
    sent = iter([message]) if method.client_streaming else message
    try:
        reply = call(sent, timeout=60, metadata=credential.metadata)
        if method.server_streaming:
            next(reply, None)
            reply.cancel()
    except grpc.RpcError as error:
        told = to_error(error, "here")
        return told.code, told.message
    return "OK", ""


def test_every_call_is_listed():
    assert set(METHODS) == set(WHO), "say in WHO who may make a new call"


@pytest.mark.parametrize("path", sorted(WHO))
def test_who_is_let_in(world: World, path: str):
    for name, credential in world.credentials.items():
        let_in = credential.tenant is not None or WHO[path] is ANYBODY
        for message in (b"", GARBAGE):
            code, said = outcome(world, credential, path, message)
            assert (code != "UNAUTHENTICATED") is let_in, (name, said)
            assert let_in or (code, message == GARBAGE) != ("INVALID_ARGUMENT", True), name


def test_who_is_let_in_by_http(world: World):
    for credential in world.credentials.values():
        if credential.channel in world.http:
            _ask_all(world, credential)


def _ask_all(world: World, credential: Credential) -> None:
    address, tls = world.http[credential.channel]
    headers = dict(credential.metadata)
    for path, who in WHO.items():
        if who is ANYBODY or METHODS[path].client_streaming:
            continue
        for body in (b"", GARBAGE):
            told = ask(address, f"/v1/{METHODS[path].name}", body, headers, tls=tls)
            let_in = credential.tenant is not None
            assert (told.status != 401) is let_in, (credential.name, path, told.body)
            assert told.headers.get("www-authenticate") == (None if let_in else "Bearer")
            assert let_in or told.reason == "UNAUTHENTICATED"
            assert body != GARBAGE or not let_in or told.reason == "MALFORMED_MESSAGE"
    for path in ("/healthz", "/readyz"):
        assert ask(address, path, headers=headers, method="GET", tls=tls).status == 200


def test_bad_tokens_are_told_apart_by_nobody(world: World):
    kinds = ("malformed", "other scheme", "empty", "unknown", "expired", "revoked")
    path = "/judged.v1.JudgeService/GetServerInfo"
    said = {outcome(world, world.credentials[kind], path, b"") for kind in kinds}
    assert len(said) == 1
