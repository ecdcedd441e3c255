"""judged: the thin client of the judge daemon.

    from judged import Client, QueryGroup

    with Client("127.0.0.1:8470") as client:
        verdicts = client.judge([QueryGroup("what is RAG", ["..."], ["...", "..."])])

What callers make, the errors and the main results stand here, and are loaded when they are first
asked for; `judged.values` has the types of all parts of results too. Modules and folders that begin
with an underscore may change at any time.
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
        WrongType,
    )
    from judged.values import (
        AnswerItem,
        Asking,
        CacheMode,
        CalibrateOptions,
        Calibrator,
        CompareOptions,
        Context,
        DocumentRankings,
        EmbeddedRanking,
        EmbeddedRankings,
        Embeddings,
        Evaluation,
        Flag,
        GainRanking,
        GainRankings,
        HumanLabels,
        IntervalMethod,
        IntervalOptions,
        Judge,
        JudgedRanking,
        JudgedRankings,
        LabelledScores,
        Matching,
        MetricOptions,
        MetricTable,
        NoGold,
        PairedComparison,
        PanelMember,
        PerQueryValues,
        QueryGroup,
        RatingLevel,
        RatingTable,
        RetrievedDocuments,
        Rubric,
        ScoredAnswers,
        ScoredDocuments,
        Source,
        Span,
        Spans,
        Status,
        SystemRanking,
        SystemScores,
        TextItem,
        TextMetricTable,
        ThresholdCriterion,
        TrecRankings,
        Unjudged,
        Verdict,
        Verdicts,
    )

    __version__: str

__all__ = [
    "AnswerItem",
    "Asking",
    "AsyncClient",
    "BudgetExhausted",
    "CacheMode",
    "CalibrateOptions",
    "Calibrator",
    "Client",
    "ClientUnusable",
    "CompareOptions",
    "Context",
    "DeadlineExceeded",
    "DocumentRankings",
    "EmbeddedRanking",
    "EmbeddedRankings",
    "Embeddings",
    "Evaluation",
    "FailedPrecondition",
    "Flag",
    "GainRanking",
    "GainRankings",
    "HumanLabels",
    "InternalError",
    "IntervalMethod",
    "IntervalOptions",
    "InvalidArgument",
    "Judge",
    "JudgedError",
    "JudgedRanking",
    "JudgedRankings",
    "LabelledScores",
    "Matching",
    "MetricOptions",
    "MetricTable",
    "NoGold",
    "NotFound",
    "Overloaded",
    "PairedComparison",
    "PanelMember",
    "PerQueryValues",
    "PermissionDenied",
    "QueryGroup",
    "RatingLevel",
    "RatingTable",
    "RetrievedDocuments",
    "Retryable",
    "Rubric",
    "ScoredAnswers",
    "ScoredDocuments",
    "Source",
    "Span",
    "Spans",
    "Status",
    "SystemRanking",
    "SystemScores",
    "TextItem",
    "TextMetricTable",
    "ThresholdCriterion",
    "TrecRankings",
    "Unavailable",
    "Unjudged",
    "Verdict",
    "Verdicts",
    "WrongType",
]

_NAMES = {
    "aio": "AsyncClient",
    "client": "Client",
    "errors": (
        "BudgetExhausted ClientUnusable DeadlineExceeded FailedPrecondition InternalError "
        "InvalidArgument JudgedError NotFound Overloaded PermissionDenied Retryable Unavailable "
        "WrongType"
    ),
}
"""The names of each public module but `values`, which has all others."""
_MODULE_OF = dict.fromkeys(__all__, "values") | {
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
