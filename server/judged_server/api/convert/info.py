"""The message of GetServerInfo, from what the parts of the server say of themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from google.protobuf.duration_pb2 import Duration
from judged.v1 import groups_pb2, judge_service_pb2

from judged_server.api.interceptor import Deadlines
from judged_server.api.limits import RequestLimits
from judged_server.domain import ParameterScalar
from judged_server.embedding.base import ModelCard
from judged_server.judges.catalog import Offer
from judged_server.llm.rubrics import Rubric
from judged_server.metrics import METRICS
from judged_server.metrics.text import TEXT_METRICS
from judged_server.usecases.offering import Offering

if TYPE_CHECKING:  # its import brings aiohttp, which most servers never need
    from judged_server.llm.models import ListedModel


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What never changes while a server runs."""

    version: str
    limits: RequestLimits
    deadlines: Deadlines


def write_info(
    facts: ServerFacts, offering: Offering, cards: Sequence[ModelCard]
) -> judge_service_pb2.GetServerInfoResponse:
    """Return what the server is and offers to a caller."""
    limits, deadlines = facts.limits, facts.deadlines
    return judge_service_pb2.GetServerInfoResponse(
        version=facts.version,
        limits=judge_service_pb2.Limits(
            max_contexts=limits.max_contexts,
            max_text_bytes=limits.max_text_bytes,
            max_groups=limits.max_groups,
            max_evaluated_contexts=limits.max_evaluated_contexts,
            max_embedding_dimensions=limits.max_embedding_dimensions,
            max_message_bytes=limits.max_message_bytes,
            default_deadline=_duration(deadlines.default_s),
            max_unary_deadline=_duration(deadlines.max_unary_s),
            max_stream_deadline=_duration(deadlines.max_stream_s),
        ),
        default_judge=offering.catalog.default,
        judges=[_judge(offer) for offer in offering.offers()],
        models=[_model(card, is_default=index == 0) for index, card in enumerate(cards)],
        metrics=[
            judge_service_pb2.MetricInfo(
                name=metric.name,
                description=metric.description,
                reference=metric.reference,
                matching_modes=[int(mode) for mode in metric.modes],  # type: ignore[misc]
            )
            for metric in METRICS.values()
        ],
        text_metrics=[
            judge_service_pb2.MetricInfo(
                name=metric.name, description=metric.description, reference=metric.reference
            )
            for metric in TEXT_METRICS.values()
        ],
        rubrics=map(_rubric, offering.rubrics),
        chat_models=[
            _chat_model(model, is_default=index == 0)
            for index, model in enumerate(offering.chat_models())
        ],
        calibrations=sorted(offering.catalog.calibrations),
    )


def _rubric(rubric: Rubric) -> judge_service_pb2.RubricInfo:
    return judge_service_pb2.RubricInfo(
        rubric=rubric.id,
        version=str(rubric.version),
        description=rubric.description,
        default_min_score=rubric.min_score,
        sha256=rubric.sha256,
        form=rubric.form,
        fields=rubric.fields,
        dimensions=dict(rubric.dimensions),
    )


def _chat_model(model: ListedModel, *, is_default: bool) -> judge_service_pb2.ChatModelInfo:
    return judge_service_pb2.ChatModelInfo(
        name=model.card.name,
        provider=model.card.provider,
        model=model.card.model,
        is_default=is_default,
        unavailable=model.problem,
    )


def _judge(offer: Offer) -> judge_service_pb2.JudgeInfo:
    return judge_service_pb2.JudgeInfo(
        kind=offer.kind,
        profile=offer.profile.name,
        description=offer.profile.description,
        default_min_score=offer.profile.min_score,
        parameters=[
            judge_service_pb2.ParameterInfo(
                name=parameter.name,
                default_value=_value(parameter.default),
                rule=parameter.rule,
                description=parameter.description,
            )
            for parameter in offer.profile.parameters
        ],
        signature=offer.signature,
        unavailable=offer.unavailable,
    )


def _value(value: ParameterScalar) -> groups_pb2.ParameterValue:
    if isinstance(value, bool):
        return groups_pb2.ParameterValue(bool_value=value)
    if isinstance(value, int):
        return groups_pb2.ParameterValue(int_value=value)
    if isinstance(value, float):
        return groups_pb2.ParameterValue(double_value=value)
    return groups_pb2.ParameterValue(string_value=value)


def _model(card: ModelCard, *, is_default: bool) -> judge_service_pb2.ModelInfo:
    return judge_service_pb2.ModelInfo(
        name=card.name,
        dimensions=card.dimensions,
        max_tokens=card.max_tokens,
        model_sha256=card.model_sha256,
        tokenizer_sha256=card.tokenizer_sha256,
        precision=card.precision,
        execution_provider=card.execution_provider,
        is_default=is_default,
    )


def _duration(seconds: float) -> Duration:
    duration = Duration()
    duration.FromNanoseconds(int(seconds * 1e9))
    return duration
