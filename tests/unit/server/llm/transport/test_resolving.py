from __future__ import annotations

import socket
from typing import Any

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver
from judged_server.llm.chat import ProviderFault, Reason
from judged_server.llm.config import ProviderConfiguration
from judged_server.llm.transport.http import (
    HttpTransport,
    PrivateAddress,
    is_checked,
    is_public,
    public_socket,
)


class Names(AbstractResolver):
    """Every name leads to the same addresses."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses
        self.asked: list[str] = []

    async def resolve(self, host: str, port: int = 0, family: Any = socket.AF_INET) -> list[Any]:
        self.asked.append(host)
        return [
            {"hostname": host, "host": one, "port": port, "family": family, "proto": 0, "flags": 0}
            for one in self.addresses
        ]

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "162.159.140.245", "2606:4700::6810:1", "::ffff:8.8.8.8"]
)
def test_addresses_of_the_internet(address):
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "0.0.0.0",  # noqa: S104 - the address, not a socket bound to it
        "10.0.0.1",
        "172.16.3.4",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1%eth0",
        "fd00::1",
        "ff02::1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "2002:0a00:0001::1",
        "64:ff9b::a9fe:a9fe",
        "no address",
    ],
)
def test_addresses_that_are_not(address):
    assert not is_public(address)


@pytest.mark.parametrize(
    ("url", "allow", "checked"),
    [
        ("https://api.openai.com/v1", False, True),
        ("https://api.openai.com/v1", True, False),
        ("https://localhost:8443/v1", False, False),
        ("https://10.0.0.1/v1", False, False),
        ("https://[fd00::1]/v1", False, False),
        ("http://localhost:11434/v1", False, False),
        ("http://gpu-1.internal:8000/v1", False, False),
    ],
)
def test_who_is_checked(url, allow, checked):
    assert is_checked(ProviderConfiguration("p", url, allow_private=allow)) is checked


@pytest.mark.parametrize(("host", "public"), [("10.0.0.1", False), ("8.8.8.8", True)])
def test_only_public_addresses_get_a_socket(host, public):
    info = (socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, 443))
    if public:
        public_socket(info).close()
        return
    with pytest.raises(PrivateAddress):
        public_socket(info)


@pytest.mark.parametrize(
    ("addresses", "allow", "says", "retryable"),
    [
        (["127.0.0.1"], False, "private network; allow_private", False),
        (["127.0.0.1", "10.0.0.1"], False, "private network; allow_private", False),
        (["127.0.0.1"], True, "no connection", True),
    ],
)
async def test_a_name_that_leads_inside_is_not_connected_to(
    monkeypatch, addresses, allow, says, retryable
):
    names = Names(*addresses)
    monkeypatch.setattr(aiohttp.connector, "DefaultResolver", lambda **_: names)
    with socket.socket() as closed:  # bound, and nobody listens
        closed.bind(("127.0.0.1", 0))
        url = f"https://provider.test:{closed.getsockname()[1]}/v1"
        transport = HttpTransport(ProviderConfiguration("p", url, allow_private=allow))
        with pytest.raises(ProviderFault, match=says) as caught:
            await transport.post("/x", {}, b"{}", 5.0)
        await transport.close()
    assert caught.value.reason is Reason.PROVIDER_UNREACHABLE
    assert caught.value.retryable is retryable
    assert names.asked == ["provider.test"]
