"""Between the messages of RankSystems and `statistics.preferences`."""

from __future__ import annotations

import numpy as np
from judged._codec import write_fields
from judged.v1 import metrics_pb2, statistics_service_pb2
from judged.values.intervals import IntervalMethod, IntervalOptions

from judged_server.api.convert.statistics.intervals import read_interval_options
from judged_server.domain.names import check_names
from judged_server.errors import InvalidField
from judged_server.statistics.preferences import Comparisons, check_work, rank_systems

SYSTEMS = (2, 50)
RESAMPLES = 1_000


def ranking(
    request: statistics_service_pb2.RankSystemsRequest,
) -> statistics_service_pb2.RankSystemsResponse:
    """Return the reply of a request. Raises InvalidField."""
    data = _read_comparisons(request)
    options = _read_options(request.interval)
    check_work(data, options, "interval.resamples")
    found = rank_systems(data, options)
    return write_fields(statistics_service_pb2.RankSystemsResponse, found)


def _read_comparisons(request: statistics_service_pb2.RankSystemsRequest) -> Comparisons:
    names, n = request.systems, len(request.query_ids)
    low, high = SYSTEMS
    if not low <= len(names) <= high:
        raise InvalidField("systems", f"must hold {low} to {high} names, not {len(names)}")
    check_names(names, "names", high, "systems")
    if not n:
        raise InvalidField("query_ids", "must hold at least one comparison")
    for field in ("first", "second", "preference"):
        column = getattr(request, field)
        if len(column) != n:
            raise InvalidField(field, f"has {len(column)} entries for {n} query_ids")
    first, second = np.array(request.first, np.int64), np.array(request.second, np.int64)
    for field, column in (("first", first), ("second", second)):
        _refuse(column >= len(names), field, f"must be a place in systems, 0 to {len(names) - 1}")
    _refuse(first == second, "second", "must be another system than the first")
    preference = np.array(request.preference, np.float64)
    outside = ~((preference >= 0) & (preference <= 1))  # NaN too
    _refuse(outside, "preference", "must be from 0 to 1")
    queries: dict[str, int] = {}
    query = [queries.setdefault(query_id, len(queries)) for query_id in request.query_ids]
    return Comparisons(
        np.array(query, np.int64), first, second, preference, len(queries), list(names)
    )


def _refuse(bad: np.ndarray[tuple[int], np.dtype[np.bool_]], field: str, rule: str) -> None:
    if bad.any():
        raise InvalidField(f"{field}[{int(bad.argmax())}]", rule)


def _read_options(message: metrics_pb2.IntervalOptions) -> IntervalOptions:
    options = read_interval_options(message, "interval")
    if options.method is not IntervalMethod.PERCENTILE:
        rule = "must be unset or INTERVAL_METHOD_PERCENTILE: strengths are no means"
        raise InvalidField("interval.method", rule)
    if message.HasField("resamples"):
        return options
    return IntervalOptions(options.method, options.confidence, RESAMPLES, options.seed)
