"""Callers who misuse connections: the others are served meanwhile, and afterwards all are.

Rows 34, 45 and 46 of the fault table.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import grpc
import pytest
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2, health_pb2_grpc
from judged import Client, JudgedError, QueryGroup
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

from tests.fakes.canaries import TEXT
from tests.integration.server_process import ServerProcess, running_server, until

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="not run: /proc")

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING = 0, 1, 3, 4, 6
GROUP = QueryGroup(f"q {TEXT}", [TEXT], [TEXT])


@pytest.fixture
def server() -> Iterator[ServerProcess]:
    with running_server("--metrics-listen", "127.0.0.1:0", "--grace-s", "1") as ready:
        yield ready


def frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    """Return a frame of HTTP/2 (RFC 9113, 4.1)."""
    return (
        struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body
    )


def literal(name: str, value: str) -> bytes:
    """Return a header, neither indexed nor compressed (RFC 7541, 6.2.2)."""
    return bytes([0, len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def call_headers(path: str = "/judged.v1.JudgeService/BatchJudge") -> bytes:
    return b"".join(
        literal(name, value)
        for name, value in (
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "here"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        )
    )


def connected(server: ServerProcess) -> socket.socket:
    host, _, port = server.address.partition(":")
    opened = socket.create_connection((host, int(port)), timeout=60)
    opened.sendall(PREFACE + frame(SETTINGS, 0, 0, b""))
    return opened


def resident_mb(server: ServerProcess) -> float:
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024 / 1e6


def gauge(server: ServerProcess, name: str) -> float:
    """Return the present value of a metric."""
    (address,) = re.findall(r'"metrics":"([^"]+)"', server.log_text())
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as reply:
        (value,) = re.findall(rf"^{name} (\S+)$", reply.read().decode(), re.MULTILINE)
    return float(value)


def is_served(server: ServerProcess) -> bool:
    with grpc.insecure_channel(server.address) as channel:
        health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=60)
    with Client(server.address) as client:
        return client.judge([GROUP], "exact", timeout=60)[0].relevant is True


def test_a_flood_of_pings_ends_its_connection_alone(server: ServerProcess):
    with connected(server) as flood:
        flood.settimeout(60)
        with suppress(ConnectionError):
            for _ in range(400):
                flood.sendall(frame(PING, 0, 0, b"\0" * 8) * 50)
                if not flood.recv(1 << 16):
                    break
            else:
                pytest.fail("every ping was answered")
        assert is_served(server)


def test_a_flood_of_pings_keeps_no_server_from_stopping(server: ServerProcess):
    stopped, begun = threading.Event(), threading.Event()

    def flood() -> None:
        while not stopped.is_set():  # gRPC ends each connection after a while
            with suppress(OSError), connected(server) as flooding:
                while not stopped.is_set():
                    flooding.settimeout(2)
                    flooding.sendall(frame(PING, 0, 0, b"\0" * 8) * 50)
                    begun.set()
                    flooding.setblocking(False)  # read what there is, but wait for nothing
                    with suppress(BlockingIOError):
                        if not flooding.recv(1 << 16):
                            break

    floods = [threading.Thread(target=flood) for _ in range(2)]
    for each in floods:
        each.start()
    try:
        assert begun.wait(60)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(8) == 0  # of which the grace is 1 s
    finally:
        stopped.set()
        for each in floods:
            each.join()


def test_calls_that_are_reset_at_once_leave_nothing_and_hold_nobody_up(server: ServerProcess):
    before = resident_mb(server)
    headers = call_headers()
    for _ in range(5):
        with connected(server) as flood:
            try:
                for stream in range(1, 4_000, 2):
                    reset = frame(RST_STREAM, 0, stream, struct.pack(">I", 8))
                    flood.sendall(frame(HEADERS, 4, stream, headers) + reset)
            except ConnectionError:
                pass  # it had enough
            assert is_served(server)
    until(lambda: gauge(server, "judged_calls_in_work") == 0, 5)
    assert gauge(server, "judged_request_bytes_in_work") == 0
    assert resident_mb(server) < before + 100


@pytest.mark.skipif(
    shutil.which("prlimit") is None, reason="not run: no prlimit (apt-get install util-linux)"
)
def test_more_connections_than_descriptors_are_survived(server: ServerProcess):
    # Those at the door when descriptors run out wait, and come in when others leave.
    subprocess.run(
        ["prlimit", "--pid", str(server.process.pid), "--nofile=128:128"], check=True, timeout=20
    )
    with Client(server.address) as client, ExitStack() as stack:
        assert client.judge([GROUP], "exact", timeout=60)[0].relevant
        for _ in range(200):
            stack.enter_context(connected(server))
        # Who was there before is served all the time.
        assert client.judge([GROUP], "exact", timeout=60)[0].relevant

    def is_served_again() -> bool:
        with suppress(grpc.RpcError, JudgedError):
            return is_served(server)
        return False

    until(is_served_again)
    assert server.process.poll() is None


@pytest.mark.parametrize("method", ["BatchJudge", "StreamJudge"])
def test_replies_that_nobody_reads_are_counted_until_their_caller_leaves(method: str):
    texts = [f"{n}" for n in range(500)]  # a reply is some 2 MB
    groups = [groups_pb2.QueryGroup(query="q", expected=texts, retrieved=texts)]
    spec = groups_pb2.JudgeSpec(kind="exact")
    messages: list[Message] = [pb.BatchJudgeRequest(judge=spec, groups=groups)]
    if method == "StreamJudge":
        start, chunk = pb.StreamJudgeStart(judge=spec), pb.JudgeChunk(chunk_id=1, groups=groups)
        messages = [pb.StreamJudgeRequest(start=start), pb.StreamJudgeRequest(chunk=chunk)]
    sent = [message.SerializeToString() for message in messages]
    body = b"".join(b"\0" + struct.pack(">I", len(raw)) + raw for raw in sent)
    headers = call_headers(f"/judged.v1.JudgeService/{method}")
    limits = ("--max-pending-bytes", str(20 << 20), "--default-deadline-s", "4")
    with running_server("--metrics-listen", "127.0.0.1:0", *limits) as server:
        with connected(server) as unread:
            # No reply may be longer than 2 kB: enough for a start.
            unread.sendall(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 2_000)))
            for stream in range(1, 11, 2):
                unread.sendall(frame(HEADERS, 4, stream, headers) + frame(DATA, 1, stream, body))
            # Those that wait for room wait in vain.
            until(lambda: '"DEADLINE_EXCEEDED"' in server.log_text())
            until(lambda: gauge(server, "judged_calls_in_work") == 0)
            assert 4e6 < gauge(server, "judged_request_bytes_in_work") < 20e6
            assert is_served(server)
        until(lambda: gauge(server, "judged_request_bytes_in_work") == 0)
        assert "never retrieved" not in server.log_text()


@pytest.mark.timeout(300)
def test_streams_that_nobody_reads_are_bounded_and_end():
    texts = [f"{TEXT} {n}" for n in range(120)]
    group = groups_pb2.QueryGroup(query="q", expected=texts, retrieved=texts)
    done = threading.Event()
    chunks, streams = 1_000, 4
    sent = [0] * streams
    start = pb.StreamJudgeStart(judge=groups_pb2.JudgeSpec(kind="exact"))

    def requests(stream: int) -> Iterator[pb.StreamJudgeRequest]:
        yield pb.StreamJudgeRequest(start=start)
        for number in range(chunks):
            if done.is_set():
                return
            sent[stream] += 1
            chunk = pb.JudgeChunk(chunk_id=number, groups=[group])
            yield pb.StreamJudgeRequest(chunk=chunk)

    with (
        running_server("--max-unread-s", "2") as server,
        grpc.insecure_channel(server.address) as channel,
    ):
        before = resident_mb(server)
        method = JudgeServiceStub(channel).StreamJudge
        opened = [method(requests(stream), timeout=100) for stream in range(streams)]
        for replies in opened:
            next(replies)  # and no other

        def ended() -> list[dict[str, object]]:
            lines = [json.loads(x) for x in server.log_text().splitlines() if x.endswith("}")]
            return [line for line in lines if "StreamJudge" in str(line.get("method"))]

        until(lambda: len(ended()) == streams)
        done.set()
        for replies in opened:
            replies.cancel()
        assert {line["code"] for line in ended()} == {"DEADLINE_EXCEEDED"}
        assert resident_mb(server) < before + 8 * streams
        # Reading stops with the replies, so that who sends is held up and not only who is late.
        assert max(sent) < chunks / 3
