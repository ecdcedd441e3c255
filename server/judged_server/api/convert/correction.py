"""Between human labels on the wire and `metrics.corrected`; corrected means on the way out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from judged.v1 import judge_service_pb2, metrics_pb2
from judged.values.intervals import IntervalOptions

from judged_server.api.convert.statistics import read_inclusion
from judged_server.domain import FloatArray, IntArray, check_unique
from judged_server.errors import InvalidField
from judged_server.metrics.compute import merge_values
from judged_server.metrics.corrected import (
    HumanLabels,
    HumanValues,
    correct_judged,
    correct_values,
)
from judged_server.metrics.matching import JudgedResults
from judged_server.metrics.measures.names import Measure
from judged_server.metrics.table import MetricOptions, MetricTable

_LABELS = "judged.human_labels"
_VALUES = "human_values"


def with_correction(
    table: MetricTable,
    request: judge_service_pb2.ComputeMetricsRequest,
    measures: Sequence[Measure],
    options: MetricOptions,
    query_ids: Sequence[str],
    judged: tuple[JudgedResults, FloatArray] | None = None,
) -> MetricTable:
    """Return the table with means corrected by the labels or the human values of the request.

    `query_ids` names the queries that were given, `judged` holds their verdicts and scores if the
    request has any. Raises InvalidField at `human_values` when there are labels too, and what the
    readers below raise.
    """
    confidence = (options.interval or IntervalOptions()).confidence
    per_query = request.options.per_query
    if judged is not None and request.judged.HasField("human_labels"):
        if request.HasField("human_values"):
            raise InvalidField(_VALUES, f"must be unset when {_LABELS} is set; use one of them")
        results, scores = judged
        labels = read_human_labels(request.judged.human_labels, query_ids, results)
        _refuse_unequal(labels.inclusion, _LABELS, per_query=per_query)
        return correct_judged(
            table,
            measures,
            results,
            scores if request.judged.verdicts.score else None,
            labels,
            options.matching,
            confidence=confidence,
            per_query=per_query,
        )
    if request.HasField("human_values"):
        human = read_human_values(request.human_values, query_ids, measures)
        _refuse_unequal(human.inclusion, _VALUES, per_query=per_query)
        return correct_values(table, human, confidence=confidence, per_query=per_query)
    return table


def _refuse_unequal(inclusion: FloatArray | None, field: str, *, per_query: bool) -> None:
    if per_query and inclusion is not None:
        raise InvalidField(
            f"{field}.inclusion_probabilities",
            "must be empty with options.per_query: bounds of single queries need labels that were "
            "all drawn with the same probability",
        )


def read_human_labels(
    message: metrics_pb2.HumanLabels, query_ids: Sequence[str], results: JudgedResults
) -> HumanLabels:
    """Return the labels of some of the rankings.

    Raises InvalidField at `judged.human_labels.query_ids[i]` for an id that no ranking has or that
    was there before, and at `judged.human_labels.relevant` for a wrong number of decisions.
    """
    queries = _places(message.query_ids, query_ids, _LABELS, "judged.rankings")
    contexts = int((results.n_retrieved * results.n_expected)[queries].sum())
    relevant = np.array(message.relevant, np.bool_)
    inclusion = read_inclusion(message.inclusion_probabilities, len(queries), _LABELS)
    if len(relevant) != contexts:
        rule = f"has {len(relevant)} entries for the {contexts} contexts of the labelled rankings"
        raise InvalidField(f"{_LABELS}.relevant", rule)
    return HumanLabels(queries, relevant, inclusion)


def read_human_values(
    message: metrics_pb2.PerQueryValues,
    query_ids: Sequence[str],
    measures: Sequence[Measure],
) -> HumanValues:
    """Return the human values of some of the queries.

    Raises InvalidField at `human_values.query_ids[i]` as `read_human_labels` does, and at
    `human_values.columns` and below as `merge_values` does for values.
    """
    queries = _places(message.query_ids, query_ids, _VALUES, "the queries that are measured")
    columns = [column.values for column in message.columns]
    table = merge_values(measures, columns, len(queries), field=_VALUES)
    inclusion = read_inclusion(message.inclusion_probabilities, len(queries), _VALUES)
    return HumanValues(queries, np.array([column.values for column in table.columns]), inclusion)


def _places(labelled: Sequence[str], query_ids: Sequence[str], field: str, whole: str) -> IntArray:
    """Return int64[n]: where each labelled query stands among those given."""
    check_unique(labelled, f"{field}.query_ids[{{}}]")
    known = {query_id: place for place, query_id in enumerate(query_ids)}
    for i, query_id in enumerate(labelled):
        if query_id not in known:
            raise InvalidField(f"{field}.query_ids[{i}]", f"is the id of none of {whole}")
    return np.array([known[query_id] for query_id in labelled], np.int64)
