"""Reads what a server says of itself."""

from __future__ import annotations

from collections.abc import Iterable

from judged._codec import read_fields
from judged._convert.judges import read_value
from judged.v1 import judge_service_pb2 as pb
from judged.values.choices import Matching
from judged.values.server_info import JudgeInfo, MetricInfo, ParameterInfo, ServerInfo


def read_info(message: pb.GetServerInfoResponse) -> ServerInfo:
    """Return what a server says of itself."""
    return read_fields(
        ServerInfo,
        message,
        judges=[
            read_fields(
                JudgeInfo,
                judge,
                parameters=[
                    read_fields(ParameterInfo, p, default=read_value(p.default_value))
                    for p in judge.parameters
                ],
            )
            for judge in message.judges
        ],
        metrics=_read_metrics(message.metrics),
        text_metrics=_read_metrics(message.text_metrics),
    )


def _read_metrics(messages: Iterable[pb.MetricInfo]) -> list[MetricInfo]:
    return [
        read_fields(MetricInfo, metric, matching=[Matching(mode) for mode in metric.matching_modes])
        for metric in messages
    ]
