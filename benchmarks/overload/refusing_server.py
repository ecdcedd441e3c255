"""A server that refuses every BatchJudge in its first line, and answers health checks.

The least that gRPC's Python can do with a call: the request isn't even parsed.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path
from typing import NoReturn

import grpc
import uvloop
from grpc_health.v1 import health, health_pb2_grpc

from benchmarks.load.open_loop import METHOD


class Refusing(grpc.GenericRpcHandler):
    """Handles BatchJudge, as bytes."""

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        """Return what refuses BatchJudge; None for other calls."""
        if handler_call_details.method != METHOD:
            return None
        return grpc.unary_unary_rpc_method_handler(_refuse)


async def _refuse(_: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> NoReturn:
    await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "no room")


async def serve(listen: str, port_file: Path) -> None:
    """Serve until SIGTERM."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Refusing(),))
    health_pb2_grpc.add_HealthServicer_to_server(health.aio.HealthServicer(), server)
    port = server.add_insecure_port(listen)
    await server.start()
    port_file.write_text(f"{listen.rpartition(':')[0]}:{port}\n")  # noqa: ASYNC240 - once
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    await asked.wait()
    await server.stop(1)


def main() -> None:
    """Run from the command line, with the flags of the real server that benchmarks use."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--listen", required=True)
    parser.add_argument("--port-file", type=Path, required=True)
    arguments = parser.parse_args()
    uvloop.run(serve(arguments.listen, arguments.port_file))


if __name__ == "__main__":
    main()
