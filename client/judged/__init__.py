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
    from judged._info import (
        ChatModelInfo,
        JudgeInfo,
        Limits,
        MetricInfo,
        ModelInfo,
        ParameterInfo,
        RubricInfo,
        ServerInfo,
    )
    from judged.agreement import (
        Agreement,
        CalibrateOptions,
        Calibration,
        CascadeBounds,
        JudgeQuality,
        LabelledScores,
        MeasuredAgreement,
        RankAgreement,
        RatingLevel,
        RatingTable,
        SystemScores,
        Threshold,
        ThresholdCriterion,
    )
    from judged.aio import AsyncClient
    from judged.asking import Asking, CacheMode
    from judged.client import Client
    from judged.comparison import (
        ComparedRuns,
        CompareOptions,
        ComparisonPower,
        DocumentRankings,
        MovedQuery,
        RunComparison,
        TestResult,
        TukeyComparison,
    )
    from judged.correction import CorrectedEstimate, HumanLabels
    from judged.details import Usage, VerdictDetail, VerdictSample
    from judged.embeddings import EmbeddedRanking, EmbeddedRankings, Embeddings
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
        PermissionRefused,
        Retryable,
        Unavailable,
    )
    from judged.estimates import CostEstimate
    from judged.golden import NegativeMatch, Span, Spans
    from judged.policies import Matching, NoGold, Unjudged
    from judged.runs import RetrievedDocuments, ScoredDocuments, TrecRankings
    from judged.scores import (
        AnswerItem,
        AnswerScore,
        ClaimVerdict,
        DimensionScore,
        Rubric,
        RubricSummary,
        ScoredAnswers,
        VerifiedClaim,
    )
    from judged.statistics import Estimate, Interval, IntervalMethod, IntervalOptions
    from judged.statuses import Flag, Source, Status
    from judged.text_metrics import TextItem, TextMetricResult, TextMetricTable
    from judged.types import (
        Context,
        Evaluation,
        GainRanking,
        GainRankings,
        Judge,
        JudgedChunk,
        JudgedRanking,
        JudgedRankings,
        JudgeIdentity,
        MetricCounts,
        MetricOptions,
        MetricResult,
        MetricSlice,
        MetricTable,
        NegativeReport,
        PanelMember,
        PerQueryValues,
        QueryGroup,
        Verdict,
        VerdictCounts,
        VerdictError,
        Verdicts,
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
    "PermissionRefused",
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
    "_info": (
        "ChatModelInfo JudgeInfo Limits MetricInfo ModelInfo ParameterInfo RubricInfo ServerInfo"
    ),
    "agreement": (
        "Agreement CalibrateOptions Calibration CascadeBounds JudgeQuality LabelledScores "
        "MeasuredAgreement RankAgreement RatingLevel RatingTable SystemScores Threshold "
        "ThresholdCriterion"
    ),
    "aio": "AsyncClient",
    "asking": "Asking CacheMode",
    "client": "Client",
    "comparison": (
        "ComparedRuns CompareOptions ComparisonPower DocumentRankings MovedQuery "
        "RunComparison TestResult TukeyComparison"
    ),
    "correction": "CorrectedEstimate HumanLabels",
    "details": "Usage VerdictDetail VerdictSample",
    "embeddings": "EmbeddedRanking EmbeddedRankings Embeddings",
    "errors": (
        "BudgetExhausted ClientUnusable DeadlineExceeded FailedPrecondition InternalError "
        "InvalidArgument JudgedError NotFound Overloaded PermissionRefused Retryable Unavailable"
    ),
    "estimates": "CostEstimate",
    "golden": "NegativeMatch Span Spans",
    "policies": "Matching NoGold Unjudged",
    "runs": "RetrievedDocuments ScoredDocuments TrecRankings",
    "scores": (
        "AnswerItem AnswerScore ClaimVerdict DimensionScore Rubric RubricSummary "
        "ScoredAnswers VerifiedClaim"
    ),
    "statistics": "Estimate Interval IntervalMethod IntervalOptions",
    "statuses": "Flag Source Status",
    "text_metrics": "TextItem TextMetricResult TextMetricTable",
    "types": (
        "Context Evaluation GainRanking GainRankings Judge JudgedChunk JudgedRanking "
        "JudgedRankings JudgeIdentity MetricCounts MetricOptions MetricResult MetricSlice "
        "MetricTable NegativeReport PanelMember PerQueryValues QueryGroup Verdict "
        "VerdictCounts VerdictError Verdicts"
    ),
}
"""The module of each public name: they take several times as long to load as gRPC does."""
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Load a public name, or a public module of names, when it is first asked for."""
    if name in _MODULE_OF:
        value: object = getattr(import_module(f"judged.{_MODULE_OF[name]}"), name)
    elif name == "__version__":
        value = import_module("importlib.metadata").version("judged")
    elif name in _NAMES:
        return import_module(f"judged.{name}")
    else:
        raise AttributeError(f"module 'judged' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List what can be asked for, loaded or not."""
    return sorted({*globals(), *__all__, *(name for name in _NAMES if name[0] != "_")})
