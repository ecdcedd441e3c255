"""StatisticsService: each call admits, reads its message, computes, and writes the reply."""

from __future__ import annotations

from collections.abc import AsyncIterator

from judged.v1 import statistics_service_pb2 as pb

from judged_server.api.convert.comparison import compare_runs, compared_measures
from judged_server.api.convert.statistics import (
    agreement,
    calibrate_cascade,
    calibration,
    ranking,
)
from judged_server.api.convert.text_metrics import (
    read_items,
    read_measurement,
    read_values,
    write_text_metrics,
)
from judged_server.api.metric_streams import TextParts, answer_parts
from judged_server.api.requests import Admission, Call, Received
from judged_server.judges.equivalence.judge import shipped_calibration
from judged_server.metrics.text.metrics import measure_texts
from judged_server.scheduling.concurrency import run_computation
from judged_server.settings import Settings


class StatisticsService:
    """The calls that judge nothing and ask no model."""

    def __init__(self, admission: Admission, settings: Settings) -> None:
        self._admission = admission
        self._settings = settings

    async def CompareRuns(
        self, request: pb.CompareRunsRequest, call: Call
    ) -> pb.CompareRunsResponse:
        """Test whether runs differ."""
        with self._admission.admit(call.memory, call.sender):
            measures = compared_measures(request)
            return await run_computation(compare_runs, request, measures)

    async def ComputeTextMetrics(
        self, request: pb.ComputeTextMetricsRequest, call: Call
    ) -> pb.ComputeTextMetricsResponse:
        """Compare texts with references."""
        with self._admission.admit(call.memory, call.sender):
            return await run_computation(self._text_metrics, request)

    def _text_metrics(self, request: pb.ComputeTextMetricsRequest) -> pb.ComputeTextMetricsResponse:
        asked = read_measurement(request)
        if request.values:
            columns = read_values(request, asked.metrics)
        else:
            columns = measure_texts(read_items(request.items, self._settings), asked.metrics)
        return pb.ComputeTextMetricsResponse(metrics=write_text_metrics(columns, asked))

    def StreamTextMetrics(
        self, requests: AsyncIterator[Received], call: Call
    ) -> AsyncIterator[pb.StreamTextMetricsResponse]:
        """Compare texts with references that come in parts."""
        return answer_parts(TextParts(self._settings), requests, call, self._admission)

    async def MeasureAgreement(
        self, request: pb.MeasureAgreementRequest, call: Call
    ) -> pb.MeasureAgreementResponse:
        """Tell how far raters, or two judges, agree."""
        with self._admission.admit(call.memory, call.sender):
            return await run_computation(agreement, request)

    async def Calibrate(self, request: pb.CalibrateRequest, call: Call) -> pb.CalibrateResponse:
        """Hold a judge's scores against human labels."""
        with self._admission.admit(call.memory, call.sender):
            return await run_computation(calibration, request, shipped_calibration)

    async def CalibrateCascade(
        self, request: pb.CalibrateCascadeRequest, call: Call
    ) -> pb.CalibrateCascadeResponse:
        """Propose a cascade of judges from labels."""
        with self._admission.admit(call.memory, call.sender):
            return await run_computation(calibrate_cascade, request, shipped_calibration)

    async def RankSystems(
        self, request: pb.RankSystemsRequest, call: Call
    ) -> pb.RankSystemsResponse:
        """Rank systems by paired comparisons."""
        with self._admission.admit(call.memory, call.sender):
            return await run_computation(ranking, request)
