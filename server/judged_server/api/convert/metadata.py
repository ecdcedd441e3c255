"""Between the metadata of a ComputeMetrics request and the queries it speaks of.

What one query's metadata may hold is up to `golden`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from judged.v1 import judge_service_pb2

from judged_server.api.convert.golden import read_metadata
from judged_server.errors import InvalidField


def read_query_metadata(
    messages: Sequence[judge_service_pb2.QueryMetadata],
    query_ids: Sequence[str],
    also_known: Sequence[str] = (),
) -> list[Mapping[str, str]]:
    """Return the metadata of each query in `query_ids`, in that order; empty if there is none.

    `also_known` are queries of the request that are not measured. Raises InvalidField at
    `metadata[i].query_id` for one that the request does not have or that was there before, and as
    `read_metadata` does.
    """
    places: dict[str, int] = {}
    known = set(query_ids).union(also_known) if messages else set()
    for i, message in enumerate(messages):
        if message.query_id not in known:
            raise InvalidField(f"metadata[{i}].query_id", "is the id of no query of this request")
        first = places.setdefault(message.query_id, i)
        if first != i:
            rule = f"is that of metadata[{first}].query_id again"
            raise InvalidField(f"metadata[{i}].query_id", rule)
    read = [read_metadata(m.metadata, f"metadata[{i}].metadata") for i, m in enumerate(messages)]
    nothing: Mapping[str, str] = {}
    return [read[places[q]] if q in places else nothing for q in query_ids]
