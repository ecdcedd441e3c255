"""From paired comparisons to the message of RankSystems."""

from __future__ import annotations

from collections.abc import Sequence

from judged._codec import write_fields
from judged._inputs import need_each
from judged.v1 import statistics_service_pb2
from judged.values.intervals import IntervalOptions
from judged.values.preferences import PairedComparison


def write_comparisons(
    comparisons: Sequence[PairedComparison], interval: IntervalOptions | None
) -> statistics_service_pb2.RankSystemsRequest:
    """Return the message; systems are numbered as they come."""
    given = need_each(comparisons, "comparisons", (PairedComparison,), "PairedComparison")
    places: dict[str, int] = {}
    for one in given:
        for name in (one.first, one.second):
            places.setdefault(name, len(places))
    return write_fields(
        statistics_service_pb2.RankSystemsRequest,
        systems=list(places),
        query_ids=[one.query_id for one in given],
        first=[places[one.first] for one in given],
        second=[places[one.second] for one in given],
        preference=[one.preference for one in given],
        interval=interval,
    )
