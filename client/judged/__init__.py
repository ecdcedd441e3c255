"""judged: the thin client of the judge daemon.

    from judged import Client, QueryGroup

    with Client("127.0.0.1:8470") as client:
        verdicts = client.judge([QueryGroup("what is RAG", ["..."], ["...", "..."])])

Public names stand here; modules that begin with an underscore may change at any time.
"""

from judged._info import JudgeInfo, Limits, MetricInfo, ModelInfo, ParameterInfo, ServerInfo
from judged.aio import AsyncClient
from judged.client import Client
from judged.errors import (
    DeadlineExceeded,
    FailedPrecondition,
    InternalError,
    InvalidArgument,
    JudgedError,
    NotFound,
    Overloaded,
    PermissionRefused,
    Retryable,
    Unavailable,
)
from judged.types import (
    Context,
    Embeddings,
    Evaluation,
    Flag,
    GainRanking,
    GainRankings,
    Judge,
    JudgedChunk,
    JudgedRanking,
    JudgedRankings,
    JudgeIdentity,
    Matching,
    MetricCounts,
    MetricOptions,
    MetricResult,
    MetricTable,
    NoGold,
    PerQueryValues,
    QueryGroup,
    Source,
    Status,
    TrecRankings,
    Verdict,
    VerdictCounts,
    VerdictError,
    Verdicts,
)

__all__ = [
    "AsyncClient",
    "Client",
    "Context",
    "DeadlineExceeded",
    "Embeddings",
    "Evaluation",
    "FailedPrecondition",
    "Flag",
    "GainRanking",
    "GainRankings",
    "InternalError",
    "InvalidArgument",
    "Judge",
    "JudgeIdentity",
    "JudgeInfo",
    "JudgedChunk",
    "JudgedError",
    "JudgedRanking",
    "JudgedRankings",
    "Limits",
    "Matching",
    "MetricCounts",
    "MetricInfo",
    "MetricOptions",
    "MetricResult",
    "MetricTable",
    "ModelInfo",
    "NoGold",
    "NotFound",
    "Overloaded",
    "ParameterInfo",
    "PerQueryValues",
    "PermissionRefused",
    "QueryGroup",
    "Retryable",
    "ServerInfo",
    "Source",
    "Status",
    "TrecRankings",
    "Unavailable",
    "Verdict",
    "VerdictCounts",
    "VerdictError",
    "Verdicts",
]
