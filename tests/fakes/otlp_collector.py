"""A collector that keeps what it is sent by OTLP over HTTP, decoded."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass
class Collector:
    """What has come, and the bytes of all of it."""

    address: str
    spans: list[Span] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)


def attributes(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    """Return attributes as Python has them."""
    found: dict[str, Any] = {}
    for pair in pairs:
        kind = pair.value.WhichOneof("value")
        found[pair.key] = None if kind is None else getattr(pair.value, kind)
    return found


@contextmanager
def running_collector() -> Iterator[Collector]:
    """Yield a collector on a port of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            collector.bodies.append(body)
            if self.path == "/v1/traces":
                traces = ExportTraceServiceRequest.FromString(body)
                for of_resource in traces.resource_spans:
                    for of_scope in of_resource.scope_spans:
                        collector.spans.extend(of_scope.spans)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collector = Collector(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
