"""Relevance in, metrics out: pure functions over arrays, without clock, chance or input/output.

The way down: `names` reads what was asked for; `matching` (verdicts), `trec` (qrels and a run) and
`gains` make `rankings`; `ranking_metrics`, `weighted_metrics` and `pooled_metrics` hold the
formulas; `compute` puts the table together. The names below are what other layers use.
"""

from judged_server.metrics.compute import (
    check_modes,
    check_unique,
    compute_gains,
    compute_judged,
    compute_trec,
    merge_values,
)
from judged_server.metrics.families import FAMILIES
from judged_server.metrics.grades import grades_of
from judged_server.metrics.input.columnar_topics import query_ids
from judged_server.metrics.input.rankings import distinct_results
from judged_server.metrics.input.trec import Qrels, Topic
from judged_server.metrics.matching import JudgedResults, match_ids
from judged_server.metrics.measures.declaration import Metric
from judged_server.metrics.measures.names import METRICS, Measure, parse_metrics
from judged_server.metrics.merge import Judging, compute_merged
from judged_server.metrics.options import (
    MatchingMode,
    MetricOptions,
    NoGoldPolicy,
    UnjudgedPolicy,
)
from judged_server.metrics.table import (
    MetricColumn,
    MetricCounts,
    MetricTable,
    check_keys,
    with_intervals_and_slices,
)

__all__ = [
    "FAMILIES",
    "METRICS",
    "JudgedResults",
    "Judging",
    "MatchingMode",
    "Measure",
    "Metric",
    "MetricColumn",
    "MetricCounts",
    "MetricOptions",
    "MetricTable",
    "NoGoldPolicy",
    "Qrels",
    "Topic",
    "UnjudgedPolicy",
    "check_keys",
    "check_modes",
    "check_unique",
    "compute_gains",
    "compute_judged",
    "compute_merged",
    "compute_trec",
    "distinct_results",
    "grades_of",
    "match_ids",
    "merge_values",
    "parse_metrics",
    "query_ids",
    "with_intervals_and_slices",
]
