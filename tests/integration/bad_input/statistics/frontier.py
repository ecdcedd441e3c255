"""Bad requests to CalibrateCascade, and guarantees that are of no cascade."""

from __future__ import annotations

from functools import partial

from judged.v1 import groups_pb2, verdicts_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import statistics_service_pb2 as stats_pb

from tests.integration.bad_input.case import NAN, Case
from tests.integration.bad_input.judging import batch

_N = 8


def stage(**fields: object) -> stats_pb.ScoredStage:
    judge = verdicts_pb2.JudgeIdentity(kind="exact", scoring_key="0" * 64)
    return stats_pb.ScoredStage(**{"judge": judge, "scores": [0.5] * _N, **fields})


def request(**fields: object) -> stats_pb.CalibrateCascadeRequest:
    good = {"stages": [stage()], "labels": [True, False] * (_N // 2)}
    return stats_pb.CalibrateCascadeRequest(**{**good, **fields})


def of_stage(**fields: object) -> stats_pb.CalibrateCascadeRequest:
    return request(stages=[stage(), stage(**fields)])


def promised(kind: str = "cascade", **fields: object) -> pb.BatchJudgeRequest:
    good = {"max_error": 0.1, "confidence": 0.9, "n_labels": 9}
    guarantee = groups_pb2.ErrorGuarantee(**{**good, **fields})
    members = [groups_pb2.PanelMember(judge=groups_pb2.JudgeSpec(kind="exact"))]
    return batch(kind=kind, members=members if kind == "cascade" else [], guarantee=guarantee)


def promised_of(**fields: object) -> pb.BatchJudgeRequest:
    good = {"name": "score", "edges": [0.5], "shares": [0.5, 0.5], "variances": [0.0, 0.0]}
    return promised(data=[groups_pb2.ItemShares(**{**good, **fields})])


_PROMISE = "judge.guarantee"

CASES = [
    Case("stages", lambda: request(stages=[])),
    Case("labels", lambda: request(labels=[])),
    Case("clusters", lambda: request(clusters=[1])),
    Case("clusters", lambda: request(clusters=[1] * _N)),
    *[
        Case(name, partial(request, **{name: value}))
        for name, value in (
            ("max_error", 0.5),
            ("max_error", NAN),
            ("max_share", 1.1),
            ("max_cost", -1.0),
            ("max_cost", NAN),
            ("confidence", 1.0),
            ("lengths", [1]),
        )
    ],
    Case(
        "stages[1].judge.scoring_key",
        lambda: of_stage(judge=verdicts_pb2.JudgeIdentity(kind="exact")),
    ),
    Case("stages[1].scores", lambda: of_stage(scores=[0.5])),
    Case("stages[1].scores[0]", lambda: of_stage(scores=[NAN] * _N)),
    Case("stages[1].missing[0]", lambda: of_stage(missing=[_N])),
    Case("stages[1].missing[1]", lambda: of_stage(missing=[1, 1])),
    Case("stages[1].flagged[0]", lambda: of_stage(flagged=[_N])),
    Case("stages[1].cost", lambda: of_stage(cost=-1.0)),
    Case(_PROMISE, lambda: promised("exact")),
    Case(f"{_PROMISE}.max_error", lambda: promised(max_error=NAN)),
    Case(f"{_PROMISE}.confidence", lambda: promised(confidence=2)),
    Case(f"{_PROMISE}.labels_counted", lambda: promised(labels_counted=10.0)),
    *[
        Case(
            f"{_PROMISE}.data[0].{name}",
            partial(promised_of, **{name: value}),
        )
        for name, value in (
            ("name", "colour"),
            ("edges", [0.5, 0.5]),
            ("edges", [NAN]),
            ("shares", [1.0]),
            ("shares", [NAN, 0.5]),
            ("variances", [0.1]),
            ("variances", [-1.0, 0.0]),
        )
    ],
    Case(f"{_PROMISE}.stages_sha256", promised),
]

HARMLESS = {
    "CalibrateCascadeRequest.may_abstain": "both values are legal",
    "CalibrateCascadeRequest.seed": "every value is legal",
    "ErrorGuarantee.data": "see its fields",
    "ErrorGuarantee.labels_needed": "a count that is repeated",
    "ErrorGuarantee.n_labels": "a count that is repeated; see labels_counted",
    "ErrorGuarantee.n_wrong": "a count that is repeated",
    "ErrorGuarantee.n_clusters": "a count that is repeated",
}
