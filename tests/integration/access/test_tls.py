"""TLS and mTLS between real servers and clients."""

from __future__ import annotations

import json
import shutil
import ssl
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from judged import AsyncClient, Client, InvalidArgument, QueryGroup, Unavailable
from judged.credentials import Tls, Token

from tests.fakes.authority import Authority
from tests.integration.cli_process import run_in, run_server_command
from tests.integration.server_process import ServerProcess, running_server

GROUPS = [QueryGroup("q", ["a b c"], ["a b c", "x y z"], "1")]


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("strangers"), "stranger")


def flags(files: tuple[Path, Path], client_ca: Path | None = None) -> list[str]:
    given = ["--certificate", str(files[0]), "--private-key", str(files[1])]
    return given if client_ca is None else [*given, "--client-ca", str(client_ca)]


@pytest.fixture(scope="module")
def tls(authority: Authority) -> Iterator[ServerProcess]:
    with running_server(*flags(authority.server())) as server:
        yield server


@pytest.fixture(scope="module")
def mtls(authority: Authority) -> Iterator[ServerProcess]:
    with running_server(*flags(authority.server(), authority.ca)) as server:
        yield server


def test_a_client_that_trusts_the_authority(tls: ServerProcess, authority: Authority):
    with Client(tls.address, credentials=Tls(authority.ca)) as client:
        assert client.judge(GROUPS).relevant == [True, False]


def test_a_client_with_a_certificate(mtls: ServerProcess, authority: Authority):
    own = Tls(authority.ca, *authority.client("spiffe://example.org/search"))
    with Client(mtls.address, credentials=own) as client:
        assert client.judge(GROUPS).relevant == [True, False]


def test_a_list_of_addresses_needs_the_name_of_the_certificates(
    tls: ServerProcess, authority: Authority
):
    both = f"ipv4:{tls.address},{tls.address}"
    with pytest.raises(InvalidArgument, match=r"has no name .* give the one .* --tls-name"):
        Client(both, credentials=Tls(authority.ca))
    with Client(both, credentials=Tls(authority.ca, name="localhost")) as client:
        assert client.judge(GROUPS).relevant == [True, False]
    command = ("judges", "--target", both, "--tls-ca", str(authority.ca), "--tls-name")
    assert run_in(Path.cwd(), *command, "localhost").returncode == 0
    for wrong in ("127.0.0.1:1", ""):
        with pytest.raises(InvalidArgument, match="a name of a certificate"):
            Tls(name=wrong)


class TestFailedHandshakes:
    """Each says soon that it may be TLS."""

    def refused(
        self,
        server: ServerProcess,
        credentials: Tls | None,
        told: str = "TLS on both sides or neither",
    ) -> None:
        with (
            Client(server.address, credentials=credentials) as client,
            pytest.raises(Unavailable, match=told),
        ):
            client.server_info(timeout=30)

    def test_no_tls_at_all(self, tls: ServerProcess):
        self.refused(tls, None)

    def test_another_authority(self, tls: ServerProcess, stranger: Authority):
        self.refused(tls, Tls(stranger.ca))

    def test_another_name(self, tls: ServerProcess, authority: Authority):
        other = Tls(authority.ca, name="other.example")
        self.refused(tls, other, r"a name of its certificate, or name one: .* --tls-name")

    def test_a_server_without_tls(self, server: ServerProcess, authority: Authority):
        self.refused(server, Tls(authority.ca))

    def test_no_certificate(self, mtls: ServerProcess, authority: Authority):
        self.refused(mtls, Tls(authority.ca))

    def test_a_strangers_certificate(
        self, mtls: ServerProcess, authority: Authority, stranger: Authority
    ):
        own = stranger.client("spiffe://example.org/search")
        self.refused(mtls, Tls(authority.ca, *own))

    def test_a_certificate_that_has_ended(self, mtls: ServerProcess, authority: Authority):
        own = authority.client("spiffe://example.org/old", "old", ends_in=timedelta(days=-1))
        self.refused(mtls, Tls(authority.ca, *own))


class TestCommand:
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ([], "TLS on both sides or neither"),
            (["--tls-ca", "/no/such.pem"], "the file /no/such.pem can't be read: No such file"),
            (["--tls-cert", "x", "--tls-key", "y"], "the file y can't be read"),
        ],
    )
    def test_it_says_what_is_wrong(self, tls: ServerProcess, options: list[str], said: str):
        done = run_in(Path.cwd(), "judges", "--target", tls.address, *options)
        assert done.returncode == 2
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_hundred_rotations_under_load_lose_no_call(authority: Authority):
    pairs = [authority.server(f"rotated-{number}") for number in range(2)]
    certificate, key = authority.server("shown")
    stop, failed, done = threading.Event(), [], [0]

    def call(address: str) -> None:
        while not stop.is_set():
            # A connection of its own each time: a handshake with what is there at that moment.
            with Client(address, credentials=Tls(authority.ca)) as client:
                try:
                    client.judge(GROUPS, "exact", timeout=20)
                    done[0] += 1
                except Exception as error:  # noqa: BLE001 - any failure counts
                    failed.append(error)

    with running_server(*flags((certificate, key))) as server:
        caller = threading.Thread(target=call, args=(server.address,))
        caller.start()
        try:
            with Client(server.address, credentials=Tls(authority.ca)) as steady:
                for number in range(100):
                    for file, other in zip((certificate, key), pairs[number % 2], strict=True):
                        scratch = file.with_suffix(".new")
                        shutil.copy(other, scratch)
                        scratch.replace(file)
                    assert steady.judge(GROUPS, "exact").relevant == [True, False]
                    host, port = server.address.split(":")
                    at = host, int(port)
                    shown = ssl.get_server_certificate(at, ca_certs=str(authority.ca))
                    assert shown == pairs[number % 2][0].read_text()
                certificate.write_text("no certificate")
                assert steady.judge(GROUPS, "exact").relevant == [True, False]
        finally:
            stop.set()
            caller.join()
    assert failed == []
    assert done[0] > 10


def wait_for_line(server: ServerProcess, event: str, problem: str = "") -> dict[str, str]:
    """Return the first line with this event, and this in its problem; wait until it is there."""
    while True:
        for text in server.log_text().splitlines():
            if not text.endswith("}"):
                continue
            line = json.loads(text)
            if line["event"] == event and problem in line.get("problem", ""):
                return line
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--certificate", "x.pem"], "certificate: needs private_key too"),
        (["--private-key", "x.pem"], "private_key: needs certificate too"),
        (["--client-ca", "x.pem"], "client_ca: needs certificate and private_key too"),
        (["--client-ca", "x", "--private-key", "y"], "private_key: needs certificate too"),
        (["--certificate", "x.pem", "--private-key", "y"], "x.pem can't be read: No such file"),
    ],
)
def test_settings_that_do_not_go_together(given: list[str], said: str):
    assert said in refusal(*given)


def refusal(*given: str) -> str:
    """Return what a server says that does not start, wherever another one already listens."""
    listen = () if "--listen" in given else ("--listen", "127.0.0.1:0")
    done = run_server_command(*listen, *given)
    assert done.returncode == 2
    return done.stderr


@pytest.mark.parametrize("target", ["judge.example:8470", "10.0.0.1:8470", "dns:///judge:8470"])
def test_a_token_does_not_cross_a_network_in_the_open(target: str):
    for kind in (Client, AsyncClient):
        with pytest.raises(InvalidArgument, match=r"is not sent to .* without TLS"):
            kind(target, credentials=Token("abc"))
