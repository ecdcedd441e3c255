"""judged: the client of the judge server.

    from judged import Client, QueryGroup

    with Client("127.0.0.1:8470") as client:
        verdicts = client.judge([QueryGroup("what is RAG", ["..."], ["...", "..."])])

The package has the inputs, the errors and the main results, loaded on first access; `judged.values`
has the types of all parts of results. Modules and folders that begin with an underscore may change
at any time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from judged._local import local
    from judged.aio import AsyncClient
    from judged.client import Client
    from judged.errors import *
    from judged.values import *

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
    "local",
]

_MODULE_OF = {"AsyncClient": "aio", "Client": "client", "local": "_local"}
_MODULES = ("aio", "client", "errors", "values")
"""Loaded lazily: loading them takes several times as long as loading gRPC."""


def __getattr__(name: str) -> object:
    """Load a public name, or a module, on first access."""
    if name in _MODULES:
        return import_module(f"judged.{name}")
    if name == "__version__":
        value: object = import_module("importlib.metadata").version("judged")
    elif name in __all__:
        kind = "errors" if hasattr(import_module("judged.errors"), name) else "values"
        value = getattr(import_module(f"judged.{_MODULE_OF.get(name, kind)}"), name)
    else:
        raise AttributeError(f"module 'judged' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return all public names, loaded or not."""
    return sorted({*globals(), *__all__, *_MODULES})
