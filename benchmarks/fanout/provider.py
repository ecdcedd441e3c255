"""Answers each request after a fixed time: the provider of `benchmarks.fanout`.

Speaks Chat Completions and always returns the same verdict, in the form of the rubric
`retrieval_match`. Its prompt tokens encode the time it really took, TICKS_A_S per second, from the
last byte of the request to the writing of the answer: its timer is sometimes late, and callers must
not be charged for that. It runs in its own process and must not become the bottleneck, so it parses
only the end of a request.

    python -m benchmarks.fanout.provider SECONDS
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import cast

import uvloop

TICKS_A_S = 200_000
"""The finest resolution: a server rejects counts of much more than 100,000 tokens."""
VERDICT = {"reasoning": "The text says what was expected, in other words.", "verdict": "yes"}
_COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1_700_000_000,
    "model": "scripted-1",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": json.dumps(VERDICT), "refusal": None},
            "finish_reason": "stop",
            "logprobs": None,
        }
    ],
    "usage": {"prompt_tokens": 0, "completion_tokens": 20, "total_tokens": 20},
    "system_fingerprint": "fp_scripted",
}
_BEFORE, _AFTER = json.dumps(_COMPLETION).encode().split(b'"prompt_tokens": 0')
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
_LENGTH = b"content-length:"
_END = b"\r\n\r\n"


def answer(ticks: int) -> bytes:
    """Return the answer, with `ticks` as its prompt tokens."""
    body = b'%b"prompt_tokens": %d%b' % (_BEFORE, ticks, _AFTER)
    return _HEAD % len(body) + body


class Connection(asyncio.Protocol):
    """One connection; answers its requests in order."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._loop = asyncio.get_running_loop()
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - of the protocol
        """Forget the transport, so that pending answers are dropped."""
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Schedule the answer of each complete request."""
        self._received += data
        while (head_end := self._received.find(_END)) >= 0:
            head = self._received[:head_end].lower()
            place = head.index(_LENGTH) + len(_LENGTH)
            size = int(head[place:].split(b"\r\n", 1)[0])
            end = head_end + len(_END) + size
            if len(self._received) < end:
                return
            self._received = self._received[end:]
            self._loop.call_later(self._delay_s, self._answer, time.perf_counter_ns())

    def _answer(self, since_ns: int) -> None:
        if self._transport is not None:
            took_ns = time.perf_counter_ns() - since_ns
            self._transport.write(answer(took_ns * TICKS_A_S // 10**9))


async def serve(delay_s: float) -> None:
    """Listen, print the port, answer until standard input ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(delay_s), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    uvloop.run(serve(float(sys.argv[1])))
