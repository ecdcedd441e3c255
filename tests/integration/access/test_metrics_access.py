"""Who may read the metrics: this machine, and others by TLS with a token or a certificate."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from judged_server.address import AddressError
from judged_server.app import App
from judged_server.settings import SettingsError, load

from tests.fakes.authority import Authority
from tests.integration.access.test_tls import flags, wait_for_line
from tests.integration.server_process import ServerProcess, running_server, until
from tests.integration.tenant_files import new_token

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
TOKEN = "0123456789abcdef" * 2


def https(
    server: ServerProcess,
    authority: Authority,
    path: str = "/metrics",
    *,
    shown: tuple[Path, Path] | None = None,
    **sent: str,
) -> tuple[int, dict[str, str], str]:
    """Ask as another machine does, though by an address of this one."""
    context = ssl.create_default_context(cafile=authority.ca)
    if shown is not None:
        context.load_cert_chain(*shown)
    port = int(wait_for_line(server, "ready")["metrics"].rpartition(":")[2])
    connection = http.client.HTTPSConnection("localhost", port, timeout=20, context=context)
    connection.request("GET", path, headers=sent)
    reply = connection.getresponse()
    body = reply.read().decode()
    connection.close()
    return reply.status, {name.lower(): value for name, value in reply.getheaders()}, body


@pytest.fixture(scope="module")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(f"{TOKEN}\n")
    return file


@pytest.fixture(scope="module")
def by_token(authority: Authority, token_file: Path) -> Iterator[ServerProcess]:
    asked = ["--metrics-listen", "0.0.0.0:0", "--metrics-token-file", str(token_file)]
    # Who calls is asked for another certificate than who reads metrics, which is none here.
    with running_server(*flags(authority.server(), authority.ca), *asked) as server:
        yield server


@pytest.mark.parametrize(
    ("listens", "given", "said"),
    [
        ("0.0.0.0:0", "", "give --certificate and --private-key, and --metrics-token-file or"),
        ("0.0.0.0:0", "insecure", "0.0.0.0:0: can be reached from other machines"),
        ("0.0.0.0:0", "token", "can be reached from other machines"),
        ("0.0.0.0:0", "tls", "can be reached from other machines"),
        ("0.0.0.0:0", "tls tenants", "can be reached from other machines"),
        ("unix:/tmp/x", "", "metrics_listen unix:/tmp/x: must be HOST:PORT"),
        ("nonsense", "", "metrics_listen: 'nonsense' is neither HOST:PORT"),
        ("127.0.0.1:0", "no token", "none can't be read"),
        ("127.0.0.1:0", "bad token", "32 characters or more, in ASCII"),
        ("127.0.0.1:0", "bad authority", "metrics_client_ca: needs certificate and private_key"),
        ("127.0.0.1:0", "tls, bad authority", "is no PEM certificate"),
        (None, "token", "need metrics_listen"),
    ],
)
async def test_settings_that_would_let_strangers_read(
    listens: str | None,
    given: str,
    said: str,
    authority: Authority,
    token_file: Path,
    tmp_path: Path,
):
    (tmp_path / "bad").write_text("letmein")
    known = {"models_dir": str(tmp_path), "vector_cache": "memory"}
    if listens is not None:
        known["metrics_listen"] = listens
    if "tls" in given:
        certificate, key = authority.server("refused")
        known |= {"certificate": str(certificate), "private_key": str(key)}
    if "tenants" in given:
        tenants = tmp_path / "tenants.toml"
        tenants.write_text("[tenants.search]\n")
        new_token(tenants, "search")
        known["tenants"] = str(tenants)
    if "token" in given:
        files = {"token": token_file, "no token": tmp_path / "none", "bad token": tmp_path / "bad"}
        known["metrics_token_file"] = str(files[given])
    if "authority" in given:
        known["metrics_client_ca"] = str(tmp_path / "bad")
    if "insecure" in given:
        known["insecure"] = "true"
    with pytest.raises((AddressError, SettingsError), match=re.escape(said)):
        App(load(known))


def test_a_token_is_wanted_for_the_metrics_and_for_nothing_else(
    by_token: ServerProcess, authority: Authority
):
    for sent in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": f"Basic {TOKEN}"}):
        status, headers, said = https(by_token, authority, **sent)
        assert (status, headers["www-authenticate"]) == (401, "Bearer")
        assert "judged_" not in said
        assert "authorization: Bearer" in said
    status, headers, said = https(by_token, authority, Authorization=f"Bearer {TOKEN}")
    assert (status, headers["cache-control"]) == (200, "no-store")
    assert "judged_ready 1.0" in said
    for path in ("/healthz", "/readyz"):
        assert https(by_token, authority, path)[0] == 200


def test_nothing_is_told_without_tls(by_token: ServerProcess):
    port = wait_for_line(by_token, "ready")["metrics"].rpartition(":")[2]
    connection = http.client.HTTPConnection("localhost", int(port), timeout=20)
    connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    with pytest.raises((OSError, http.client.HTTPException)):
        connection.getresponse()
    connection.close()


def test_a_new_token_counts_at_once_and_a_bad_file_changes_nothing(
    by_token: ServerProcess, authority: Authority, token_file: Path
):
    def status(token: str) -> int:
        return https(by_token, authority, Authorization=f"Bearer {token}")[0]

    token_file.write_text("short")
    assert "metrics_token_file" in wait_for_line(by_token, "bad metrics_token")["problem"]
    told = https(by_token, authority, Authorization=f"Bearer {TOKEN}")[2]
    assert 'judged_reload_failures_total{what="metrics_token"} 1.0' in told
    new = TOKEN[::-1]
    token_file.write_text(new)
    until(lambda: status(new) == 200, 5)
    assert status(TOKEN) == 401
    token_file.write_text(TOKEN)
    until(lambda: status(TOKEN) == 200, 5)


def test_a_certificate_of_a_caller_reads_no_metrics(authority: Authority, tmp_path: Path):
    operators = Authority(tmp_path, "operators")
    scraper = operators.client("spiffe://example.org/prometheus")
    caller = authority.client("spiffe://example.org/search")
    asked = ["--metrics-listen", "127.0.0.1:0", "--metrics-client-ca", str(operators.ca)]
    pair = authority.server("rotated")
    with running_server(*flags(pair, authority.ca), *asked) as server:
        assert "judged_ready 1.0" in https(server, authority, shown=scraper)[2]
        for shown in (None, caller):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                https(server, authority, shown=shown)
        before = shown_by(server, scraper)
        for file, new in zip(pair, authority.server("next"), strict=True):
            shutil.copy(new, file)
        until(lambda: shown_by(server, scraper) != before, 10)


def shown_by(server: ServerProcess, own: tuple[Path, Path]) -> bytes | None:
    """Return the certificate that the port of metrics shows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(*own)
    port = int(wait_for_line(server, "ready")["metrics"].rpartition(":")[2])
    with (
        socket.create_connection(("127.0.0.1", port), timeout=20) as connection,
        context.wrap_socket(connection) as tls,
    ):
        return tls.getpeercert(binary_form=True)


