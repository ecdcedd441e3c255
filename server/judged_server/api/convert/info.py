"""Builds the reply of GetServerInfo from the settings, the offering and the metrics."""

from __future__ import annotations

from collections.abc import Sequence

from judged._codec import write_fields
from judged.v1 import judge_service_pb2

from judged_server.embedding.base import ModelCard
from judged_server.judges.catalog import Offer
from judged_server.metrics.measures import METRICS
from judged_server.metrics.text.metrics import TEXT_METRICS
from judged_server.settings import Settings
from judged_server.usecases.offering import Offering


def write_info(
    version: str, settings: Settings, offering: Offering, cards: Sequence[ModelCard]
) -> judge_service_pb2.GetServerInfoResponse:
    """Return the reply of GetServerInfo for a caller with this offering."""
    return write_fields(
        judge_service_pb2.GetServerInfoResponse,
        version=version,
        limits=write_fields(judge_service_pb2.Limits, settings),
        default_judge=offering.catalog.default,
        judges=[_judge(offer) for offer in offering.offers()],
        models=[
            write_fields(judge_service_pb2.ModelInfo, card, is_default=index == 0)
            for index, card in enumerate(cards)
        ],
        metrics=[
            write_fields(judge_service_pb2.MetricInfo, metric, matching_modes=metric.modes)
            for metric in METRICS.values()
        ],
        text_metrics=[
            write_fields(judge_service_pb2.MetricInfo, each) for each in TEXT_METRICS.values()
        ],
        rubrics=[
            write_fields(
                judge_service_pb2.RubricInfo,
                rubric,
                rubric=rubric.id,
                version=str(rubric.version),
                default_min_score=rubric.min_score,
                dimensions=dict(rubric.dimensions),
            )
            for rubric in offering.rubrics
        ],
        chat_models=[
            write_fields(
                judge_service_pb2.ChatModelInfo,
                model.card,
                is_default=index == 0,
                unavailable=model.unavailable,
            )
            for index, model in enumerate(offering.chat_models)
        ],
        calibrations=sorted(offering.catalog.calibrations),
    )


def _judge(offer: Offer) -> judge_service_pb2.JudgeInfo:
    profile = offer.profile
    return write_fields(
        judge_service_pb2.JudgeInfo,
        offer,
        profile=profile.name,
        description=profile.description,
        default_min_score=profile.min_score,
        parameters=[
            write_fields(judge_service_pb2.ParameterInfo, each, default_value=each.default)
            for each in profile.parameters
        ],
    )
