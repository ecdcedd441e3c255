"""Compares the shapes that a batch could have on the wire; 0001 of docs/decisions.md rests on it.

30,000 contexts (1,000 queries, 10 retrieved, 3 expected, passages of about 600 characters) as one
message a context, as groups, and as groups cut into 8 requests at once; and their verdicts as one
message a context and as columns. A server on the same stack reads every text and answers with
constants, so that only the shape differs.

request_bytes_naive_over_grouped    bytes of the request
call_naive_over_grouped             wall seconds of one call, built from Python strings to answered
call_naive_over_chunked             the same, with the groups as 8 requests at once
read_messages_over_numpy            seconds to read 30,000 verdicts: messages over np.array(column)
read_messages_over_lists            the same over list(column)

    python -m benchmarks.wire_shape
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import uvloop
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from judged.v1 import groups_pb2, verdicts_pb2
from judged.v1 import judge_service_pb2 as pb

from benchmarks.harness import closing_line, ratios, serving
from tests.conformance.prose import build_groups

SEED = 20
ROUNDS = 9
CHUNKS = 8
UNLIMITED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
Field = descriptor_pb2.FieldDescriptorProto


def message_class(name: str, fields: Sequence[tuple[str, int, str]]) -> Any:  # noqa: ANN401
    """Return a message class of these (name, type, item's type name) fields; items are repeated."""
    file = descriptor_pb2.FileDescriptorProto(
        name=f"benchmarks/{name}.proto", package="benchmarks", syntax="proto3"
    )
    message = file.message_type.add(name=name)
    for number, (field, kind, item) in enumerate(fields, 1):
        added = message.field.add(name=field, number=number, type=kind)
        if item:
            added.label, added.type_name = Field.LABEL_REPEATED, f".benchmarks.{item}"
            file.dependency.append(f"benchmarks/{item}.proto")
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"benchmarks.{name}"))


TEXT = Field.TYPE_STRING
NaiveContext = message_class(
    "NaiveContext", [("query", TEXT, ""), ("expected", TEXT, ""), ("retrieved", TEXT, "")]
)
NaiveRequest = message_class("NaiveRequest", [("contexts", Field.TYPE_MESSAGE, "NaiveContext")])
NaiveVerdict = message_class(
    "NaiveVerdict",
    [
        ("relevant", Field.TYPE_BOOL, ""),
        ("score", Field.TYPE_DOUBLE, ""),
        ("status", Field.TYPE_INT32, ""),
    ],
)
NaiveReply = message_class("NaiveReply", [("verdicts", Field.TYPE_MESSAGE, "NaiveVerdict")])

Texts = tuple[str, Sequence[str], Sequence[str]]


def columns(total: int) -> pb.BatchJudgeResponse:
    """Return constant verdicts."""
    return pb.BatchJudgeResponse(
        verdicts=verdicts_pb2.VerdictColumns(relevant=[False] * total, score=[0.25] * total)
    )


async def answer_naive(request: Any, _: object) -> pb.BatchJudgeResponse:  # noqa: ANN401
    """Read one message a context."""
    return columns(len([(c.query, c.expected, c.retrieved) for c in request.contexts]))


async def answer_grouped(request: pb.BatchJudgeRequest, _: object) -> pb.BatchJudgeResponse:
    """Read groups."""
    read = [(g.query, list(g.expected), list(g.retrieved)) for g in request.groups]
    return columns(sum(len(expected) * len(retrieved) for _, expected, retrieved in read))


async def serve(listen: str, port_file: Path) -> None:
    """Serve both shapes until SIGTERM."""
    server = grpc.aio.server(options=UNLIMITED)
    write = pb.BatchJudgeResponse.SerializeToString
    handlers = {
        "Naive": grpc.unary_unary_rpc_method_handler(answer_naive, NaiveRequest.FromString, write),
        "Grouped": grpc.unary_unary_rpc_method_handler(
            answer_grouped, pb.BatchJudgeRequest.FromString, write
        ),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("shape", handlers),))
    port = server.add_insecure_port(listen)
    await server.start()
    port_file.write_text(f"127.0.0.1:{port}\n")  # noqa: ASYNC240 - once, before any call
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    await asked.wait()
    await server.stop(1)


