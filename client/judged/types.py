"""What callers hand in, and what an evaluation gives back. No protobuf, no NumPy.

How they travel is up to `_call`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judged._inputs import (
    as_id,
    as_ids,
    as_list,
    need_column,
    need_each,
    need_id,
    need_ids,
    need_list,
    set_fields,
)
from judged._views import View, plain, short_repr
from judged.correction import HumanLabels
from judged.details import Usage
from judged.embeddings import EmbeddedRankings, Embeddings
from judged.golden import NegativeMatch, Spans
from judged.policies import Matching, NoGold, Unjudged
from judged.runs import TrecRankings
from judged.statistics import IntervalOptions
from judged.tables import MetricCounts, MetricResult, MetricSlice, MetricTable
from judged.verdicts import (
    JudgedChunk,
    JudgeIdentity,
    Verdict,
    VerdictCounts,
    VerdictError,
    Verdicts,
)

__all__ = [
    "Context",
    "Evaluation",
    "GainRanking",
    "GainRankings",
    "Judge",
    "JudgeIdentity",
    "JudgedChunk",
    "JudgedRanking",
    "JudgedRankings",
    "MetricCounts",
    "MetricOptions",
    "MetricResult",
    "MetricSlice",
    "MetricTable",
    "NegativeReport",
    "PanelMember",
    "PerQueryValues",
    "QueryGroup",
    "Relevance",
    "Scalar",
    "Verdict",
    "VerdictCounts",
    "VerdictError",
    "Verdicts",
]

Scalar = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Context:
    """One thing to judge."""

    query: str
    expected_text: str
    retrieved_text: str


@dataclass(frozen=True, slots=True, repr=False)
class QueryGroup:
    """One query with expected and retrieved texts: every pair of them is a context.

    Verdicts come retrieved-major: all expected texts for retrieved[0], then for retrieved[1].
    `document_ids` names the retrieved documents; `relevant_document_ids` makes `evaluate` match
    by id instead of judging; ids are text or whole numbers, compared as text. Embeddings or spans
    may stand for the texts. `negatives` are texts that should not be found, on which `evaluate`
    reports.
    """

    query: str = ""
    expected: Sequence[str] = ()
    retrieved: Sequence[str] = ()
    query_id: str = ""
    document_ids: Sequence[str] = ()
    relevant_document_ids: Sequence[str] = ()
    embeddings: Embeddings | None = None
    spans: Spans | None = None
    negatives: Sequence[str] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if type(self.query_id) is not str:
            set_fields(self, query_id=as_id(self.query_id))
        for name in ("expected", "retrieved", "negatives"):
            values = getattr(self, name)
            if type(values) not in (list, tuple):
                object.__setattr__(self, name, as_list(values))
        for name in ("document_ids", "relevant_document_ids"):
            if getattr(self, name) != ():
                object.__setattr__(self, name, as_ids(getattr(self, name)))

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def n_expected(self) -> int:
        """The number of expected texts, or of what stands for them."""
        if self.expected:
            return len(self.expected)
        if self.spans is not None:
            return len(self.spans.expected)
        return self.embeddings.n_expected if self.embeddings is not None else 0

    @property
    def n_retrieved(self) -> int:
        """The number of retrieved texts, or of what stands for them."""
        if self.retrieved:
            return len(self.retrieved)
        if self.spans is not None:
            return len(self.spans.retrieved)
        return self.embeddings.n_retrieved if self.embeddings is not None else 0


@dataclass(frozen=True, slots=True)
class Judge:
    """A judge and what you override of it. The empty one is the server's default.

    `members` are the judges of a `panel`; a string is a kind.
    """

    kind: str = ""
    profile: str = ""
    min_score: float | None = None
    parameters: Mapping[str, Scalar] = field(default_factory=dict)
    members: Sequence[PanelMember | Judge | str] = ()

    def __post_init__(self) -> None:
        set_fields(self, members=as_list(self.members))


@dataclass(frozen=True, slots=True)
class PanelMember:
    """A judge of a panel; its weight counts in the profile `weighted`, None stands for 1."""

    judge: Judge | str
    weight: float | None = None


@dataclass(frozen=True, slots=True)
class MetricOptions:
    """How rankings become numbers. None means the server's default, for `interval` none at all.

    `slice_by` names keys of the queries' metadata. For qrels only: `unjudged`; `relevance_level`,
    the smallest grade that is relevant (trec_eval -l); `max_documents`, the most of a topic that
    are ranked (trec_eval -M).
    """

    matching: Matching | None = None
    no_gold: NoGold | None = None
    strict_duplicates: bool = False
    complete: bool = False
    per_query: bool = False
    interval: IntervalOptions | None = None
    slice_by: Sequence[str] = ()
    unjudged: Unjudged | None = None
    relevance_level: int | None = None
    max_documents: int | None = None

    def __post_init__(self) -> None:
        set_fields(self, slice_by=as_list(self.slice_by))


@dataclass(frozen=True, slots=True)
class JudgedRanking:
    """The shape of one query's part of the verdicts."""

    query_id: str
    expected: int
    retrieved: int

    def __post_init__(self) -> None:
        if type(self.query_id) is not str:
            set_fields(self, query_id=need_id(self.query_id, "query_id"))


