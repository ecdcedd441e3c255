"""Answers each request after a fixed time: the provider of `benchmarks.fanout`.

Speaks Chat Completions, always with the same verdict, in the form that the rubric `retrieval_match`
asks for. The tokens that it counts for a prompt are the time that it really took, TICKS_A_S of them
a second, from the last byte of the request to the writing of the answer: its timer is late at
times, and that is not to be charged to whoever asks. Runs as a process of its own and must never be
what is measured, so it parses nothing but the end of a request.

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
"""As fine as may be: a server does not believe a count of much more than 100,000 tokens."""
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
    """Return the answer that tells how long it took."""
    body = b'%b"prompt_tokens": %d%b' % (_BEFORE, ticks, _AFTER)
    return _HEAD % len(body) + body


class Connection(asyncio.Protocol):
    """One connection; requests on it are answered one after the other."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._loop = asyncio.get_running_loop()
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - of the protocol
        """Forget the transport: an answer that is due finds nobody."""
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Answer each whole request once its time has passed."""
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
