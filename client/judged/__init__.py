"""judged: the thin client of the judge daemon.

    from judged import Client, QueryGroup

    with Client("127.0.0.1:8470") as client:
        verdicts = client.judge([QueryGroup("what is RAG", ["..."], ["...", "..."])])

Public names stand here, and are loaded when they are first asked for; modules that begin with an
underscore may change at any time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from judged.aio import AsyncClient
    from judged.client import Client
    from judged.errors import (
        BudgetExhausted,
        ClientUnusable,
        DeadlineExceeded,
        FailedPrecondition,
        InternalError,
        InvalidArgument,
        JudgedError,
        NotFound,
        Overloaded,
        PermissionDenied,
        Retryable,
        Unavailable,
    )
    from judged.types import (
        Agreement,
        AnswerItem,
        AnswerScore,
        Asking,
        CacheMode,
        CalibrateOptions,
        Calibration,
        CascadeBounds,
        ChatModelInfo,
        ClaimVerdict,
        ComparedRuns,
        CompareOptions,
        ComparisonPower,
        Context,
        CorrectedEstimate,
        CostEstimate,
        DimensionScore,
        DocumentRankings,
        EmbeddedRanking,
        EmbeddedRankings,
        Embeddings,
        Estimate,
        Evaluation,
        Flag,
        GainRanking,
        GainRankings,
        HumanLabels,
        Interval,
        IntervalMethod,
        IntervalOptions,
        Judge,
        JudgedChunk,
        JudgedRanking,
        JudgedRankings,
        JudgeIdentity,
        JudgeInfo,
        JudgeQuality,
        LabelledScores,
        Limits,
        Matching,
        MeasuredAgreement,
        MetricCounts,
        MetricInfo,
        MetricOptions,
        MetricResult,
        MetricSlice,
        MetricTable,
        ModelInfo,
        MovedQuery,
        NegativeMatch,
        NegativeReport,
        NoGold,
        PanelMember,
        ParameterInfo,
        PerQueryValues,
        QueryGroup,
        RankAgreement,
        RatingLevel,
        RatingTable,
        RetrievedDocuments,
        Rubric,
        RubricInfo,
        RubricSummary,
        RunComparison,
        ScoredAnswers,
        ScoredDocuments,
        ServerInfo,
        Source,
        Span,
        Spans,
        Status,
        SystemScores,
        TestResult,
        TextItem,
        TextMetricResult,
        TextMetricTable,
        Threshold,
        ThresholdCriterion,
        TrecRankings,
        TukeyComparison,
        Unjudged,
        Usage,
        Verdict,
        VerdictCounts,
        VerdictDetail,
        VerdictError,
        Verdicts,
        VerdictSample,
        VerifiedClaim,
    )

    __version__: str

__all__ = [
    "Agreement",
    "AnswerItem",
    "AnswerScore",
    "Asking",
    "AsyncClient",
    "BudgetExhausted",
    "CacheMode",
    "CalibrateOptions",
    "Calibration",
    "CascadeBounds",
    "ChatModelInfo",
    "ClaimVerdict",
    "Client",
    "ClientUnusable",
    "CompareOptions",
    "ComparedRuns",
    "ComparisonPower",
    "Context",
    "CorrectedEstimate",
    "CostEstimate",
    "DeadlineExceeded",
    "DimensionScore",
    "DocumentRankings",
    "EmbeddedRanking",
    "EmbeddedRankings",
    "Embeddings",
    "Estimate",
    "Evaluation",
    "FailedPrecondition",
    "Flag",
    "GainRanking",
    "GainRankings",
    "HumanLabels",
    "InternalError",
    "Interval",
    "IntervalMethod",
    "IntervalOptions",
    "InvalidArgument",
    "Judge",
    "JudgeIdentity",
    "JudgeInfo",
    "JudgeQuality",
    "JudgedChunk",
    "JudgedError",
    "JudgedRanking",
    "JudgedRankings",
    "LabelledScores",
    "Limits",
    "Matching",
    "MeasuredAgreement",
    "MetricCounts",
    "MetricInfo",
    "MetricOptions",
    "MetricResult",
    "MetricSlice",
    "MetricTable",
    "ModelInfo",
    "MovedQuery",
    "NegativeMatch",
    "NegativeReport",
    "NoGold",
    "NotFound",
    "Overloaded",
    "PanelMember",
    "ParameterInfo",
    "PerQueryValues",
    "PermissionDenied",
    "QueryGroup",
    "RankAgreement",
    "RatingLevel",
    "RatingTable",
    "RetrievedDocuments",
    "Retryable",
    "Rubric",
    "RubricInfo",
    "RubricSummary",
    "RunComparison",
    "ScoredAnswers",
    "ScoredDocuments",
    "ServerInfo",
    "Source",
    "Span",
    "Spans",
    "Status",
    "SystemScores",
    "TestResult",
    "TextItem",
    "TextMetricResult",
    "TextMetricTable",
    "Threshold",
    "ThresholdCriterion",
    "TrecRankings",
    "TukeyComparison",
    "Unavailable",
    "Unjudged",
    "Usage",
    "Verdict",
    "VerdictCounts",
    "VerdictDetail",
    "VerdictError",
    "VerdictSample",
    "Verdicts",
    "VerifiedClaim",
]

_NAMES = {
    "aio": "AsyncClient",
    "client": "Client",
    "errors": (
        "BudgetExhausted ClientUnusable DeadlineExceeded FailedPrecondition InternalError "
        "InvalidArgument JudgedError NotFound Overloaded PermissionDenied Retryable Unavailable"
    ),
}
"""The names of each public module but `types`, which has all others."""
_MODULE_OF = dict.fromkeys(__all__, "types") | {
    name: module for module, names in _NAMES.items() for name in names.split()
}
"""The module of each public name: they take several times as long to load as gRPC does."""
_MODULES = frozenset(_MODULE_OF.values())


def __getattr__(name: str) -> object:
    """Load a public name, or their module, when it is first asked for."""
    if name in _MODULE_OF:
        value: object = getattr(import_module(f"judged.{_MODULE_OF[name]}"), name)
    elif name == "__version__":
        value = import_module("importlib.metadata").version("judged")
    elif name in _MODULES:
        return import_module(f"judged.{name}")
    else:
        raise AttributeError(f"module 'judged' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List what can be asked for, loaded or not."""
    return sorted({*globals(), *__all__, *_MODULES})
