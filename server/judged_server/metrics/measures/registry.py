"""The one list of all metrics."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from judged_server.metrics.families import FAMILY_METRICS
from judged_server.metrics.measures.declaration import Metric
from judged_server.metrics.measures.pooled import POOLED_METRICS
from judged_server.metrics.measures.ranking import RANKING_METRICS
from judged_server.metrics.measures.weighted import WEIGHTED_METRICS

METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for metric in RANKING_METRICS + WEIGHTED_METRICS + POOLED_METRICS + FAMILY_METRICS
    }
)
"""Every metric by the name requests use."""
