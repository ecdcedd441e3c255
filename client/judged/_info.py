"""What a server says of itself: its types, and how they are read from the reply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from judged._judges import read_value
from judged.policies import Matching
from judged.types import Scalar
from judged.v1 import judge_service_pb2 as pb


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a request may be, and how long it may take in seconds."""

    max_contexts: int
    max_text_bytes: int
    max_groups: int
    max_embedding_dimensions: int
    max_message_bytes: int
    default_deadline_s: float
    max_unary_deadline_s: float
    max_stream_deadline_s: float


@dataclass(frozen=True, slots=True)
class ParameterInfo:
    """One parameter of a judge."""

    name: str
    default: Scalar | None
    rule: str
    description: str


@dataclass(frozen=True, slots=True)
class JudgeInfo:
    """One judge under one profile. `unavailable` says why it can't run there, "" when it can."""

    kind: str
    profile: str
    description: str
    default_min_score: float
    parameters: Sequence[ParameterInfo]
    signature: str
    unavailable: str


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One embedding model."""

    name: str
    dimensions: int
    max_tokens: int
    model_sha256: str
    tokenizer_sha256: str
    precision: str
    execution_provider: str
    is_default: bool


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """One metric."""

    name: str
    description: str
    reference: str
    matching: Sequence[Matching]


@dataclass(frozen=True, slots=True)
class RubricInfo:
    """One rubric: the instructions a language model judges by.

    `form` is that of its replies: "verdict", "score", "dimensions" or "claims". `fields` of a
    context or an item are those that it reads; `dimensions` have their default weights.
    """

    rubric: str
    version: str
    description: str
    default_min_score: float
    sha256: str
    form: str = ""
    fields: Sequence[str] = ()
    dimensions: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChatModelInfo:
    """One language model. `unavailable` says why it can't be asked, "" when it can."""

    name: str
    provider: str
    model: str
    is_default: bool
    unavailable: str


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """A server's version, limits and everything it offers."""

    version: str
    limits: Limits
    default_judge: str
    judges: Sequence[JudgeInfo]
    models: Sequence[ModelInfo]
    metrics: Sequence[MetricInfo]
    text_metrics: Sequence[MetricInfo] = ()
    rubrics: Sequence[RubricInfo] = ()
    chat_models: Sequence[ChatModelInfo] = ()


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
