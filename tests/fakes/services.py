"""Runs a service in this process."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from judged.v1.judge_service_pb2_grpc import add_JudgeServiceServicer_to_server


@contextmanager
def running(service: Any, threads: int = 16) -> Iterator[None]:
    """Run a servicer on a free port, and set its `address`; what it lacks is UNIMPLEMENTED."""
    with ThreadPoolExecutor(threads) as pool:
        server = grpc.server(pool)
        add_JudgeServiceServicer_to_server(service, server)
        service.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        try:
            yield
        finally:
            server.stop(0).wait()
