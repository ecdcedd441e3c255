"""The metrics of a server, as Prometheus reads them.

Labels are bounded: methods, codes, reasons, stages and caches by the contract, models and providers
by their configuration, tenants by MOST_TENANTS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

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

from judged_server.recorder import Recorder, Stage

MOST_TENANTS = 200
OTHER = "other"
"""The label of tenants beyond those."""

_CALL_BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)
_STAGE_BUCKETS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30)
_LAG_BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3)


@dataclass(frozen=True, slots=True)
class Readings:
    """What is read of a server when somebody asks, and not counted as it happens.

    `gauges` maps a metric to its help and to a reader of its values by label, "" for none.
    """

    version: str
    gauges: Mapping[str, Reading]
    failures: Callable[[], Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Reading:
    """A value that is read when somebody asks, or one for each value of a label."""

    text: str
    read: Callable[[], Mapping[str, float]]
    label: str = ""


class PrometheusMetrics(Recorder):
    """Hears what happens, and tells it."""

    def __init__(self, readings: Readings) -> None:
        # Else each counter and histogram has a series more for each of its labels' values.
        disable_created_metrics()
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._tenants: set[str] = set()
        self._calls = Counter(
            "judged_calls",
            "Calls that have ended, by the gRPC status they ended with.",
            ["method", "code", "tenant"],
            registry=registry,
        )
        self._seconds = Histogram(
            "judged_call_seconds",
            "Seconds from reading a call's message to its reply.",
            ["method"],
            buckets=_CALL_BUCKETS,
            registry=registry,
        )
        self._refusals = Counter(
            "judged_refusals",
            "Calls that failed, by the reason in their ErrorInfo.",
            ["reason"],
            registry=registry,
        )
        self._stages = Histogram(
            "judged_stage_seconds",
            "Seconds of a step: queue, tokenize, infer, provider, store.",
            ["stage"],
            buckets=_STAGE_BUCKETS,
            registry=registry,
        )
        self._lookups = Counter(
            "judged_cache_lookups",
            "Replies or vectors that were looked for, by whether they were found.",
            ["cache", "result"],
            registry=registry,
        )
        self._questions = Counter(
            "judged_model_questions",
            "Questions that a language model answered.",
            ["model", "tenant"],
            registry=registry,
        )
        self._tokens = Counter(
            "judged_model_tokens",
            "Tokens that language models counted.",
            ["model", "tenant", "direction"],
            registry=registry,
        )
        self._cost = Counter(
            "judged_model_cost",
            "What language models cost, in the currency of their prices.",
            ["model", "tenant"],
            registry=registry,
        )
        self._lag = Histogram(
            "judged_loop_lag_seconds",
            "How late the event loop was.",
            buckets=_LAG_BUCKETS,
            registry=registry,
        )
        build = Gauge("judged_build_info", "The release that runs.", ["version"], registry=registry)
        build.labels(readings.version).set(1)
        registry.register(_Collector(readings))
        # The look-up of a child by its labels takes longer than counting does.
        self._of_call = lru_cache(maxsize=4096)(self._child_of_call)
        self._of_question = lru_cache(maxsize=4096)(self._children_of_question)
        self._of_cost = lru_cache(maxsize=4096)(self._child_of_cost)
        self._of_stage = lru_cache(maxsize=16)(self._stages.labels)

    def call(self, method: str, code: str, tenant: str, seconds: float) -> None:
        """Note a call that has ended."""
        counter, histogram = self._of_call(method, code, tenant)
        counter.inc()
        histogram.observe(seconds)

    def refusal(self, reason: str) -> None:
        """Note a call that failed with a reason of the contract."""
        self._refusals.labels(reason).inc()

    def stage(self, stage: Stage, seconds: float) -> None:
        """Note what a step of the work took."""
        self._of_stage(stage).observe(seconds)

    def lookups(self, cache: Literal["replies", "vectors"], hits: int, misses: int) -> None:
        """Note how often something was found in a cache, and how often not."""
        if hits:
            self._lookups.labels(cache, "hit").inc(hits)
        if misses:
            self._lookups.labels(cache, "miss").inc(misses)

    def question(
        self, model: str, tenant: str, input_tokens: int, output_tokens: int, cost: float | None
    ) -> None:
        """Note what a question to a language model took; `cost` is None without a price."""
        questions, read, written = self._of_question(model, tenant)
        questions.inc()
        read.inc(input_tokens)
        written.inc(output_tokens)
        if cost is not None:
            self._of_cost(model, tenant).inc(cost)

    def lag(self, seconds: float) -> None:
        """Note how late the event loop was."""
        self._lag.observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format. Takes some milliseconds."""
        return bytes(generate_latest(self._registry))

    def _child_of_call(self, method: str, code: str, tenant: str) -> tuple[Counter, Histogram]:
        short = method.rpartition("/")[2]
        return (
            self._calls.labels(short, code, self._bounded(tenant)),
            self._seconds.labels(short),
        )

    def _children_of_question(self, model: str, tenant: str) -> tuple[Counter, ...]:
        who = self._bounded(tenant)
        return (
            self._questions.labels(model, who),
            self._tokens.labels(model, who, "input"),
            self._tokens.labels(model, who, "output"),
        )

    def _child_of_cost(self, model: str, tenant: str) -> Counter:
        return self._cost.labels(model, self._bounded(tenant))

    def _bounded(self, tenant: str) -> str:
        if tenant not in self._tenants:
            if len(self._tenants) >= MOST_TENANTS:
                return OTHER
            self._tenants.add(tenant)
        return tenant


class _Collector:
    """What is read when somebody asks."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    def collect(self) -> Iterable[Metric]:
        """Return the present values."""
        for name, reading in self._readings.gauges.items():
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
        for what, number in self._readings.failures().items():
            failures.add_metric([what], number)
        yield failures