def naive_request(groups: Sequence[Texts]) -> Any:  # noqa: ANN401
    """Return the contexts, a message each."""
    return NaiveRequest(
        contexts=[
            NaiveContext(query=query, expected=e, retrieved=r)
            for query, expected, retrieved in groups
            for r in retrieved
            for e in expected
        ]
    )


def grouped_request(groups: Sequence[Texts]) -> pb.BatchJudgeRequest:
    """Return the contexts in groups."""
    return pb.BatchJudgeRequest(
        groups=[groups_pb2.QueryGroup(query=q, expected=e, retrieved=r) for q, e, r in groups]
    )


def seconds(work: Callable[[], object]) -> float:
    """Return the wall seconds of some work."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def call_seconds(
    channel: grpc.Channel, groups: Sequence[Texts], workers: ThreadPoolExecutor
) -> dict[str, float]:
    """Return the wall seconds of the batch in each shape."""
    read = pb.BatchJudgeResponse.FromString
    naive = channel.unary_unary("/shape/Naive", NaiveRequest.SerializeToString, read)
    grouped = channel.unary_unary("/shape/Grouped", pb.BatchJudgeRequest.SerializeToString, read)
    size = -(-len(groups) // CHUNKS)
    chunks = [groups[start : start + size] for start in range(0, len(groups), size)]

    def chunked() -> None:
        list(workers.map(lambda chunk: grouped(grouped_request(chunk)), chunks))

    return {
        "naive": seconds(lambda: naive(naive_request(groups))),
        "grouped": seconds(lambda: grouped(grouped_request(groups))),
        "chunked": seconds(chunked),
    }


def read_seconds(total: int) -> dict[str, float]:
    """Return the seconds to read the verdicts in each shape, from bytes to values."""
    messages = NaiveReply(
        verdicts=[NaiveVerdict(relevant=i % 3 == 0, score=0.25, status=1) for i in range(total)]
    ).SerializeToString()
    packed = columns(total).SerializeToString()

    def read_messages() -> object:
        reply = NaiveReply.FromString(messages)
        return [(v.relevant, v.score, v.status) for v in reply.verdicts]

    def read_numpy() -> object:
        verdicts = pb.BatchJudgeResponse.FromString(packed).verdicts
        return np.array(verdicts.relevant), np.array(verdicts.score)

    def read_lists() -> object:
        verdicts = pb.BatchJudgeResponse.FromString(packed).verdicts
        return list(verdicts.relevant), list(verdicts.score)

    return {
        "messages": seconds(read_messages),
        "numpy": seconds(read_numpy),
        "lists": seconds(read_lists),
    }


def measure() -> None:
    """Measure and print."""
    groups: list[Texts] = [(g.query, g.expected, g.retrieved) for g in build_groups(SEED)]
    total = sum(len(expected) * len(retrieved) for _, expected, retrieved in groups)
    sizes = naive_request(groups).ByteSize(), grouped_request(groups).ByteSize()
    print(f"{total} contexts: {sizes[0] / 1e6:.1f} MB naive, {sizes[1] / 1e6:.1f} MB grouped")
    rows: dict[str, list[float]] = {}
    with (
        serving("benchmarks.wire_shape") as server,
        grpc.insecure_channel(server.address, options=UNLIMITED) as channel,
        ThreadPoolExecutor(CHUNKS) as workers,
    ):
        for round_number in range(ROUNDS + 1):
            row = call_seconds(channel, groups, workers) | read_seconds(total)
            if round_number:  # the first round warms up
                for name, value in row.items():
                    rows.setdefault(name, []).append(value)
    for name, values in rows.items():
        print(f"{name:>8}: {1e3 * min(values):.2f} to {1e3 * max(values):.2f} ms")
    print(
        closing_line(
            "wire_shape",
            {
                "request_bytes_naive_over_grouped": [sizes[0] / sizes[1]],
                "call_naive_over_grouped": ratios(rows["naive"], rows["grouped"]),
                "call_naive_over_chunked": ratios(rows["naive"], rows["chunked"]),
                "read_messages_over_numpy": ratios(rows["messages"], rows["numpy"]),
                "read_messages_over_lists": ratios(rows["messages"], rows["lists"]),
            },
        )
    )


def main() -> None:
    """Measure, or serve for a measurement."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--listen", help=argparse.SUPPRESS)
    parser.add_argument("--port-file", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.listen:
        uvloop.run(serve(arguments.listen, arguments.port_file))
    else:
        measure()


if __name__ == "__main__":
    main()
