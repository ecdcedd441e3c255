"""Reads what a server says of itself."""

from __future__ import annotations

from collections.abc import Iterable

from judged._convert.judges import read_value
from judged.types.choices import Matching
from judged.types.server_info import (
    ChatModelInfo,
    JudgeInfo,
    Limits,
    MetricInfo,
    ModelInfo,
    ParameterInfo,
    RubricInfo,
    ServerInfo,
)
from judged.v1 import judge_service_pb2 as pb


def read_info(message: pb.GetServerInfoResponse) -> ServerInfo:
    """Return what a server says of itself."""
    limits = message.limits
    return ServerInfo(
        version=message.version,
        limits=Limits(
            limits.max_contexts,
            limits.max_text_bytes,
            limits.max_groups,
            limits.max_embedding_dimensions,
            limits.max_message_bytes,
            limits.default_deadline.ToNanoseconds() / 1e9,
            limits.max_unary_deadline.ToNanoseconds() / 1e9,
            limits.max_stream_deadline.ToNanoseconds() / 1e9,
            limits.max_evaluated_contexts,
        ),
        default_judge=message.default_judge,
        judges=[
            JudgeInfo(
                judge.kind,
                judge.profile,
                judge.description,
                judge.default_min_score,
                [
                    ParameterInfo(p.name, read_value(p.default_value), p.rule, p.description)
                    for p in judge.parameters
                ],
                judge.signature,
                judge.unavailable,
            )
            for judge in message.judges
        ],
        models=[
            ModelInfo(
                model.name,
                model.dimensions,
                model.max_tokens,
                model.model_sha256,
                model.tokenizer_sha256,
                model.precision,
                model.execution_provider,
                model.is_default,
            )
            for model in message.models
        ],
        metrics=_read_metrics(message.metrics),
        text_metrics=_read_metrics(message.text_metrics),
        rubrics=[
            RubricInfo(
                rubric.rubric,
                rubric.version,
                rubric.description,
                rubric.default_min_score,
                rubric.sha256,
                rubric.form,
                list(rubric.fields),
                dict(rubric.dimensions),
            )
            for rubric in message.rubrics
        ],
        chat_models=[
            ChatModelInfo(
                model.name, model.provider, model.model, model.is_default, model.unavailable
            )
            for model in message.chat_models
        ],
        calibrations=list(message.calibrations),
    )


def _read_metrics(messages: Iterable[pb.MetricInfo]) -> list[MetricInfo]:
    return [
        MetricInfo(
            metric.name,
            metric.description,
            metric.reference,
            [Matching(mode) for mode in metric.matching_modes],
        )
        for metric in messages
    ]
