"""The server's metrics in Prometheus's format, and the port that serves them.

Labels are bounded: methods, codes, reasons, stages and caches by the contract, models, providers
and tenants by their configuration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import NamedTuple

from aiohttp import web
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from judged_server.address import Address, AddressError
from judged_server.http_server import Port, Shown, wrong_host
from judged_server.settings import Settings, SettingsError, content_of
from judged_server.watched_files import WatchedFiles

_LONG = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)
_SHORT = (0.0001, 0.0003, *_LONG[:-2])


class Figure(NamedTuple):
    """A counter, or with `buckets` a histogram of a time in seconds."""

    text: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


FIGURES = {
    "calls": Figure(
        "Calls that have ended, by the gRPC status they ended with.", ("method", "code", "tenant")
    ),
    "call_seconds": Figure(
        "Seconds from reading a call's message to its reply.", ("method",), _LONG
    ),
    "refusals": Figure("Calls that failed, by the reason in their ErrorInfo.", ("reason",)),
    "stage_seconds": Figure(
        "Seconds of a step: queue, tokenize, infer, provider, store.", ("stage",), _SHORT
    ),
    "cache_lookups": Figure(
        "Replies or vectors that were looked for, by whether they were found.", ("cache", "result")
    ),
    "model_questions": Figure(
        "Answers of language models, those to a retry included.", ("model", "tenant")
    ),
    "model_tokens": Figure(
        "Tokens that language models counted.", ("model", "tenant", "direction")
    ),
    "model_cost": Figure(
        "What language models cost or may have cost, in the currency of their prices.",
        ("model", "tenant"),
    ),
    "loop_lag_seconds": Figure("How late the event loop was.", (), _LONG[:-4]),
}
"""The metrics that `telemetry.note` adds to; each is exported as `judged_NAME`."""
_TIMEOUT_S = 5.0
_TOKEN_CHARACTERS = 32
_TEXT = "text/plain; version=0.0.4; charset=utf-8"


Read = float | Mapping[str, float] | None
"""What is read at each scrape: a value, one per value of a label, or None for no metric."""
READINGS = {
    "ready": ("1 while the server is ready for calls.", ""),
    "calls_in_work": ("Calls that have begun and not ended.", ""),
    "request_bytes_in_work": ("Bytes of the requests in work.", ""),
    "queued_tokens": ("Tokens of texts that wait for an embedding model.", "model"),
    "python_blocks": ("Blocks of at most 512 bytes that Python's objects take.", ""),
    "reload_failures": ("Times that a file which is read again could not be used.", "what"),
    "heap_in_use_bytes": (
        "Bytes that the C heap has given out; resident memory has what it keeps too.",
        "",
    ),
    "provider_breaker_open": (
        "1 while requests to a provider are held until it answers again.",
        "provider",
    ),
    "store_reachable": ("1 while the store that servers share answers.", ""),
    "budget_left": (
        "What is left of the budget of the day, as this process last saw it.",
        "currency",
    ),
    "certificate_expiry_timestamp_seconds": (
        "When the server's certificate ends, in seconds since 1970.",
        "",
    ),
}
"""The help text and label of each metric that is read at a scrape, exported as `judged_NAME`."""
_COUNTED = "reload_failures"


class PrometheusMetrics:
    """Records metrics, and renders them for Prometheus."""

    def __init__(self, version: str, readings: Callable[[], Mapping[str, Read]]) -> None:
        """Register all metrics; `readings` returns the values of READINGS at each scrape."""
        # Else each series of a counter or histogram has a second one, `_created`.
        disable_created_metrics()
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._readings = readings
        self._figures: dict[str, Counter | Histogram] = {}
        for name, (text, labels, buckets) in FIGURES.items():
            made = partial(Histogram, buckets=buckets) if buckets else Counter
            self._figures[name] = made(f"judged_{name}", text, labels, registry=registry)
        build = Gauge("judged_build_info", "The release that runs.", ["version"], registry=registry)
        build.labels(version).set(1)
        registry.register(self)

    def note(self, figure: str, value: float, *labels: str) -> None:
        """Add to a counter, or a value to a histogram."""
        metric = self._figures[figure]
        if labels:
            metric = metric.labels(*labels)
        if isinstance(metric, Counter):
            metric.inc(value)
        else:
            metric.observe(value)

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format. Takes some milliseconds."""
        return bytes(generate_latest(self._registry))

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics of READINGS; the registry calls this at each scrape."""
        for name, read in self._readings().items():
            text, label = READINGS[name]
            kind = CounterMetricFamily if name == _COUNTED else GaugeMetricFamily
            if isinstance(read, Mapping):
                family = kind(f"judged_{name}", text, labels=[label])
                for each, value in read.items():
                    family.add_metric([each], value)
                yield family
            elif read is not None:
                yield kind(f"judged_{name}", text, read)


class Token(WatchedFiles[bytes]):
    """The token that /metrics requires, stored as its SHA-256."""

    def __init__(self, file: Path) -> None:
        """Read the file. Raises SettingsError if it can't be used."""
        super().__init__("metrics_token", [file], lambda _: self._load(file))

    def is_shown(self, request: web.Request) -> bool:
        """Return whether a request carries the token."""
        scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
        digest = sha256(shown.strip().encode(errors="surrogateescape")).digest()
        return scheme.lower() == "bearer" and compare_digest(digest, self.now)

    @staticmethod
    def _load(file: Path) -> bytes:
        token = content_of(file, "metrics_token_file").strip()
        if len(token) < _TOKEN_CHARACTERS or not token.isascii() or len(token.split()) > 1:
            raise SettingsError(
                f"metrics_token_file {file}: must hold one token of {_TOKEN_CHARACTERS} characters "
                "or more, in ASCII and without spaces; make one with: openssl rand -hex 32"
            )
        return sha256(token).digest()


