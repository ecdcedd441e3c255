"""Sends spans to a collector, by OTLP over HTTP.

Names follow OpenTelemetry's semantic conventions for RPC and generative AI; other attributes are
under `judged.`. Spans never contain callers' texts.

`api.interceptor` reports the calls. OpenTelemetry's own instrumentation of grpc.aio, which patches
libraries, is not used.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import requests
from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from judged_server.telemetry import EndCall, ModelCall, StageRun

_BATCHES: dict[str, Any] = {"max_queue_size": 1 << 15, "max_export_batch_size": 2048}
"""The queue of spans to send; when it is full the oldest are dropped."""
FLUSH_S = 5.0
"""How long the server's shutdown may wait for unsent spans."""

_PROPAGATED = frozenset({"traceparent", "tracestate"})
_SERVER_FAULTS = frozenset(
    {"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"}
)
"""Statuses that are errors of a server span by the conventions."""
_PROVIDERS = {"gemini": "gcp.gemini"}
"""Names of providers in the conventions, where they differ from our dialects."""
_NS = 1e9


class OtlpExport:
    """Collects spans of the server, and sends them from threads of its own.

    Implements the Tracer of `telemetry`. A slow or missing collector loses spans, never calls.
    """

    def __init__(self, endpoint: str, version: str) -> None:
        """Send to an OTLP/HTTP receiver such as http://127.0.0.1:4318."""
        resource = Resource.create({"service.name": "judged", "service.version": version})
        # The SDK samples calls by OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG.
        self._spans = TracerProvider(resource=resource, shutdown_on_exit=False)
        spans = OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces", session=_session())
        self._spans.add_span_processor(BatchSpanProcessor(spans, **_BATCHES))
        self._tracer = self._spans.get_tracer("judged_server", version)
        self._propagator = TraceContextTextMapPropagator()

    def call(self, method: str, metadata: Iterable[tuple[str, str | bytes]]) -> EndCall:
        """Begin the span of a call, as a child of its W3C trace context if it has one."""
        carrier = {
            key: value for key, value in metadata if key in _PROPAGATED and isinstance(value, str)
        }
        name = method.lstrip("/")
        span = self._tracer.start_span(
            name,
            self._propagator.extract(carrier, Context()),
            SpanKind.SERVER,
            {"rpc.system.name": "grpc", "rpc.method": name},
        )
        # Never detached: the context ends with the task of the call.
        context.attach(trace.set_span_in_context(span, Context()))
        return partial(_end_call, span)

    def stages(self, runs: Sequence[StageRun]) -> None:
        """Record the stages of the call in work; all runs of one stage make one span."""
        by_stage: defaultdict[str, list[StageRun]] = defaultdict(list)
        for run in runs:
            by_stage[run.stage].append(run)
        for stage, of_stage in by_stage.items():
            busy_s = sum(run.seconds for run in of_stage)
            begun_ns = min(run.ended_ns - int(run.seconds * _NS) for run in of_stage)
            attributes: dict[str, AttributeValue] = {"judged.stage.runs": len(of_stage)}
            attributes["judged.stage.seconds"] = busy_s
            span = self._tracer.start_span(stage, attributes=attributes, start_time=begun_ns)
            span.end(max(run.ended_ns for run in of_stage))

    def question(self, call: ModelCall) -> None:
        """Record a model call that has just ended."""
        ended_ns = time.time_ns()
        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _PROVIDERS.get(call.dialect, call.dialect),
            "gen_ai.request.model": call.requested,
            "gen_ai.request.max_tokens": call.max_tokens,
            "judged.stage": "provider",
            "judged.model": call.model,
            "judged.provider": call.provider,
            "judged.rubric": call.rubric,
            "judged.attempts": call.attempts,
        }
        if call.temperature is not None:
            attributes["gen_ai.request.temperature"] = call.temperature
        if call.error:
            attributes["error.type"] = call.error
        else:
            attributes["gen_ai.response.model"] = call.answered
            attributes["gen_ai.usage.input_tokens"] = call.input_tokens
            attributes["gen_ai.usage.output_tokens"] = call.output_tokens
        span = self._tracer.start_span(
            f"chat {call.requested}",
            kind=SpanKind.CLIENT,
            attributes=attributes,
            start_time=ended_ns - int(call.seconds * _NS),
        )
        if call.error:
            span.set_status(Status(StatusCode.ERROR))
        span.end(ended_ns)

    def close(self) -> None:
        """Send the unsent spans, and shut down. Blocks up to FLUSH_S: not for the event loop."""
        # On a daemon thread, since the SDK's own time limit is 30 s.
        end = threading.Thread(target=self._spans.shutdown, daemon=True)
        end.start()
        end.join(FLUSH_S)


def _end_call(span: Span, code: str, reason: str, request_id: str, tenant: str) -> None:
    span.set_attribute("rpc.response.status_code", code)
    span.set_attribute("judged.request_id", request_id)
    if tenant:
        span.set_attribute("judged.tenant", tenant)
    if code != "OK":
        span.set_attribute("error.type", reason or code)
    if code in _SERVER_FAULTS:
        span.set_status(Status(StatusCode.ERROR))
    span.end()


def _session() -> requests.Session:
    """Return a session that uses no proxy from the environment and follows no redirects."""
    session = requests.Session()
    session.trust_env = False
    session.max_redirects = 0
    return session
