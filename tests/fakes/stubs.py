"""The calls of all services over one channel, for tests that choose a call by its name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import grpc
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub
from judged.v1.statistics_service_pb2_grpc import StatisticsServiceStub


def stub_of_all_calls(channel: grpc.Channel) -> Any:
    """Return an object that has each call of each service under its name."""
    return SimpleNamespace(
        **vars(JudgeServiceStub(channel)), **vars(StatisticsServiceStub(channel))
    )