class MonitoringPort(Port):
    """The operator's port: /metrics, /healthz and /readyz, by GET only."""

    def __init__(
        self,
        settings: Settings,
        metrics: PrometheusMetrics,
        is_ready: Callable[[], bool],
        certificates: Shown | None,
    ) -> None:
        """Raise AddressError for an unprotected address, and SettingsError as Token does.

        Uses TLS for other machines, and on a local address if clients must show certificates.
        """
        address = Address.parse(settings.metrics_listen or "", "metrics_listen")
        file, client_ca = settings.metrics_token_file, settings.metrics_client_ca
        if address.path is not None:
            raise AddressError(f"metrics_listen {address}: must be HOST:PORT")
        if not address.is_local and (certificates is None or (file or client_ca) is None):
            raise AddressError(
                f"metrics_listen {address}: can be reached from other machines; give --certificate "
                "and --private-key, and --metrics-token-file or --metrics-client-ca, or name a "
                "port of 127.0.0.1"
            )
        if address.is_local and client_ca is None:
            certificates = None
        application = web.Application()
        application.router.add_get("/metrics", self._get_metrics, allow_head=False)
        super().__init__(
            "metrics_listen",
            address,
            application,
            is_ready,
            certificates,
            client_ca,
            keepalive_timeout=_TIMEOUT_S,
        )
        self.metrics = metrics
        self.token = None if file is None else Token(file)
        self._is_open = (file or client_ca) is None

    async def refresh(self) -> None:
        """Use the certificate and the token as they are now in their files."""
        await super().refresh()
        if self.token is not None:
            await asyncio.to_thread(self.token.refresh)

    async def _get_metrics(self, request: web.Request) -> web.Response:
        if self._is_open and (refused := wrong_host(request)):
            raise web.HTTPForbidden(text=refused)
        if self.token is not None and not self.token.is_shown(request):
            rule = "the metrics want a token: authorization: Bearer, and that of metrics_token_file"
            raise web.HTTPUnauthorized(text=rule, headers={"WWW-Authenticate": "Bearer"})
        text = await asyncio.to_thread(self.metrics.text)
        return web.Response(body=text, headers={"Content-Type": _TEXT})
