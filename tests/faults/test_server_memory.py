"""The server's memory under requests that are too many, too large, or compressed to nearly nothing.

Rows 4 and 42 of the fault table: a container of 1 GiB must live, and small calls be answered.
`benchmarks.faults` has the long run.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from judged import Client, QueryGroup
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

from tests.faults.loads import LIMIT, MB, large_request, resident, sent
from tests.integration.server_process import ServerProcess, running_server, until

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="not run: /proc")

CALLS = 30


@pytest.mark.timeout(300)
def test_a_container_of_1_gib_lives_through_oversize_batches(container: ServerProcess):
    before = resident(container.process.pid)
    codes = asyncio.run(sent(container.address, large_request(), CALLS))
    assert codes.keys() <= {"OK", "RESOURCE_EXHAUSTED"}
    assert codes["OK"]
    assert codes["RESOURCE_EXHAUSTED"]
    assert resident(container.process.pid, "VmHWM") < LIMIT / MB * 0.85
    with Client(container.address) as client:
        assert client.judge([QueryGroup("q", ["a"], ["a"])], "exact", timeout=60)[0].relevant
    until(lambda: resident(container.process.pid) <= before + 100)  # it is given back


@pytest.mark.timeout(300)
def test_compressed_bombs_are_refused_and_take_no_memory():
    # 15 MB of zeros are within the limit of a message, and no message of ours; 200 MB are not.
    bombs = [gzip.compress(b"\0" * size) for size in (15 * MB, 200 * MB)]
    with running_server("--log-level", "warning") as server:
        before = resident(server.process.pid)
        for bomb in bombs:
            # As a client that compresses would send it, but for the flag, which gRPC reads.
            codes = asyncio.run(sent(server.address, bomb, 20))
            assert codes.keys() <= {"INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"}
            assert codes["INVALID_ARGUMENT"]
        assert resident(server.process.pid, "VmHWM") < before + 120


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with running_server("--log-level", "warning") as ready:
        yield ready


def test_compressed_requests_are_answered(server: ServerProcess):
    request = pb.BatchJudgeRequest(
        groups=[groups_pb2.QueryGroup(query="q", expected=["a"], retrieved=["a"])],
        judge=groups_pb2.JudgeSpec(kind="exact"),
    )
    with grpc.insecure_channel(server.address) as channel:
        call = JudgeServiceStub(channel).BatchJudge
        reply = call(request, timeout=20, compression=grpc.Compression.Gzip)
        assert list(reply.verdicts.relevant) == [True]
        with pytest.raises(grpc.RpcError) as refused:
            call(request, timeout=20, compression=grpc.Compression.Deflate)
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
