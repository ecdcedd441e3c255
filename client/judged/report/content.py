"""What a report is made of: one run or two, their queries with texts and verdicts, what differs.

Plain values: `documents` reads them out of result documents, the other modules show them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True, slots=True)
class MetricMean:
    """The mean of one metric; None where no query has a value.

    `lower` and `upper` end its interval at `confidence`. The bounds are there where verdicts are
    missing: the mean if all of them were wrong, and if all were right.
    """

    name: str
    mean: float | None
    n: int
    lower: float | None = None
    upper: float | None = None
    confidence: float | None = None
    lower_bound: float | None = None
    upper_bound: float | None = None
    signature: str = ""


@dataclass(frozen=True, slots=True)
class SliceMeans:
    """The means of the queries that share a value of their metadata."""

    key: str
    value: str
    metrics: Sequence[MetricMean]


@dataclass(frozen=True, slots=True)
class ReportedResult:
    """One result of a query and what the judge made of it.

    `relevant` is None where that is not known; `status` and `error` then say why. `score` is the
    best over all expected texts, `matches` the indices of those that are matched. `agreement` is
    the share of votes on the larger side where several voted.
    """

    document_id: str
    text: str | None = None
    relevant: bool | None = None
    score: float | None = None
    status: str | None = None
    error: str = ""
    agreement: float | None = None
    matches: Sequence[int] = ()
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class ReportedQuery:
    """One query: its values by metric, and as far as they are known its texts and results.

    `first_hit` is the rank of the first relevant result, from 1; 0 where there is none, None where
    it is not known.
    """

    query_id: str
    values: Mapping[str, float]
    query: str = ""
    expected: Sequence[str] = ()
    results: Sequence[ReportedResult] = ()
    first_hit: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    failure: str = ""


@dataclass(frozen=True)
class Run:
    """One result document. `counts` are its numbers of queries and verdicts by name.

    `signatures` names who decided and how, by role. `usage` is what language models took, None
    when none was asked.
    """

    name: str
    metrics: Sequence[MetricMean]
    queries: Sequence[ReportedQuery]
    slices: Sequence[SliceMeans] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    verdicts: Mapping[str, int] = field(default_factory=dict)
    signatures: Mapping[str, str] = field(default_factory=dict)
    threshold: float | None = None
    usage: Mapping[str, float | None] | None = None
    warnings: Sequence[str] = ()

    @cached_property
    def by_id(self) -> Mapping[str, ReportedQuery]:
        """The queries by their ids."""
        return {query.query_id: query for query in self.queries}

    @cached_property
    def primary(self) -> str:
        """The metric that queries are sorted by: the first; "" where there is none."""
        return self.metrics[0].name if self.metrics else ""

    @property
    def coverage(self) -> float | None:
        """The share of verdicts that exist; None where nothing was judged."""
        total = sum(self.verdicts.get(name, 0) for name in VERDICT_STATUSES)
        return self.verdicts.get("ok", 0) / total if total else None


VERDICT_STATUSES = ("ok", "error", "abstained", "not_assessable")
"""The names under which documents count verdicts of each status."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How one metric differs between the baseline and the run, with the test of "it does not".

    `p` is corrected for all metrics that were tested together, and belongs to the `test`. `effect`
    is Cohen's d of the paired differences. None where the data leave a number undefined.
    """

    metric: str
    n: int
    baseline_mean: float
    run_mean: float
    difference: float | None
    lower: float | None
    upper: float | None
    confidence: float
    p: float
    effect: float | None
    wins: int
    losses: int
    ties: int
    test: str = "paired sign-flip test, corrected by Holm"

    @property
    def verdict(self) -> str:
        """What the test says of the run: better, worse, or no clear difference."""
        if self.difference is None or self.p >= 1 - self.confidence:
            return "no clear difference"
        return "better" if self.difference > 0 else "worse"


@dataclass(frozen=True, slots=True)
class Report:
    """A run, and where there is one the baseline that it is held against.

    `gates` are sentences about gates with whether each was passed.
    """

    run: Run
    baseline: Run | None = None
    differences: Sequence[Difference] = ()
    gates: Sequence[tuple[bool, str]] = ()
    title: str = "judged report"
