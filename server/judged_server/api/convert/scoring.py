"""Between the messages of ScoreAnswers and the domain: items and rubrics in, scores back."""

from __future__ import annotations

from collections.abc import Sequence

from judged.v1 import scoring_pb2, types_pb2

from judged_server import errors
from judged_server.answers import AnswerItem, AnswerScore, RubricSpec, RubricSummary, ScoreSummary
from judged_server.api.convert.asking import write_usage
from judged_server.api.convert.judging import read_parameters, write_fault, write_identity
from judged_server.api.limits import RequestLimits


def read_answers(
    messages: Sequence[scoring_pb2.AnswerItem],
    rubrics: int,
    limits: RequestLimits,
    field: str = "items",
) -> list[AnswerItem]:
    """Return the items of a request for as many rubrics. Raises InvalidField with paths."""
    limits.check_items(len(messages), field)
    limits.check_contexts(len(messages) * rubrics, field)
    places: dict[str, int] = {}
    items = []
    for index, message in enumerate(messages):
        path = f"{field}[{index}]"
        item = _read_item(message, limits, path)
        if not item.item_id:
            raise errors.InvalidField(f"{path}.item_id", "must be set")
        first = places.setdefault(item.item_id, index)
        if first != index:
            rule = f"is that of {field}[{first}] again; scores would be mixed up"
            raise errors.InvalidField(f"{path}.item_id", rule)
        items.append(item)
    return items


def _read_item(message: scoring_pb2.AnswerItem, limits: RequestLimits, path: str) -> AnswerItem:
    item = AnswerItem(
        message.item_id,
        message.query,
        message.answer,
        tuple(message.references),
        tuple(message.contexts),
    )
    limits.check_text(item.item_id, f"{path}.item_id")
    limits.check_text(item.query, f"{path}.query")
    limits.check_text(item.answer, f"{path}.answer")
    limits.check_texts(item.references, f"{path}.references")
    limits.check_texts(item.contexts, f"{path}.contexts")
    return item


def read_rubrics(
    messages: Sequence[scoring_pb2.RubricSpec], field: str = "rubrics"
) -> list[RubricSpec]:
    """Return the rubrics of a request. Raises InvalidField for none, and for values of no kind."""
    if not messages:
        raise errors.InvalidField(field, "must hold at least one rubric")
    return [
        RubricSpec(
            message.rubric,
            message.min_score if message.HasField("min_score") else None,
            read_parameters(message.parameters, f"{field}[{index}].parameters"),
            dict(message.weights),
        )
        for index, message in enumerate(messages)
    ]


def write_score(score: AnswerScore) -> scoring_pb2.AnswerScore:
    """Return the message of one score; what is not known stays unset."""
    return scoring_pb2.AnswerScore(
        item_id=score.item_id,
        rubric=score.rubric,
        status=int(score.status),  # type: ignore[arg-type]  # ours has the same numbers
        score=score.score,
        passed=score.passed,
        min_score=score.identity.min_score,
        reasoning=score.reasoning,
        raw_replies=score.raw_replies,
        usage=write_usage(score.usage),
        samples=score.samples,
        agreement=score.agreement,
        source=int(score.source),  # type: ignore[arg-type]
        dimensions=[
            scoring_pb2.DimensionScore(name=each.name, score=each.score, weight=each.weight)
            for each in score.dimensions
        ],
        reported_overall=score.reported_overall,
        claims=[
            scoring_pb2.VerifiedClaim(
                claim=each.claim,
                verdict=int(each.verdict),  # type: ignore[arg-type]
                evidence=each.evidence,
            )
            for each in score.claims
        ],
        error=None if score.fault is None else write_fault(score.fault),
        warnings=score.warnings,
        judge=write_identity(score.identity),
        model=score.model,
        system_fingerprint=score.system_fingerprint,
    )


def write_summary(summary: ScoreSummary) -> scoring_pb2.ScoreSummary:
    """Return the message that ends a stream of scores."""
    return scoring_pb2.ScoreSummary(
        rubrics=map(_rubric_summary, summary.rubrics), usage=write_usage(summary.usage)
    )


def _rubric_summary(summary: RubricSummary) -> scoring_pb2.RubricSummary:
    return scoring_pb2.RubricSummary(
        rubric=summary.rubric,
        mean=summary.mean,
        passed=summary.passed,
        counts=types_pb2.VerdictCounts(
            ok=summary.ok,
            error=summary.error,
            abstained=summary.abstained,
            not_assessable=summary.not_assessable,
            relevant=summary.passed,
        ),
        judge=write_identity(summary.identity),
    )
