"""Bad requests to RankSystems."""

from __future__ import annotations

from functools import partial

from judged.v1 import metrics_pb2, statistics_service_pb2

from tests.integration.bad_input.case import NAN, case


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
    case("RankSystemsRequest.systems", "systems", lambda: rank(systems=["a"])),
    case("RankSystemsRequest.systems", "systems[1]", lambda: rank(systems=["a", ""])),
    case(
        "RankSystemsRequest.query_ids",
        "query_ids",
        lambda: rank(query_ids=[], first=[], second=[], preference=[]),
    ),
    case("RankSystemsRequest.first", "first", lambda: rank(first=[0])),
    case("RankSystemsRequest.first", "first[0]", lambda: rank(first=[2, 1])),
    case("RankSystemsRequest.second", "second", lambda: rank(second=[])),
    case("RankSystemsRequest.second", "second[1]", lambda: rank(second=[1, 1])),
    case("RankSystemsRequest.preference", "preference", lambda: rank(preference=[1.0])),
    *(
        case(
            "RankSystemsRequest.preference", "preference[1]", partial(rank, preference=[0.0, wrong])
        )
        for wrong in (NAN, -0.1, 1.1)
    ),
    case(
        "RankSystemsRequest.interval",
        "interval.method",
        lambda: rank(interval=metrics_pb2.IntervalOptions(method=metrics_pb2.INTERVAL_METHOD_T)),
    ),
    case(
        "RankSystemsRequest.interval",
        "interval.confidence",
        lambda: rank(interval=metrics_pb2.IntervalOptions(confidence=2)),
    ),
]

HARMLESS: dict[str, str] = {}
