"""Requests by HTTP as no client writes them, sent to a real server.

Each is answered in time, never with 500, and with JSON that has a code and a message, or with
nothing where it is no whole request.
"""

from __future__ import annotations

import json
import random
import socket
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from judged.v1 import judge_service_pb2, statistics_service_pb2

ANSWER_S = 5.0
GROUPS = [{"query": "q", "expected": ["a b"], "retrieved": ["a b", "c"]}]
VECTORS = {"dimensions": 1, "expected": "AACAPw==", "retrieved": "AACAPw=="}
BODIES: dict[str, list[dict[str, Any]]] = {
    "BatchJudge": [
        {"judge": {"kind": "token_overlap", "min_score": 0.5}, "groups": GROUPS},
        {"judge": {"kind": "semantic"}, "groups": [{"embeddings": VECTORS}]},
    ],
    "ComputeMetrics": [
        {
            "runs": [{"queries": [{"query_id": "1", "items": [{"doc_id": "d", "score": 0.5}]}]}],
            "qrels": {"queries": [{"query_id": "1", "grades": {"d": 1}}]},
        }
    ],
}
"""Requests that are right, of some calls."""
METHODS_OF = {
    method.name: method.input_type
    for service in (judge_service_pb2, statistics_service_pb2)
    for found in service.DESCRIPTOR.services_by_name.values()
    for method in found.methods
}


OF_TYPE: dict[int, tuple[Any, ...]] = {
    FieldDescriptor.TYPE_BYTES: ("AACAPw==", ""),
    FieldDescriptor.TYPE_STRING: ("a", "exact", "mrr", "q", ""),
    FieldDescriptor.TYPE_BOOL: (True, False),
}


def drawn(draw: random.Random, kind: Descriptor, depth: int = 0) -> dict[str, Any]:
    """Return a request with some of the fields of a message, each with a value of its type."""
    found: dict[str, Any] = {}
    for part in draw.sample(list(kind.fields), min(3, len(kind.fields))):
        value: Any = draw.choice(OF_TYPE.get(part.type, (0, 1, 0.5, "1")))
        if part.message_type is not None:
            value = drawn(draw, part.message_type, depth + 1) if depth < 5 else {}
        elif part.enum_type is not None:
            value = draw.choice(part.enum_type.values).name
        found[part.name] = [value, value] if part.is_repeated else value
    return found


NAMES = (
    '"\\ud800"', '"\\u0000"', '"\\u001b[31m"', '""', '"groups"', '"judge"', '"' + "x" * 5000 + '"',
    '"@type"',
)  # fmt: skip
VALUES = (
    "1" + "0" * 309, "1" * 5000, "-1e400", "NaN", "9223372036854775808", "-1", "1.5", "true",
    "null", "[]", "{}", '""', "[[]]", "[null]", '"\\ud800"', '"\\u0000"', '"=="', '"AAA"',
    '"AA==AA"', '"1_000"', '"1e3"', '"0x10"', '" 1"', '"Infinity"', '"-1s"', '"1e99s"',
    '"JUDGE_KIND"', "[" * 200 + "]" * 200, '{"a":' * 80 + "1" + "}" * 80, '"' + "y" * 70_000 + '"',
    '{"seconds": 1}', '["\\udc00"]',
)  # fmt: skip
HEADERS = (
    "Origin: http://[", "Origin: null", "Origin: http://a\x80b", "Origin: https://evil.example",
    "Host: [", "Host: localhost:x", "Host: \xff", "Host:", "Content-Type: text/plain",
    "Content-Type: \xff", "Content-Type: application/json;;;=", "Content-Encoding: gzip",
    "Content-Encoding: gzip, gzip", "grpc-timeout: 0m", "grpc-timeout: 99999999H",
    "grpc-timeout: \xb2S", "Authorization: Bearer \xff\xfe", "Authorization: Basic \xe9",
    "Authorization: Bearer " + "x" * 4000, "x-request-id: \xe9", "x-request-id: " + "z" * 200,
    "Expect: 100-continue", "Expect: \xff", "Cookie: \xff=;", "X: " + "y" * 9000,
    "Upgrade: websocket", "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked",
    "Content-Length: 5", "Content-Length: -1", "Content-Length: 99999999999", "Range: bytes=0-",
    " X: folded", ": x", "X\x00: y", "X: \x00", "no colon", "Traceparent: 00-zz",
)  # fmt: skip
PATHS = (
    "/v1/", "/v1/batchjudge", "/v1/BatchJudge/", "/v1/StreamJudge", "/", "//", "/%ff", "/%00",
    "/%", "*", "x", "/v1/BatchJudge?x=%ff", "/v1/%42atchJudge", "http://[/v1/BatchJudge",
    "http://x/healthz", "/healthz", "/openapi.json", "/" + "a" * 9000, "/\xff", "/v1/../healthz",
    "/v1/Batch Judge", "///v1/BatchJudge",
)  # fmt: skip
PROTOCOLS = ("HTTP/1.0", "HTTP/2.0", "HTTP/1", "http/1.1", "", "HTTP/9.9")
WAITS = ("transfer-enc", "content-len", "expect", "upgrade")
"""Headers by which a server may wait for more."""
METHODS = (
    "GET", "PUT", "HEAD", "OPTIONS", "CONNECT", "post", "P\xd6ST", "", "PRI",
)  # fmt: skip


