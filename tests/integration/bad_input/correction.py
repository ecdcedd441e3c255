"""Bad human labels and human values."""

from __future__ import annotations

from judged.v1 import judge_service_pb2 as pb
from judged.v1 import types_pb2 as t

from tests.integration.bad_input.case import NAN, case


def judged(
    labelled: object = ("a",), relevant: object = (True, False), **more: object
) -> pb.ComputeMetricsRequest:
    rankings = [pb.JudgedRanking(query_id=i, expected=1, retrieved=2) for i in "ab"]
    return pb.ComputeMetricsRequest(
        metrics=["ap", "recall"],
        judged=pb.JudgedRankings(
            rankings=rankings,
            verdicts=t.VerdictColumns(relevant=[True, False, False, True]),
            human_labels=pb.HumanLabels(query_ids=labelled, relevant=relevant),
        ),
        **more,
    )


def human(ids: object, *columns: list[float]) -> pb.PerQueryValues:
    return pb.PerQueryValues(query_ids=ids, columns=[pb.ValueColumn(values=c) for c in columns])


def with_values(ids: object, *columns: list[float]) -> pb.ComputeMetricsRequest:
    machine = human(["a", "b"], [0.5, 1.0], [1.0, 1.0])
    values = human(ids, *columns)
    return pb.ComputeMetricsRequest(metrics=["ap", "recall"], values=machine, human_values=values)


LABELS = "judged.human_labels"

CASES = [
    case("HumanLabels.query_ids", f"{LABELS}.query_ids[0]", lambda: judged(labelled=["c"])),
    case(
        "HumanLabels.query_ids",
        f"{LABELS}.query_ids[1]",
        lambda: judged(labelled=["a", "a"], relevant=[True] * 4),
    ),
    case("HumanLabels.relevant", f"{LABELS}.relevant", lambda: judged(relevant=[True])),
    case("HumanLabels.relevant", f"{LABELS}.relevant", lambda: judged(labelled=["a", "b"])),
    case("JudgedRankings.human_labels", f"{LABELS}.relevant", lambda: judged(labelled=[])),
    case(
        "ComputeMetricsRequest.human_values",
        "human_values",
        lambda: judged(human_values=human(["a"], [1.0], [1.0])),
    ),
    case(
        "ComputeMetricsRequest.human_values",
        "human_values.query_ids[1]",
        lambda: with_values(["a", "c"], [1.0, 1.0], [1.0, 1.0]),
    ),
    case(
        "ComputeMetricsRequest.human_values",
        "human_values.query_ids[1]",
        lambda: with_values(["b", "b"], [1.0, 1.0], [1.0, 1.0]),
    ),
    case(
        "ComputeMetricsRequest.human_values",
        "human_values.columns",
        lambda: with_values(["a"], [1.0]),
    ),
    case(
        "ComputeMetricsRequest.human_values",
        "human_values.columns[1].values",
        lambda: with_values(["a"], [1.0], [1.0, 0.0]),
    ),
    case(
        "ComputeMetricsRequest.human_values",
        "human_values.columns[1].values[0]",
        lambda: with_values(["a"], [1.0], [NAN]),
    ),
]

HARMLESS: dict[str, str] = {}
