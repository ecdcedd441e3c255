"""Rankings that bring vectors in place of verdicts, for ComputeMetrics.

The cosine is that of the judge `semantic`; no model runs and no text is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np
from judged.v1 import judge_service_pb2
from judged.values.choices import Matching, Status

from judged_server import errors
from judged_server.api.convert.judging import read_embeddings
from judged_server.domain import IntArray, QueryGroup, Verdicts, check_unique
from judged_server.judges.semantic import caller_identity, score_vectors
from judged_server.metrics.compute import Judging, check_modes, compute_merged
from judged_server.metrics.matching import JudgedResults
from judged_server.metrics.measures.formulas import FAMILIES
from judged_server.metrics.measures.names import Measure
from judged_server.metrics.table import MetricOptions, MetricTable
from judged_server.settings import Limits

_SIMILARITY = FAMILIES["similarity"]


def measure_embedded(
    message: judge_service_pb2.EmbeddedRankings,
    measures: Sequence[Measure],
    options: MetricOptions,
    limits: Limits,
) -> tuple[MetricTable, list[str], Verdicts]:
    """Return the metrics of embedded rankings, the query ids and the verdicts they rest on.

    Raises InvalidField and LimitExceeded below `embedded`, and at `metrics[i]` for a metric of the
    family that compares texts.
    """
    for i, measure in enumerate(measures):
        family = measure.metric.family
        if family and family != _SIMILARITY.name:
            other = measure.metric.name.removesuffix(family) + _SIMILARITY.name
            rule = f"{measure.metric.name} compares texts, and here are vectors"
            raise errors.InvalidField(f"metrics[{i}]", f"{rule}; use Evaluate, or ask for {other}")
    check_modes(measures, options.matching, families=True)
    min_score = message.min_score if message.HasField("min_score") else _SIMILARITY.min_score
    if not 0 <= min_score <= 1:
        raise errors.InvalidField("embedded.min_score", "must be a number from 0 to 1")
    identity = caller_identity(min_score)
    groups = _read_rankings(message, limits)
    columns = score_vectors(groups)
    offsets = list(accumulate([group.n_contexts for group in groups], initial=0))
    verdicts = Verdicts.decide(columns, offsets, identity.min_score)
    n_retrieved: IntArray = np.array([group.n_retrieved for group in groups], np.int64)
    n_expected: IntArray = np.array([group.n_expected for group in groups], np.int64)
    missing = None if columns.statuses is None else columns.statuses != Status.OK
    results = JudgedResults(verdicts.relevant, n_retrieved, n_expected, missing)
    in_mode_any = replace(options, matching=Matching.ANY)
    judgings = [
        Judging([m.judged_by(identity.signature) for m in chosen], results, how)
        for chosen, how in (
            ([m for m in measures if not m.metric.family], options),
            ([m for m in measures if m.metric.family], in_mode_any),
        )
        if chosen
    ]
    field = "embedded.rankings[{}].embeddings.expected"
    table = compute_merged(judgings, measures, field=field)
    return table, [group.query_id for group in groups], verdicts


def _read_rankings(message: judge_service_pb2.EmbeddedRankings, limits: Limits) -> list[QueryGroup]:
    field = "embedded.rankings"
    if not message.rankings:
        raise errors.InvalidField(field, "must hold at least one ranking")
    check_unique([ranking.query_id for ranking in message.rankings], f"{field}[{{}}].query_id")
    groups = []
    for index, ranking in enumerate(message.rankings):
        vectors = read_embeddings(ranking.embeddings, limits, f"{field}[{index}].embeddings")
        groups.append(QueryGroup(ranking.query_id, "", (), (), embeddings=vectors))
    limits.check_contexts(sum(group.n_contexts for group in groups), field)
    return groups
