"""A stream whose replies nobody reads ends in its time all the same, and quietly."""

from __future__ import annotations

import json
import threading
import time

import grpc
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

from tests.integration.server_process import running_server


def test_it_does_not_outlive_its_limit():
    texts = [f"text {n}" for n in range(100)]
    group = groups_pb2.QueryGroup(query="q", expected=texts, retrieved=texts)
    done = threading.Event()

    def requests():
        yield pb.StreamJudgeRequest(
            start=pb.StreamJudgeStart(judge=groups_pb2.JudgeSpec(kind="exact"))
        )
        for n in range(200):
            if done.is_set():
                return
            yield pb.StreamJudgeRequest(chunk=pb.JudgeChunk(chunk_id=n, groups=[group] * 2))

    with (
        running_server("--max-stream-deadline-s", "2") as server,
        grpc.insecure_channel(server.address) as channel,
    ):
        replies = JudgeServiceStub(channel).StreamJudge(requests(), timeout=60)
        next(replies)  # and no other
        ends = time.monotonic() + 60
        calls: list[dict[str, object]] = []
        while not calls:
            assert time.monotonic() < ends
            lines = [json.loads(x) for x in server.log_text().splitlines() if x.startswith("{")]
            calls = [x for x in lines if "StreamJudge" in str(x.get("method"))]
        done.set()
        replies.cancel()
        assert calls[0]["code"] == "DEADLINE_EXCEEDED"
        assert float(str(calls[0]["ms"])) < 40_000
        assert "Traceback" not in server.log_text()
