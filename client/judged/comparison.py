"""What it takes to compare runs, and what comes back. No protobuf, no NumPy.

Owns the public values of `compare_runs`. How they travel is up to `_compare`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from judged._inputs import set_fields
from judged.runs import RetrievedDocuments, kept_run
from judged.statistics import Estimate
from judged.types import GainRankings, JudgedRankings, MetricTable, PerQueryValues


@dataclass(frozen=True, slots=True)
class DocumentRankings:
    """The documents that a run retrieved, by query id, as in the run of TrecRankings."""

    topics: Mapping[str, RetrievedDocuments]

    def __post_init__(self) -> None:
        set_fields(self, topics=kept_run(self.topics, "topics"))


RunRelevance = JudgedRankings | DocumentRankings | GainRankings | PerQueryValues
"""What a run brings; all runs of a call bring the same kind."""


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """How runs are compared. None means the server's default: 100,000 permutations, seed 0, 10.

    `difference` is a true mean difference, above 0, to tell the power for.
    """

    permutations: int | None = None
    seed: int | None = None
    max_moved: int | None = None
    difference: float | None = None


@dataclass(frozen=True, slots=True)
class TestResult:
    """The result of one test of "there is no difference", two-sided.

    `p_holm` and `p_benjamini_hochberg` are corrected over all comparisons of the call.
    """

    __test__ = False  # its name makes test runners take it for a test

    statistic: float | None
    p_value: float
    p_holm: float
    p_benjamini_hochberg: float


@dataclass(frozen=True, slots=True)
class MovedQuery:
    """A query whose value differs between two runs."""

    query_id: str
    baseline: float
    run: float


@dataclass(frozen=True, slots=True)
class ComparisonPower:
    """Which differences the queries at hand can show; None where that is undefined or unasked."""

    detectable_difference: float | None
    power: float | None
    queries_needed: int | None


@dataclass(frozen=True, slots=True)
class RunComparison:
    """One metric of two runs on the queries they share. `difference` is run minus baseline."""

    metric: str
    baseline: str
    run: str
    n: int
    baseline_mean: float
    run_mean: float
    difference: Estimate
    effect_size: float | None
    t_test: TestResult
    wilcoxon: TestResult
    permutation: TestResult
    mcnemar: TestResult | None
    wins: int
    losses: int
    ties: int
    moved: Sequence[MovedQuery]
    power: ComparisonPower
    warnings: Sequence[str]


@dataclass(frozen=True, slots=True)
class TukeyComparison:
    """One pair of many runs under Tukey's test. `difference` is second minus first."""

    metric: str
    first: str
    second: str
    difference: Estimate
    p_value: float


@dataclass(frozen=True, slots=True)
class ComparedRuns:
    """The tables of all runs by name, every later run against the first, and all pairs."""

    tables: Mapping[str, MetricTable]
    comparisons: Sequence[RunComparison]
    tukey: Sequence[TukeyComparison]
    signature: str

    def between(self, metric: str, run: str) -> RunComparison:
        """Return how a run compares with the first by one metric. Raises KeyError."""
        for made in self.comparisons:
            if (made.metric, made.run) == (metric, run):
                return made
        known = ", ".join(f"{made.metric} of {made.run}" for made in self.comparisons)
        raise KeyError(f"{metric} of {run}; compared were {known}")
