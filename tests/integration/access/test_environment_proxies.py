"""What a proxy sees that the environment names: nothing, unless a client is given it too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from judged import AsyncClient, Client, InvalidArgument, QueryGroup
from judged.credentials import Tls, Token
from judged_server import healthcheck

from tests.fakes.authority import Authority
from tests.fakes.connect_proxy import ConnectProxy, connect_proxy
from tests.integration.cli_process import run_in
from tests.integration.server_process import ServerProcess, running_server
from tests.integration.tenant_files import new_token

VARIABLES = ("grpc_proxy", "https_proxy", "http_proxy", "HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
TEXT = "a text that is nobody else's"
GROUPS = [QueryGroup("q", [TEXT], [TEXT])]


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[ConnectProxy]:
    for name in list(os.environ):
        if name.lower().endswith("no_proxy") or name.lower() == "no_grpc_proxy":
            monkeypatch.delenv(name)
    with connect_proxy() as proxy:
        for name in VARIABLES:
            monkeypatch.setenv(name, proxy.url)
        yield proxy


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, str]]:
    path = tmp_path_factory.mktemp("tenants") / "tenants.toml"
    path.write_text("[tenants.a]\n")
    token = new_token(path, "a")
    with running_server("--tenants", str(path)) as server:
        yield server, token


@pytest.fixture(scope="module")
def address(authority: Authority) -> Iterator[str]:
    certificate, key = authority.server()
    files = ["--certificate", str(certificate), "--private-key", str(key)]
    with running_server(*files) as server:
        yield server.address


def targets(address: str) -> list[str]:
    port = address.rpartition(":")[2]
    return [address, f"localhost:{port}", f"ipv4:{address}"]


async def test_clients_send_a_token_past_it(
    proxy: ConnectProxy, tenants: tuple[ServerProcess, str]
):
    server, token = tenants
    for target in targets(server.address):
        with Client(target, credentials=Token(token)) as client:
            assert client.judge(GROUPS, "exact").relevant == [True]
        async with AsyncClient(target, credentials=Token(token)) as other:
            assert (await other.judge(GROUPS, "exact")).relevant == [True]
    assert healthcheck.problem(server.address) == ""
    assert not proxy.read


def test_the_command_does_so(proxy: ConnectProxy, tenants: tuple[ServerProcess, str]):
    server, token = tenants
    ours = ["judges", "--target", server.address]
    done = run_in(Path.cwd(), *ours, JUDGED_TOKEN=token)
    assert done.returncode == 0, done.stderr
    assert not proxy.read


class TestTls:
    async def test_it_is_passed_over_too(
        self, proxy: ConnectProxy, authority: Authority, address: str
    ):
        with Client(address, credentials=Tls(authority.ca)) as client:
            assert client.judge(GROUPS, "exact").relevant == [True]
        async with AsyncClient(address, credentials=Tls(authority.ca)) as other:
            assert (await other.judge(GROUPS, "exact")).relevant == [True]
        assert not proxy.read

    async def test_one_that_is_given_tunnels_what_it_cant_read(
        self, authority: Authority, address: str
    ):
        with connect_proxy() as given:
            credentials = Tls(authority.ca, token=Token("secret-token"), proxy=given.url)
            with Client(address, credentials=credentials) as client:
                assert client.judge(GROUPS, "exact").relevant == [True]
            async with AsyncClient(address, credentials=credentials) as other:
                assert (await other.judge(GROUPS, "exact")).relevant == [True]
            done = run_in(
                Path.cwd(),
                "judges",
                "--target",
                address,
                "--tls-ca",
                str(authority.ca),
                "--tls-proxy",
                given.url,
            )
            assert done.returncode == 0, done.stderr
        assert given.read.count(f"CONNECT {address} ".encode()) == 3
        assert b"secret-token" not in given.read
        assert TEXT.encode() not in given.read

    @pytest.mark.parametrize(
        "proxy",
        ["proxy:3128", "http://proxy", "socks5://x:1"],
    )
    def test_one_that_grpc_would_pass_over_is_refused(self, proxy: str):
        with pytest.raises(InvalidArgument, match=r"http://HOST:PORT"):
            Tls(proxy=proxy)
        done = run_in(
            Path.cwd(), "judges", "--target", "x:1", "--tls-ca", "default", "--tls-proxy", proxy
        )
        assert done.returncode == 2
        assert done.stderr.strip().endswith("proxy=...) is written as http://HOST:PORT")
