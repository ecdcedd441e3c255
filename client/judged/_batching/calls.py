"""Calls with one request and one reply, as both clients make them: what to send, how to read.

A method that takes several, one after the other, is a generator of calls: it is sent what each came
to, or has the error of that call thrown into it, and returns the result of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from judged._codec import read_fields, write_fields
from judged._convert.statistics import (
    read_calibration,
    read_compare,
    read_frontier,
    write_calibrate,
    write_calibrate_cascade,
    write_compare,
    write_comparisons,
)
from judged._convert.text_metrics import (
    merge_text_metrics,
    of_whole,
    split_items,
    write_text_metrics,
    write_text_values,
)
from judged._inputs import as_metrics
from judged._transport.connection import AsyncConnection, Connection
from judged._transport.options import COMPUTING_S, INFO_S
from judged.errors import InvalidArgument
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import statistics_service_pb2
from judged.values.agreement import MeasuredAgreement, RatingTable, SystemScores
from judged.values.calibration import CalibrateOptions, Calibration, LabelledScores
from judged.values.cascades import CascadeFrontier, CascadeOptions, StagedLabels
from judged.values.comparison import ComparedRuns, CompareOptions, RunRelevance
from judged.values.intervals import IntervalOptions
from judged.values.metrics import MetricOptions, TextItem, TextMetricTable
from judged.values.preferences import PairedComparison, SystemRanking
from judged.values.server_info import ServerInfo, TenantUsage

MOST_DAYS = 366
"""The days that `usage` looks back, at most."""

Result = TypeVar("Result")
Step = TypeVar("Step")
Whole = TypeVar("Whole")


@dataclass(frozen=True, slots=True)
class Call(Generic[Result]):
    """One call: its method of a connection, the request, and what reads the reply.

    `usual_s` is the seconds that it has where nobody says otherwise.
    """

    method: Callable[[Connection | AsyncConnection], Callable[..., Any]]
    request: Message
    read: Callable[[Any], Result]
    usual_s: float = COMPUTING_S


Calls = Generator[Call[Result], Result, Whole]


class Walk(Generic[Step, Whole]):
    """A generator of steps that are taken one after the other, and what came of the whole."""

    def __init__(self, steps: Generator[Step, Any, Whole]) -> None:
        self._steps = steps
        self._whole: list[Whole] = []
        self.step: Step | None = None
        """The step to take, None after the last one."""
        self._go(lambda: next(steps))

    def answered(self, result: object) -> None:
        """Go on with what the step came to. Raises as the generator does."""
        self._go(lambda: self._steps.send(result))

    def failed(self, error: BaseException) -> None:
        """Go on with the failure of the step. Raises as the generator does."""
        self._go(lambda: self._steps.throw(error))

    def _go(self, on: Callable[[], Step]) -> None:
        try:
            self.step = on()
        except StopIteration as done:
            self.step = None
            self._whole.append(done.value)

    @property
    def whole(self) -> Whole:
        """What the steps came to; an IndexError before the last is taken."""
        return self._whole[0]


def compare_runs(
    metrics: Sequence[str],
    runs: Mapping[str, RunRelevance],
    qrels: Mapping[str, Mapping[str, int]] | None,
    options: MetricOptions,
    comparison: CompareOptions,
) -> Call[ComparedRuns]:
    """Return the call of `compare_runs`."""
    request = write_compare(metrics, runs, qrels, options, comparison)
    names = list(runs)
    return Call(lambda to: to.statistics.CompareRuns, request, lambda it: read_compare(it, names))


def measure_agreement(
    ratings: RatingTable | None, systems: SystemScores | None, interval: IntervalOptions | None
) -> Call[MeasuredAgreement]:
    """Return the call of `measure_agreement`."""
    request = write_fields(
        statistics_service_pb2.MeasureAgreementRequest,
        ratings=ratings,
        systems=systems,
        interval=interval,
    )
    return Call(
        lambda to: to.statistics.MeasureAgreement,
        request,
        lambda it: read_fields(MeasuredAgreement, it),
    )


def calibrate(
    items: LabelledScores, options: CalibrateOptions, interval: IntervalOptions | None
) -> Call[Calibration]:
    """Return the call of `calibrate`."""
    request = write_calibrate(items, options, interval)
    return Call(lambda to: to.statistics.Calibrate, request, read_calibration)


def calibrate_cascade(items: StagedLabels, options: CascadeOptions) -> Call[CascadeFrontier]:
    """Return the call of `calibrate_cascade`."""
    request = write_calibrate_cascade(items, options)
    return Call(lambda to: to.statistics.CalibrateCascade, request, read_frontier)


def rank_systems(
    comparisons: Sequence[PairedComparison], interval: IntervalOptions | None
) -> Call[SystemRanking]:
    """Return the call of `rank_systems`."""
    request = write_comparisons(comparisons, interval)
    read = partial(read_fields, SystemRanking)
    return Call(lambda to: to.statistics.RankSystems, request, read)


def server_info() -> Call[ServerInfo]:
    """Return the call of `server_info`."""
    return Call(
        lambda to: to.judging.GetServerInfo,
        pb.GetServerInfoRequest(),
        partial(read_fields, ServerInfo),
        INFO_S,
    )


def usage(days: int) -> Call[TenantUsage]:
    """Return the call of `usage`. Raises InvalidArgument for days that are none."""
    if not 1 <= days <= MOST_DAYS:
        raise InvalidArgument.of_field("days", f"must be from 1 to {MOST_DAYS}")
    request = pb.GetUsageRequest(days=days)
    return Call(lambda to: to.judging.GetUsage, request, partial(read_fields, TenantUsage), INFO_S)


def text_metrics(
    metrics: Sequence[str],
    items: Iterable[TextItem],
    *,
    per_item: bool,
    interval: IntervalOptions | None,
) -> Calls[TextMetricTable, TextMetricTable]:
    """Yield the calls of `compute_text_metrics`; return the table of all items."""
    metrics = as_metrics(metrics)
    parts = split_items(items)
    if len(parts) == 1:
        request = write_text_metrics(metrics, parts[0], per_item=per_item, interval=interval)
        return (yield _texts(request))
    tables = []
    for part in parts:
        request = write_text_metrics(metrics, part, per_item=True, interval=None)
        try:
            tables.append((yield _texts(request)))
        except InvalidArgument as error:
            raise of_whole(error, part) from None
    means = yield _texts(write_text_values(metrics, tables, interval))
    return merge_text_metrics(means, tables, per_item=per_item)


def _texts(request: statistics_service_pb2.ComputeTextMetricsRequest) -> Call[TextMetricTable]:
    read = partial(read_fields, TextMetricTable)
    return Call(lambda to: to.statistics.ComputeTextMetrics, request, read)
