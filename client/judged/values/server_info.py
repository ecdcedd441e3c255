"""A server's description of itself, and the usage of a tenant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from judged.values.choices import Matching
from judged.values.judges import Scalar


@dataclass(frozen=True)
class Limits:
    """Limits on the size of requests, and on their time in seconds."""

    max_contexts: int
    max_text_bytes: int
    max_groups: int
    max_embedding_dimensions: int
    max_message_bytes: int
    default_deadline_s: float
    max_unary_deadline_s: float
    max_stream_deadline_s: float
    max_evaluated_contexts: int


@dataclass(frozen=True)
class ParameterInfo:
    """One parameter of a judge."""

    name: str
    default_value: Scalar
    rule: str
    description: str


@dataclass(frozen=True)
class JudgeInfo:
    """One judge under one profile. `unavailable` says why it can't run there, "" when it can."""

    kind: str
    profile: str
    description: str
    default_min_score: float
    parameters: Sequence[ParameterInfo]
    signature: str
    unavailable: str


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class MetricInfo:
    """One metric."""

    name: str
    description: str
    reference: str
    matching_modes: Sequence[Matching]


@dataclass(frozen=True)
class RubricInfo:
    """One rubric: the instructions a language model judges by.

    `form` is that of its replies: "verdict", "score", "dimensions" or "claims". `fields` are those
    of a context or an item that it reads; `dimensions` maps names to default weights.
    """

    rubric: str
    version: str
    description: str
    default_min_score: float
    sha256: str
    form: str = ""
    fields: Sequence[str] = ()
    dimensions: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ChatModelInfo:
    """One language model. `unavailable` says why it can't be asked, "" when it can."""

    name: str
    provider: str
    model: str
    is_default: bool
    unavailable: str


@dataclass(frozen=True)
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
    calibrations: Sequence[str] = ()


@dataclass(frozen=True)
class UsageRow:
    """The usage of one model by one judge and rubric on one day, in UTC ("2026-11-25").

    `judge` is its kind, "answers" for `score_answers`, "" if an older server recorded it. `cost` is
    in `currency`; it counts a question without a reply at the most that it can cost.
    """

    day: str
    judge: str
    rubric: str
    model: str
    questions: int
    input_tokens: int
    output_tokens: int
    cost: float
    currency: str


@dataclass(frozen=True)
class BudgetLeft:
    """One budget, "tenant_per_day" or "tenant_per_month", and what is left of it.

    `renewed_at` is the start of the next day or month, in UTC.
    """

    budget: str
    limit: float
    left: float
    currency: str
    renewed_at: datetime


@dataclass(frozen=True)
class TenantUsage:
    """The usage of the caller's tenant, the oldest day first.

    `tenant` is "" on a server without tenants, which counts all callers as one. If the server does
    not record usage (`is_recorded` is false), there are no rows.
    """

    tenant: str
    is_recorded: bool
    rows: Sequence[UsageRow]
    budgets: Sequence[BudgetLeft]