@dataclass(frozen=True, slots=True, repr=False)
class JudgedRankings(View):
    """Rankings and their verdicts, ranking after ranking, each retrieved-major.

    Columns may be left empty where every verdict is OK, COMPUTED, or without a flag.
    With `human_labels` every mean also comes corrected; `score` makes bounds of queries narrower.
    """

    rankings: Sequence[JudgedRanking]
    relevant: Sequence[bool]
    status: Sequence[int] = ()
    flags: Sequence[int] = ()
    score: Sequence[float] = ()
    human_labels: HumanLabels | None = None
    source: Sequence[int] = ()

    def __post_init__(self) -> None:
        rankings = need_each(self.rankings, "rankings", (JudgedRanking,), "JudgedRanking")
        set_fields(self, rankings=rankings)
        for name in ("relevant", "status", "flags", "score", "source"):
            object.__setattr__(self, name, need_column(getattr(self, name), name))


@dataclass(frozen=True, slots=True, repr=False)
class GainRanking(View):
    """One query's gains by rank, and the gains of everything relevant, retrieved or not."""

    query_id: str
    gains: Sequence[float]
    relevant_gains: Sequence[float]

    def __post_init__(self) -> None:
        set_fields(
            self,
            query_id=need_id(self.query_id, "query_id"),
            gains=need_column(self.gains, "gains"),
            relevant_gains=need_column(self.relevant_gains, "relevant_gains"),
        )


@dataclass(frozen=True, slots=True, repr=False)
class GainRankings(View):
    """Rankings whose gains you know."""

    rankings: Sequence[GainRanking]

    def __post_init__(self) -> None:
        rankings = need_each(self.rankings, "rankings", (GainRanking,), "GainRanking")
        set_fields(self, rankings=rankings)


@dataclass(frozen=True, slots=True, repr=False)
class PerQueryValues(View):
    """Per-query values of earlier calls, one column a metric, to be merged into means."""

    query_ids: Sequence[str]
    columns: Sequence[Sequence[float]]

    def __post_init__(self) -> None:
        columns = need_list(self.columns, "columns", "columns")
        columns = [need_column(column, f"columns[{i}]") for i, column in enumerate(columns)]
        set_fields(self, query_ids=need_ids(self.query_ids, "query_ids"), columns=columns)


Relevance = JudgedRankings | TrecRankings | GainRankings | PerQueryValues | EmbeddedRankings


@dataclass(frozen=True, slots=True, repr=False)
class NegativeReport(View):
    """The results that match a negative reference, by group and rank, and how many queries have.

    `counts` sums up the verdicts of all results against all negatives of their queries.
    """

    queries: int
    queries_hit: int
    matches: Sequence[NegativeMatch]
    counts: VerdictCounts

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row a match. Ranks count from 1, negatives from 0."""
        return [
            {
                "query_id": match.query_id,
                "rank": match.retrieved + 1,
                "document_id": match.document_id,
                "negative": match.negative,
                "score": match.score,
            }
            for match in self.matches
        ]


@dataclass(frozen=True, slots=True, repr=False)
class Evaluation(View):
    """Metrics of judged groups, and the judge (None when it had nothing to judge).

    `negatives` is None when no group has any, `usage` when no language model was asked. Queries on
    which a retriever failed have no part in the metrics; `failures` says why, by query id.
    `warnings` tell what else to mind.
    """

    table: MetricTable
    judge: JudgeIdentity | None
    verdicts: Verdicts | None
    negatives: NegativeReport | None = None
    usage: Usage | None = None
    failures: Mapping[str, str] = field(default_factory=dict)
    warnings: Sequence[str] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the document that `judged compare` and `--baseline` read; see MetricTable."""
        document = {
            **self.table.to_dict(),
            "signature": None if self.judge is None else self.judge.signature,
            "warnings": list(self.warnings),
        }
        told = {"usage": self.usage, "negatives": self.negatives, "failures": self.failures}
        return document | {name: plain(value) for name, value in told.items() if value}

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row a metric; those of queries are `table.to_query_rows()`."""
        return self.table.to_rows()