def lacks_prometheus() -> str:
    if shutil.which("prometheus") is None:
        return "not run: no prometheus (apt-get install prometheus)"
    return ""


def test_prometheus_reads_them_as_deploy_says(
    by_token: ServerProcess, authority: Authority, token_file: Path, tmp_path: Path
):
    if lacks := lacks_prometheus():
        pytest.skip(lacks)
    text = (DEPLOY / "compose" / "prometheus.yml").read_text("utf-8")
    port = wait_for_line(by_token, "ready")["metrics"].rpartition(":")[2]
    for said, here in {
        "/run/secrets/metrics.token": str(token_file),
        "/run/secrets/ca.pem": str(authority.ca),
        "judge.example": "localhost",
        "judged:9470": f"127.0.0.1:{port}",
        "scrape_interval: 15s": "scrape_interval: 1s",
    }.items():
        assert said in text
        text = text.replace(said, here)
    (tmp_path / "prometheus.yml").write_text(text)
    shutil.copy(DEPLOY / "monitoring" / "alerts.yml", tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    own = [f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data"]
    with (tmp_path / "output").open("wb") as output:
        process = subprocess.Popen(
            ["prometheus", *own, f"--web.listen-address={address}"], stdout=output, stderr=output
        )
    try:
        ends = time.monotonic() + 60
        while (found := ask(address, "judged_ready")) is None:
            assert process.poll() is None, (tmp_path / "output").read_text()
            assert time.monotonic() < ends, (tmp_path / "output").read_text()
            time.sleep(0.2)
        assert found == 1
        rules = asked(address, "rules")["data"]["groups"][0]["rules"]
        alerts = yaml.safe_load((DEPLOY / "monitoring" / "alerts.yml").read_text("utf-8"))
        assert [each["name"] for each in rules] == [
            each["alert"] for each in alerts["groups"][0]["rules"]
        ]
    finally:
        process.terminate()
        process.wait(20)


def asked(address: str, what: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://{address}/api/v1/{what}", timeout=20) as reply:
        return dict(json.load(reply))


def ask(address: str, query: str) -> float | None:
    try:
        found = asked(address, f"query?query={query}")["data"]["result"]
    except OSError:
        return None
    return float(found[0]["value"][1]) if found else None


def test_prometheus_takes_the_file_for_kubernetes(tmp_path: Path):
    if lacks := lacks_prometheus():
        pytest.skip(lacks)
    folder = DEPLOY / "monitoring"
    text = (folder / "prometheus-kubernetes.yml").read_text("utf-8")
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "ca.pem").write_text("")
    text = text.replace("/etc/judged/metrics/token", f"{tmp_path}/token")
    text = text.replace("/etc/judged/", f"{tmp_path}/")
    job = yaml.safe_load(text)
    # Debian's is built without Kubernetes; what a pod is found by, tests/contract looks at.
    assert job["scrape_configs"][0].pop("kubernetes_sd_configs")[0]["role"] == "pod"
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(job))
    shutil.copy(folder / "alerts.yml", tmp_path)
    done = subprocess.run(
        ["promtool", "check", "config", str(tmp_path / "prometheus.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
