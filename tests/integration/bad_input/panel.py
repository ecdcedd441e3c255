"""Bad requests for the judge `panel`."""

from __future__ import annotations

from functools import partial

from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb

from tests.integration.bad_input.case import NAN, Case
from tests.integration.bad_input.judging import batch

LEXICAL, EXACT = groups_pb2.JudgeSpec(kind="token_overlap"), groups_pb2.JudgeSpec(kind="exact")


def member(judge: groups_pb2.JudgeSpec = EXACT, **changes: object) -> groups_pb2.PanelMember:
    return groups_pb2.PanelMember(judge=judge, **changes)


def panel(*members: groups_pb2.PanelMember, profile: str = "") -> pb.BatchJudgeRequest:
    return batch(kind="panel", profile=profile, members=members)


def weighted(weight: float) -> pb.BatchJudgeRequest:
    return panel(member(LEXICAL), member(weight=weight), profile="weighted")


CASES = [
    Case("judge.members", panel),
    Case("judge.members", lambda: panel(*[member()] * 17)),
    Case("judge.kind", lambda: batch(members=[member()] * 2)),
    Case("judge.profile", lambda: panel(member(), profile="median")),
    Case("judge.members[1].judge", lambda: panel(member(), member())),
    Case(
        "judge.members[1].judge.kind",
        lambda: panel(member(), member(groups_pb2.JudgeSpec(kind="panel"))),
    ),
    Case(
        "judge.members[0].judge.members",
        lambda: panel(
            member(groups_pb2.JudgeSpec(kind="panel", members=[member(LEXICAL), member()]))
        ),
    ),
    Case(
        "judge.members[1].judge.min_score",
        lambda: panel(member(), member(groups_pb2.JudgeSpec(kind="token_overlap", min_score=NAN))),
    ),
    Case(
        'judge.members[0].judge.parameters["min_tokens"]',
        lambda: panel(
            member(
                groups_pb2.JudgeSpec(
                    kind="token_overlap",
                    parameters={"min_tokens": groups_pb2.ParameterValue(int_value=0)},
                )
            ),
            member(),
        ),
    ),
    Case(
        "",
        lambda: panel(member(), member(groups_pb2.JudgeSpec(kind="oracle"))),
        "NOT_FOUND",
    ),
    Case(
        "",
        lambda: panel(member(), member(groups_pb2.JudgeSpec(kind="llm"))),
        "FAILED_PRECONDITION",
    ),
    Case("judge.members[1].weight", lambda: panel(member(LEXICAL), member(weight=2))),
    *(
        Case("judge.members[1].weight", partial(weighted, weight))
        for weight in (0.0, -1.0, NAN, float("inf"), 1e-300, 1e300)
    ),
]

HARMLESS: dict[str, str] = {}
