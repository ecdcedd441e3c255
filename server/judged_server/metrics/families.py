"""Metrics that bring a judge of their own: `precision_exact`, `recall_similarity@5` and the like.

A family is a few metrics over the verdicts of one fixed judge, in mode ANY, whatever judge and
matching a request names.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from judged_server.metrics.measures.declaration import Metric
from judged_server.metrics.measures.ranking import RANKING_METRICS
from judged_server.metrics.measures.weighted import WEIGHTED_METRICS
from judged_server.metrics.options import MatchingMode


@dataclass(frozen=True, slots=True)
class Family:
    """The judge behind a family: its kind, profile and threshold. `matches` says it in words."""

    name: str
    kind: str
    profile: str
    min_score: float
    matches: str


MIN_SCORE = 0.8
"""The threshold of both families. It is part of what their metrics are, as the published definition
has it, and so is not the default of the judge semantic, 0.75, which is a request's to set."""

FAMILIES = {
    family.name: family
    for family in (
        Family("exact", "exact", "verbatim", MIN_SCORE, "are equal, byte for byte"),
        Family(
            *("similarity", "semantic", "", MIN_SCORE),
            f"have embeddings with a cosine of at least {MIN_SCORE:g}, the fixed threshold of this "
            "metric, not the default of the judge semantic",
        ),
    )
}
"""Both families by the suffix of their metrics' names."""

_MEMBERS = ("precision", "recall", "f1", "hybrid_log_rank")


def family_metric(metric: Metric, family: Family) -> Metric:
    """Return the metric as a member of a family."""
    return replace(
        metric,
        name=f"{metric.name}_{family.name}",
        description=f"{metric.name} without pairing, where texts match that {family.matches}.",
        modes=(MatchingMode.ANY,),
        family=family.name,
    )


FAMILY_METRICS = tuple(
    family_metric(metric, family)
    for family in FAMILIES.values()
    for metric in RANKING_METRICS + WEIGHTED_METRICS
    if metric.name in _MEMBERS
)
"""The metrics of both families, in the order GetServerInfo lists them."""
