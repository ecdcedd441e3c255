"""Clients that are closed, forked, used in several loops, or given a wrong target."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from socketserver import StreamRequestHandler, ThreadingTCPServer

import pytest
from judged import AsyncClient, Client, ClientUnusable, InvalidArgument, QueryGroup, Unavailable

GROUPS = [QueryGroup("q", ["e"], ["e"], "1")]
METRIC = (GROUPS, ["mrr"], "exact")

FORKING = """
import json, os, sys, threading
from judged import Client, ClientUnusable
client = Client(sys.argv[1])
client.server_info()
def spin():
    while True:
        client.server_info()
for _ in range(4):
    threading.Thread(target=spin, daemon=True).start()
said = []
for made in (lambda: client, lambda: Client(sys.argv[1])):
    for _ in range(5):
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            try:
                made().server_info(timeout=30)
                text = "answered"
            except ClientUnusable as error:
                text = str(error)
            os.write(writing, text.encode())
            os._exit(0)
        os.close(writing)
        said.append(os.read(reading, 1000).decode())
        os.waitpid(child, 0)
print(json.dumps(said), flush=True)
os._exit(0)
"""
FORKED_AFTER_CLOSE = """
import os, sys
from judged import Client, ClientUnusable
with Client(sys.argv[1]) as client:
    client.server_info()
if (child := os.fork()) == 0:
    try:
        Client(sys.argv[1]).server_info(timeout=30)
    except ClientUnusable:
        os._exit(7)
    os._exit(0)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
FORKED_BEFORE = """
import os, sys
import judged
if (child := os.fork()) == 0:
    with judged.Client(sys.argv[1]) as client:
        client.server_info(timeout=30)
    os._exit(7)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


class TestForks:
    def test_a_fork_under_an_open_client_is_told_at_once(self, server_address: str):
        done = subprocess.run(
            [sys.executable, "-c", FORKING, server_address],
            capture_output=True,
            timeout=60,
            check=True,
        )
        said = json.loads(done.stdout)
        assert len(said) == 10
        assert all("forked after a client had been made" in text for text in said)

    @pytest.mark.parametrize("program", [FORKED_AFTER_CLOSE, FORKED_BEFORE])
    def test_only_a_fork_before_the_first_client_can_use_one(
        self, server_address: str, program: str
    ):
        command = [sys.executable, "-c", program, server_address]
        assert subprocess.run(command, timeout=60, check=False).returncode == 7


class TestLoops:
    def test_a_client_made_outside_serves_one_loop_after_the_other(self, server_address: str):
        client = AsyncClient(server_address)

        async def use() -> float | None:
            return (await client.evaluate(*METRIC)).table["mrr"].mean

        assert [asyncio.run(use()) for _ in range(3)] == [1.0] * 3
        asyncio.run(client.close())

    async def test_two_loops_at_once(self, server_address: str):
        async with AsyncClient(server_address) as client:
            await client.server_info()
            other = await asyncio.to_thread(lambda: asyncio.run(_info(client)))
            assert other == (await client.server_info()).version


async def _info(client: AsyncClient) -> str:
    return (await client.server_info()).version


class TestClosed:
    async def test_by_the_asynchronous_one_too(self, server_address: str):
        client = AsyncClient(server_address)
        await client.server_info()
        await client.close()
        await client.close()
        with pytest.raises(ClientUnusable, match="closed"):
            await client.server_info()
        with pytest.raises(ClientUnusable, match="closed"):
            await client.judge(GROUPS)
        with pytest.raises(ClientUnusable, match="closed"):
            _ = [chunk async for chunk in client.judge_stream([GROUPS])]

    def test_a_call_under_way_ends(self, nowhere: str):
        client = Client(nowhere)
        client._connection.patience.reached = True  # so that it waits
        closing = threading.Timer(0.5, client.close)
        closing.start()
        with pytest.raises(ClientUnusable, match="closed"):
            client.server_info(timeout=60)
        closing.join()


class TestTargets:
    @pytest.mark.parametrize("kind", [Client, AsyncClient])
    @pytest.mark.parametrize(
        "target",
        [
            "http://judge:8470",
            "https://judge:8470/",
            "judge",
            "[::1]",
            "judge:",
            "judge:0",
            "judge:65536",
            "judge:" + "9" * 5000,
            "unix:",
            "unix:/" + "x" * 107,
        ],
    )
    def test_what_is_none_is_told_how_to_write_it(self, kind: type, target: str):
        with pytest.raises(InvalidArgument, match=r"write HOST:PORT.*unix:PATH") as caught:
            kind(target)
        assert caught.value.field == "target"

    def test_a_port_that_speaks_http(self):
        class Web(StreamRequestHandler):
            def handle(self) -> None:
                self.wfile.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

        with ThreadingTCPServer(("127.0.0.1", 0), Web) as other:
            serving = threading.Thread(target=other.serve_forever)
            serving.start()
            try:
                client = Client(f"127.0.0.1:{other.server_address[1]}")
                with client, pytest.raises(Unavailable, match="TLS"):
                    client.server_info()
            finally:
                other.shutdown()
                serving.join()
