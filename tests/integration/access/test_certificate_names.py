"""Which tenant a client's certificate names, by gRPC and by HTTP: its URIs, and each as a whole."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from http import HTTPStatus

import pytest
from cryptography import x509
from judged import Client, PermissionDenied
from judged.credentials import Tls

from tests.fakes.authority import Authority
from tests.integration.http_calls import ask, client_context, http_address
from tests.integration.server_process import ServerProcess, running_server
from tests.integration.tenant_files import new_token

A, B = (f"spiffe://x/{name}" for name in "ab")
JUDGES = {"a": "exact", "b": "span"}
URI = x509.UniformResourceIdentifier
CERTIFICATES: dict[str, tuple[list[x509.GeneralName], str | None]] = {
    "a": ([URI(A)], "a"),
    "another URI beside": ([URI("spiffe://x/z"), URI(A)], "a"),
    "a twice": ([URI(A), URI(A)], "a"),
    "another name beside": ([x509.DNSName("x.example"), URI(A)], "a"),
    "NUL and more": ([URI(f"{A}\0.evil")], None),
    "NUL at the end": ([URI(f"{A}\0")], None),
    "NUL at the beginning": ([URI(f"\0{A}")], None),
    "NUL in a first URI": ([URI("spiffe://x/z\0.evil"), URI(A)], None),
    "NUL in a second URI": ([URI(A), URI(f"{B}\0.evil")], None),
    "two tenants": ([URI(A), URI(B)], None),
    "another spelling": ([URI(f"{A}/")], None),
    "a line end": ([URI(f"{A}\n")], None),
    "a name of a host": ([x509.DNSName(A)], None),
    "no names": ([], None),
}


@pytest.fixture(scope="module")
def server(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    path = tmp_path_factory.mktemp("tenants") / "tenants.toml"
    path.write_text(
        "".join(
            f'[tenants.{name}]\nuris = ["spiffe://x/{name}"]\njudges = ["{judge}"]\n'
            for name, judge in JUDGES.items()
        )
    )
    new_token(path, "a")
    certificate, key = authority.server()
    with running_server(
        "--tenants",
        str(path),
        "--certificate",
        str(certificate),
        "--private-key",
        str(key),
        "--client-ca",
        str(authority.ca),
        "--http-listen",
        "127.0.0.1:0",
    ) as server:
        yield server


def by_grpc(address: str, shown: Tls) -> str | None:
    with Client(address, credentials=shown) as client:
        try:
            judge = client.server_info().default_judge
        except PermissionDenied:
            return None
    return next(name for name, theirs in JUDGES.items() if theirs == judge)


def by_http(address: str, context: ssl.SSLContext) -> str | None:
    reply = ask(address, "/v1/GetServerInfo", tls=context)
    if reply.status == HTTPStatus.UNAUTHORIZED:
        return None
    return next(name for name, theirs in JUDGES.items() if theirs == reply.json["default_judge"])


@pytest.mark.parametrize("name", CERTIFICATES)
def test_whom_it_names(server: ServerProcess, authority: Authority, name: str):
    names, tenant = CERTIFICATES[name]
    files = authority.issue(name.replace(" ", "-"), *names)
    assert by_grpc(server.address, Tls(authority.ca, *files)) == tenant
    assert by_http(http_address(server), client_context(authority.ca, files)) == tenant
