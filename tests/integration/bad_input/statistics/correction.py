"""Bad human labels and human values."""

from __future__ import annotations

from judged.v1 import judge_service_pb2 as pb
from judged.v1 import metrics_pb2, verdicts_pb2

from tests.integration.bad_input.case import NAN, Case


def judged(
    labelled: object = ("a",),
    relevant: object = (True, False),
    inclusion: object = (),
    **more: object,
) -> pb.ComputeMetricsRequest:
    rankings = [metrics_pb2.JudgedRanking(query_id=i, expected=1, retrieved=2) for i in "ab"]
    return pb.ComputeMetricsRequest(
        metrics=["ap", "recall"],
        judged=metrics_pb2.JudgedRankings(
            rankings=rankings,
            verdicts=verdicts_pb2.VerdictColumns(relevant=[True, False, False, True]),
            human_labels=metrics_pb2.HumanLabels(
                query_ids=labelled, relevant=relevant, inclusion_probabilities=inclusion
            ),
        ),
        **more,
    )


def human(ids: object, *columns: list[float]) -> metrics_pb2.PerQueryValues:
    return metrics_pb2.PerQueryValues(
        query_ids=ids, columns=[metrics_pb2.ValueColumn(values=c) for c in columns]
    )


def with_values(
    ids: object, *columns: list[float], inclusion: object = ()
) -> pb.ComputeMetricsRequest:
    machine = human(["a", "b"], [0.5, 1.0], [1.0, 1.0])
    values = human(ids, *columns)
    values.inclusion_probabilities.extend(inclusion)
    return pb.ComputeMetricsRequest(metrics=["ap", "recall"], values=machine, human_values=values)


LABELS = "judged.human_labels"

CASES = [
    Case(f"{LABELS}.query_ids[0]", lambda: judged(labelled=["c"])),
    Case(f"{LABELS}.query_ids[1]", lambda: judged(labelled=["a", "a"], relevant=[True] * 4)),
    Case(f"{LABELS}.relevant", lambda: judged(relevant=[True])),
    Case(f"{LABELS}.inclusion_probabilities[0]", lambda: judged(inclusion=[0.0])),
    Case(
        f"{LABELS}.inclusion_probabilities",
        lambda: judged(inclusion=[0.5], options=metrics_pb2.MetricOptions(per_query=True)),
    ),
    Case(
        "human_values.inclusion_probabilities",
        lambda: with_values(["a"], [1.0], [1.0], inclusion=[0.5, 0.5]),
    ),
    Case(
        "human_values.inclusion_probabilities[0]",
        lambda: with_values(["a"], [1.0], [1.0], inclusion=[NAN]),
    ),
    Case(f"{LABELS}.relevant", lambda: judged(labelled=[])),
    Case("human_values", lambda: judged(human_values=human(["a"], [1.0], [1.0]))),
    Case("human_values.query_ids[1]", lambda: with_values(["a", "c"], [1.0, 1.0], [1.0, 1.0])),
    Case("human_values.columns", lambda: with_values(["a"], [1.0])),
    Case("human_values.columns[1].values", lambda: with_values(["a"], [1.0], [1.0, 0.0])),
    Case("human_values.columns[1].values[0]", lambda: with_values(["a"], [1.0], [NAN])),
]

HARMLESS: dict[str, str] = {}
