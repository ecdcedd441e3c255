"""The message of GetServerInfo, from what the parts of the server say of themselves."""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf.duration_pb2 import Duration
from judged.v1 import groups_pb2, judge_service_pb2

from judged_server.api.convert.fields import write
from judged_server.domain import ParameterScalar
from judged_server.embedding.base import ModelCard
from judged_server.judges.catalog import Offer
from judged_server.metrics.measures.names import METRICS
from judged_server.metrics.text.metrics import TEXT_METRICS
from judged_server.settings import Settings
from judged_server.usecases.offering import Offering


def write_info(
    version: str, settings: Settings, offering: Offering, cards: Sequence[ModelCard]
) -> judge_service_pb2.GetServerInfoResponse:
    """Return what the server is and offers to a caller."""
    return judge_service_pb2.GetServerInfoResponse(
        version=version,
        limits=write(
            judge_service_pb2.Limits,
            settings,
            default_deadline=_duration(settings.default_deadline_s),
            max_unary_deadline=_duration(settings.max_unary_deadline_s),
            max_stream_deadline=_duration(settings.max_stream_deadline_s),
        ),
        default_judge=offering.catalog.default,
        judges=[_judge(offer) for offer in offering.offers()],
        models=[
            write(judge_service_pb2.ModelInfo, card, is_default=index == 0)
            for index, card in enumerate(cards)
        ],
        metrics=[
            write(judge_service_pb2.MetricInfo, metric, matching_modes=metric.modes)
            for metric in METRICS.values()
        ],
        text_metrics=[
            write(judge_service_pb2.MetricInfo, metric, matching_modes=())
            for metric in TEXT_METRICS.values()
        ],
        rubrics=[
            write(
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
            write(
                judge_service_pb2.ChatModelInfo,
                model.card,
                is_default=index == 0,
                unavailable=model.problem,
            )
            for index, model in enumerate(offering.chat_models())
        ],
        calibrations=sorted(offering.catalog.calibrations),
    )


def _judge(offer: Offer) -> judge_service_pb2.JudgeInfo:
    profile = offer.profile
    return write(
        judge_service_pb2.JudgeInfo,
        offer,
        profile=profile.name,
        description=profile.description,
        default_min_score=profile.min_score,
        parameters=[
            write(judge_service_pb2.ParameterInfo, each, default_value=_value(each.default))
            for each in profile.parameters
        ],
    )


def _value(value: ParameterScalar) -> groups_pb2.ParameterValue:
    if isinstance(value, bool):
        return groups_pb2.ParameterValue(bool_value=value)
    if isinstance(value, int):
        return groups_pb2.ParameterValue(int_value=value)
    if isinstance(value, float):
        return groups_pb2.ParameterValue(double_value=value)
    return groups_pb2.ParameterValue(string_value=value)


def _duration(seconds: float) -> Duration:
    duration = Duration()
    duration.FromNanoseconds(int(seconds * 1e9))
    return duration
