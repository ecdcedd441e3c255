"""Between Evaluate's messages and groups, verdicts, tables and negatives."""

from __future__ import annotations

from collections.abc import Sequence

from judged._convert.groups import write_group
from judged._convert.judges import read_identity, write_asking, write_judge
from judged._convert.metrics import read_table, write_options
from judged._convert.verdicts import read_verdict_counts, read_verdicts, usage_of
from judged._inputs import as_metrics
from judged.types.asking import Asking
from judged.types.evaluation import Evaluation, NegativeMatch, NegativeReport
from judged.types.groups import QueryGroup
from judged.types.judges import Judge
from judged.types.metrics import MetricOptions
from judged.v1 import judge_service_pb2 as pb


def write_evaluate(
    groups: Sequence[QueryGroup],
    metrics: Sequence[str],
    judge: Judge | str | None,
    options: MetricOptions,
    asking: Asking | None = None,
    *,
    include_verdicts: bool,
    include_details: bool,
) -> pb.EvaluateRequest:
    """Return an Evaluate request about groups that are checked."""
    metrics = as_metrics(metrics)
    return pb.EvaluateRequest(
        groups=[write_group(g, f"groups[{i}]", checked=True) for i, g in enumerate(groups)],
        judge=write_judge(judge),
        metrics=metrics,
        options=write_options(options),
        include_verdicts=include_verdicts,
        include_details=include_details,
        asking=write_asking(asking),
    )


def read_evaluation(message: pb.EvaluateResponse, groups: Sequence[QueryGroup] = ()) -> Evaluation:
    """Return the reply of Evaluate about groups."""
    judge = read_identity(message.judge) if message.HasField("judge") else None
    verdicts = None
    if message.HasField("verdicts") and judge is not None:
        verdicts = read_verdicts(message.verdicts, judge, usage_of(message), groups)
    return Evaluation(
        read_table(message.table),
        judge,
        verdicts,
        _read_negatives(message.negatives) if message.HasField("negatives") else None,
        usage_of(message),
    )


def _read_negatives(message: pb.NegativeReport) -> NegativeReport:
    return NegativeReport(
        message.queries,
        message.queries_hit,
        read_matches(message),
        read_verdict_counts(message.counts),
    )


def read_matches(message: pb.NegativeReport) -> list[NegativeMatch]:
    """Return the matches of a report."""
    return [
        NegativeMatch(m.query_id, m.retrieved, m.negative, m.document_id, m.score)
        for m in message.matches
    ]
