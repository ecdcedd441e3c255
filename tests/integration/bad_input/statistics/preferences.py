"""Bad requests to RankSystems."""

from __future__ import annotations

from functools import partial

from judged.v1 import metrics_pb2, statistics_service_pb2

from tests.integration.bad_input.case import NAN, Case


def rank(**changes: object) -> statistics_service_pb2.RankSystemsRequest:
    given = {
        "systems": ["a", "b"],
        "query_ids": ["1", "2"],
        "first": [0, 1],
        "second": [1, 0],
        "preference": [1.0, 0.5],
    }
    return statistics_service_pb2.RankSystemsRequest(**{**given, **changes})


CASES = [
    Case("systems", lambda: rank(systems=["a"])),
    Case("systems[1]", lambda: rank(systems=["a", ""])),
    Case("query_ids", lambda: rank(query_ids=[], first=[], second=[], preference=[])),
    Case("first", lambda: rank(first=[0])),
    Case("first[0]", lambda: rank(first=[2, 1])),
    Case("second", lambda: rank(second=[])),
    Case("second[1]", lambda: rank(second=[1, 1])),
    Case("preference", lambda: rank(preference=[1.0])),
    *(Case("preference[1]", partial(rank, preference=[0.0, wrong])) for wrong in (NAN, -0.1, 1.1)),
    Case(
        "interval.method",
        lambda: rank(interval=metrics_pb2.IntervalOptions(method=metrics_pb2.INTERVAL_METHOD_T)),
    ),
    Case("interval.confidence", lambda: rank(interval=metrics_pb2.IntervalOptions(confidence=2))),
]

HARMLESS: dict[str, str] = {}
