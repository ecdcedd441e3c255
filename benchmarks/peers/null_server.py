"""A server of the same contract, on the same stack, that judges nothing: the floor of `wire`.

Answers BatchJudge with one constant verdict per context. `benchmarks.wire` compares the real server
with it; the difference is the cost of everything but the wire.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path
from typing import Any

import grpc
import uvloop
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import verdicts_pb2
from judged.v1.judge_service_pb2_grpc import (
    JudgeServiceServicer,
    add_JudgeServiceServicer_to_server,
)


class NullService(JudgeServiceServicer):
    """Returns constant verdicts."""

    async def BatchJudge(  # noqa: N802 - the contract's name
        self,
        request: pb.BatchJudgeRequest,
        context: grpc.aio.ServicerContext[Any, Any],  # noqa: ARG002 - the contract's argument
    ) -> pb.BatchJudgeResponse:
        """Answer "not relevant" to every context."""
        total = sum(len(group.expected) * len(group.retrieved) for group in request.groups)
        return pb.BatchJudgeResponse(
            verdicts=verdicts_pb2.VerdictColumns(relevant=[False] * total, score=[0.0] * total)
        )


async def serve(listen: str, port_file: Path) -> None:
    """Serve until SIGTERM."""
    server = grpc.aio.server(options=(("grpc.max_receive_message_length", 16 << 20),))
    # Abstract only in the stub: at run time the other calls return UNIMPLEMENTED.
    service = NullService()  # type: ignore[abstract]
    add_JudgeServiceServicer_to_server(service, server)
    host = listen.rpartition(":")[0]
    port = server.add_insecure_port(listen)
    await server.start()
    port_file.write_text(f"{host}:{port}\n")  # noqa: ASYNC240 - once, before any call
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
