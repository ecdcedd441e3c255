"""The metrics of a server, as Prometheus reads them, and the port where it does.

Labels are bounded: methods, codes, reasons, stages and caches by the contract, models and providers
by their configuration, tenants by MOST_TENANTS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

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
from judged_server.http_server import runner_of, wrong_host
from judged_server.recorder import Recorder, Stage

MOST_TENANTS = 200
OTHER = "other"
"""The label of tenants beyond those."""

_COUNTERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "calls": (
        "Calls that have ended, by the gRPC status they ended with.",
        ("method", "code", "tenant"),
    ),
    "refusals": ("Calls that failed, by the reason in their ErrorInfo.", ("reason",)),
    "cache_lookups": (
        "Replies or vectors that were looked for, by whether they were found.",
        ("cache", "result"),
    ),
    "model_questions": ("Questions that a language model answered.", ("model", "tenant")),
    "model_tokens": ("Tokens that language models counted.", ("model", "tenant", "direction")),
    "model_cost": (
        "What language models cost, in the currency of their prices.",
        ("model", "tenant"),
    ),
}
_HISTOGRAMS: Mapping[str, tuple[str, tuple[str, ...], tuple[float, ...]]] = {
    "call_seconds": (
        "Seconds from reading a call's message to its reply.",
        ("method",),
        (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300),
    ),
    "stage_seconds": (
        "Seconds of a step: queue, tokenize, infer, provider, store.",
        ("stage",),
        (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30),
    ),
    "loop_lag_seconds": (
        "How late the event loop was.",
        (),
        (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3),
    ),
}
_TIMEOUT_S = 5.0
_TEXT = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Reading:
    """A value that is read when somebody asks, or one for each value of a label."""

    text: str
    read: Callable[[], Mapping[str, float]]
    label: str = ""


class PrometheusMetrics(Recorder):
    """Hears what happens, and tells it."""

    def __init__(
        self,
        version: str,
        readings: Mapping[str, Reading],
        failures: Callable[[], Mapping[str, int]],
    ) -> None:
        """Take what is read when somebody asks, by the name of its metric."""
        # Else each counter and histogram has a series more for each of its labels' values.
        disable_created_metrics()
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._readings = readings
        self._failures = failures
        self._tenants: set[str] = set()
        self._count = {
            name: Counter(f"judged_{name}", text, labels, registry=registry)
            for name, (text, labels) in _COUNTERS.items()
        }
        self._time = {
            name: Histogram(f"judged_{name}", text, labels, buckets=buckets, registry=registry)
            for name, (text, labels, buckets) in _HISTOGRAMS.items()
        }
        build = Gauge("judged_build_info", "The release that runs.", ["version"], registry=registry)
        build.labels(version).set(1)
        registry.register(self)

    def call(self, method: str, code: str, tenant: str, seconds: float) -> None:
        """Note a call that has ended."""
        short = method.rpartition("/")[2]
        self._count["calls"].labels(short, code, self._bounded(tenant)).inc()
        self._time["call_seconds"].labels(short).observe(seconds)

    def refusal(self, reason: str) -> None:
        """Note a call that failed with a reason of the contract."""
        self._count["refusals"].labels(reason).inc()

    def stage(self, stage: Stage, seconds: float) -> None:
        """Note what a step of the work took."""
        self._time["stage_seconds"].labels(stage).observe(seconds)

    def lookups(self, cache: Literal["replies", "vectors"], hits: int, misses: int) -> None:
        """Note how often something was found in a cache, and how often not."""
        for result, times in (("hit", hits), ("miss", misses)):
            if times:
                self._count["cache_lookups"].labels(cache, result).inc(times)

    def question(
        self, model: str, tenant: str, input_tokens: int, output_tokens: int, cost: float | None
    ) -> None:
        """Note what a question to a language model took; `cost` is None without a price."""
        who = self._bounded(tenant)
        self._count["model_questions"].labels(model, who).inc()
        self._count["model_tokens"].labels(model, who, "input").inc(input_tokens)
        self._count["model_tokens"].labels(model, who, "output").inc(output_tokens)
        if cost is not None:
            self._count["model_cost"].labels(model, who).inc(cost)

    def lag(self, seconds: float) -> None:
        """Note how late the event loop was."""
        self._time["loop_lag_seconds"].observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format. Takes some milliseconds."""
        return bytes(generate_latest(self._registry))

    def collect(self) -> Iterable[Metric]:
        """Return what is read when somebody asks."""
        for name, reading in self._readings.items():
            labels = [reading.label] if reading.label else []
            gauge = GaugeMetricFamily(name, reading.text, labels=labels)
            for label, value in reading.read().items():
                gauge.add_metric([label] if reading.label else [], value)
            yield gauge
        failures = CounterMetricFamily(
            "judged_reload_failures",
            "Times that a file which is read again, or the audit log, could not be used.",
            labels=["what"],
        )
        for what, number in self._failures().items():
            failures.add_metric([what], number)
        yield failures

    def _bounded(self, tenant: str) -> str:
        if tenant not in self._tenants:
            if len(self._tenants) >= MOST_TENANTS:
                return OTHER
            self._tenants.add(tenant)
        return tenant


class MonitoringPort:
    """The port of an operator: /metrics, /healthz, /readyz. For this machine only, by GET only."""

    def __init__(
        self, address: Address, metrics: PrometheusMetrics, is_ready: Callable[[], bool]
    ) -> None:
        """Raise AddressError for an address that others can reach: nobody is asked who calls."""
        if not address.is_local or address.path is not None:
            raise AddressError(
                f"metrics_listen {address}: is for this machine only; name a port of 127.0.0.1"
            )
        self.address = address
        self.metrics = metrics
        self._is_ready = is_ready
        self._runner: web.AppRunner | None = None

    async def open(self) -> None:
        """Listen. Raises AddressError when that fails."""
        application = web.Application()
        application.router.add_get("/metrics", self._tell_metrics, allow_head=False)
        runner = runner_of(application, self._is_ready, keepalive_timeout=_TIMEOUT_S)
        await runner.setup()
        site = web.TCPSite(runner, self.address.host, self.address.port)
        try:
            await site.start()
        except OSError as error:
            await runner.cleanup()
            raise AddressError(
                f"metrics_listen: can't listen on {self.address}: {error.strerror}; pick another "
                "port, or 0 for any"
            ) from None
        self.address = Address(self.address.host, runner.addresses[0][1])
        self._runner = runner

    async def close(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _tell_metrics(self, request: web.Request) -> web.Response:
        if refused := wrong_host(request):
            raise web.HTTPForbidden(text=f"{refused}\n")
        text = await asyncio.to_thread(self.metrics.text)
        return web.Response(body=text, headers={"Content-Type": _TEXT})