@dataclass
class Outcome:
    """What became of so many requests."""

    statuses: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def body_of(draw: random.Random, value: object, change: float) -> str:
    """Return JSON of a value, in which some names and values are others, or stand twice."""
    if draw.random() < change:
        return draw.choice(VALUES)
    if isinstance(value, dict):
        pairs = [(json.dumps(name), body_of(draw, part, change)) for name, part in value.items()]
        if draw.random() < 2 * change:
            pairs.append((draw.choice(NAMES), draw.choice(VALUES)))
        if pairs and draw.random() < 2 * change:
            pairs.append(draw.choice(pairs))
        return "{" + ", ".join(f"{name}: {part}" for name, part in pairs) + "}"
    if isinstance(value, list):
        parts = [body_of(draw, part, change) for part in value]
        return "[" + ", ".join(parts) + "]"
    return json.dumps(value)


def request(draw: random.Random) -> tuple[bytes, bool]:
    """Return a request, and whether it is whole: the server is not to wait for more of it."""
    name = draw.choice(list(BODIES if draw.random() < 0.3 else METHODS_OF))
    value = draw.choice([drawn(draw, METHODS_OF[name]), *BODIES.get(name, [])])
    first = ["POST", f"/v1/{name}", "HTTP/1.1"]
    body = body_of(draw, value, draw.choice((0.0, 0.05, 0.2))).encode("utf-8", "surrogatepass")
    headers, also = ["Host: localhost", "Content-Type: application/json"], draw.randrange(8)
    if also == 0:
        body = wrong_bytes(draw, body)
    elif also <= 3:
        first[also - 1] = draw.choice((METHODS, PATHS, PROTOCOLS)[also - 1])
    if also in {2, 4, 5}:
        for _ in range(draw.randint(1, 3)):
            headers.insert(draw.randint(0, len(headers)), draw.choice(HEADERS))
    is_whole = not any(header.lower().startswith(WAITS) for header in headers)
    if also == 6:
        headers.append("Transfer-Encoding: chunked")
        cut = draw.randint(0, len(body))
        size = draw.choice((f"{cut:x}", f"{cut:X};x=y", "zz", "-1", "0" * 40 + f"{cut:x}"))
        body = size.encode() + b"\r\n" + body[:cut] + b"\r\n0\r\n\r\n"
    else:
        headers.append(f"Content-Length: {len(body)}")
    head = "\r\n".join((" ".join(first), *headers, "", ""))
    return head.encode("latin-1", "replace") + body, is_whole


def wrong_bytes(draw: random.Random, body: bytes) -> bytes:
    """Return the first bytes, some of which are others."""
    wrong = bytearray(body)
    for _ in range(draw.randint(1, 4)):
        wrong[draw.randrange(len(wrong))] = draw.randrange(256)
    return bytes(wrong[: draw.randint(1, len(wrong))])


def answer(
    address: tuple[str, int], sent: bytes, *, is_whole: bool, answer_s: float = ANSWER_S
) -> bytes | None:
    """Return the answer to a request, b"" for a connection that was closed; None for none."""
    with socket.create_connection(address, timeout=answer_s) as connection:
        found = b""
        try:
            connection.sendall(sent)
            if not is_whole:
                connection.settimeout(0.2)
            while b"\r\n\r\n" not in found:
                part = connection.recv(1 << 16)
                if not part:
                    return found
                found += part
            head, _, body = found.partition(b"\r\n\r\n")
            if sent.startswith(b"HEAD"):
                return head + b"\r\n\r\n"
            length = next(
                (
                    int(line[15:])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length:")
                ),
                None,
            )
            while length is not None and len(body) < length and (part := connection.recv(1 << 16)):
                body += part
            return head + b"\r\n\r\n" + body[:length]
        except TimeoutError:
            return None if is_whole else b""
        except ConnectionError:
            return found


def fault_of(sent: bytes, found: bytes | None) -> tuple[int, str]:
    """Return the status of an answer, 0 for none, and what is wrong with it, "" for nothing."""
    if found is None:
        return 0, "no answer"
    if not found:
        return 0, ""
    head, _, body = found.partition(b"\r\n\r\n")
    status = int(head.split()[1])
    if status >= 500 and status not in {501, 503, 504}:
        return status, f"status {status}"
    if status in {100, 200} or not body or b"/readyz" in sent or b"/healthz" in sent:
        return status, ""
    if b"content-type: application/json" not in head.lower():
        return status, f"no JSON: {body[:200]!r}"
    said = json.loads(body)
    if not isinstance(said.get("message"), str) or not isinstance(said.get("code"), int):
        return status, f"another form: {body[:200]!r}"
    if not said["message"].isprintable():
        return status, f"not printable: {body[:200]!r}"
    return status, ""


def run(address: str, calls: int, seed: int, answer_s: float = ANSWER_S) -> Outcome:
    """Send so many requests, one after the other."""
    host, _, port = address.rpartition(":")
    draw, outcome = random.Random(seed), Outcome()
    for number in range(calls):
        sent, is_whole = request(draw)
        status, fault = fault_of(
            sent, answer((host, int(port)), sent, is_whole=is_whole, answer_s=answer_s)
        )
        outcome.statuses[status] += 1
        if fault:
            outcome.faults.append(f"{number}: {fault}: {sent[:3000]!r}")
    return outcome
