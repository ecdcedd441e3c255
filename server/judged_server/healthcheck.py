"""Asks a running server whether it is healthy, for container health checks.

    python -m judged_server.healthcheck [ADDRESS]

Exits 0 if the server answers SERVING; otherwise prints why and exits 1. Without ADDRESS it asks the
server of these settings: at the address in the port file, else the one to listen on. A server with
TLS is asked at its metrics port, which must then be set, since the check has no certificate. `app`
decides when the server is healthy.
"""

from __future__ import annotations

import http
import http.client
import ssl
import sys

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from judged_server.address import Address, AddressError
from judged_server.settings import Settings, SettingsError, load

TIMEOUT_S = 2.0


def problem(address: str) -> str:
    """Return why the server at `address` is not healthy, "" when it is."""
    # Not through a proxy of the environment, which would answer for itself.
    with grpc.insecure_channel(address, options=(("grpc.enable_http_proxy", 0),)) as channel:
        try:
            reply = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(), timeout=TIMEOUT_S
            )
        except grpc.RpcError as error:
            return f"{address}: {error.code().name}: {error.details()}"
    if reply.status == health_pb2.HealthCheckResponse.SERVING:
        return ""
    name = health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status)
    return f"{address} answers {name}"


def problem_by_http(address: str, *, tls: bool) -> str:
    """Return why the server with metrics at `address` is not ready, "" when it is."""
    connection = http.client.HTTPConnection(address, timeout=TIMEOUT_S)
    if tls:
        context = ssl.create_default_context()
        # The request stays on this machine and carries no secret.
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(address, timeout=TIMEOUT_S, context=context)
    try:
        connection.request("GET", "/readyz")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"{address}: {error}"
    finally:
        connection.close()
    return "" if status == http.HTTPStatus.OK else f"{address} answers {status}"


def own_problem(settings: Settings) -> str:
    """Return why the server of these settings is not healthy, "" when it is."""
    address, port_file = settings.listen, settings.port_file
    if port_file is not None and port_file.is_file():  # has the port that port 0 picked
        address = port_file.read_text().strip()
    if settings.certificate is None or address.startswith("unix:"):  # a socket has no TLS
        return problem(address)
    if settings.metrics_listen is None:
        return "a server with TLS is asked at its metrics: set JUDGED_METRICS_LISTEN=127.0.0.1:9470"
    if settings.metrics_client_ca is not None:
        return "its metrics want a certificate; ask /readyz of http_listen instead"
    metrics = Address.parse(settings.metrics_listen, "metrics_listen")
    return problem_by_http(str(metrics), tls=not metrics.is_local)


def main(argv: list[str]) -> int:
    """Run the check; return the exit status."""
    try:
        why = problem(argv[0]) if argv else own_problem(load({}))
    except (SettingsError, AddressError, OSError) as error:
        why = str(error)
    if why:
        print(f"unhealthy: {why}", file=sys.stderr)  # noqa: T201 - what a health check is for
    return 1 if why else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
