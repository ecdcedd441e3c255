"""The inputs and results of comparing runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judged._inputs import set_fields
from judged._views import View, row_of
from judged.values.agreement import (
    GainRankings,
    JudgedRankings,
    PerQueryValues,
    RetrievedDocuments,
    kept_run,
)
from judged.values.choices import Estimate, ends_of
from judged.values.metrics import MetricTable


@dataclass(frozen=True, repr=False)
class DocumentRankings(View):
    """The documents that a run retrieved, by query id, as in the run of TrecRankings."""

    topics: Mapping[str, RetrievedDocuments]

    def __post_init__(self) -> None:
        set_fields(self, topics=kept_run(self.topics, "topics"))


RunRelevance = JudgedRankings | DocumentRankings | GainRankings | PerQueryValues
"""The data of a run; all runs of a call must be of the same kind."""


@dataclass(frozen=True)
class CompareOptions:
    """How runs are compared.

    `difference` is the true mean difference, above 0, for which to compute the power.
    """

    permutations: int = 100_000
    seed: int = 0
    max_moved: int = 10
    difference: float | None = None

    @property
    def signature(self) -> str:
        """How the tests are computed, in one stable line."""
        return f"permutations:{self.permutations}|seed:{self.seed}|v1"


@dataclass(frozen=True)
class TestResult:
    """The result of one test of "there is no difference", two-sided.

    `p_holm` and `p_benjamini_hochberg` are corrected over all comparisons of the call.
    """

    __test__ = False  # keeps test runners from collecting it by its name

    statistic: float | None
    p_value: float
    p_holm: float
    p_benjamini_hochberg: float


@dataclass(frozen=True)
class MovedQuery:
    """A query whose value differs between two runs."""

    query_id: str
    baseline: float
    run: float


@dataclass(frozen=True)
class ComparisonPower:
    """The differences that these queries can show; None if undefined or not asked for."""

    detectable_difference: float | None = None
    power: float | None = None
    queries_needed: int | None = None


@dataclass(frozen=True, repr=False)
class RunComparison(View):
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

    @property
    def interval_warnings(self) -> Sequence[str]:
        """The warnings of the interval, unless the comparison has warnings, which cover them."""
        interval = self.difference.interval
        return () if interval is None or self.warnings else interval.warnings

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row: the difference with its interval, the tests, and the warnings."""
        of_interval = [f"interval: {each}" for each in self.interval_warnings]
        row = row_of(
            self,
            "metric baseline run n baseline_mean run_mean",
            difference=self.difference.value,
            **ends_of(self.difference.interval),
            effect_size=self.effect_size,
            p_permutation=self.permutation.p_value,
            p_permutation_holm=self.permutation.p_holm,
            p_t_test=self.t_test.p_value,
            p_wilcoxon=self.wilcoxon.p_value,
            **row_of(self, "wins losses ties"),
            detectable_difference=self.power.detectable_difference,
            warnings="; ".join([*self.warnings, *of_interval]),
        )
        return [row]


@dataclass(frozen=True, repr=False)
class ComparedRuns(View):
    """The tables of all runs by name, and every later run against the first."""

    tables: Mapping[str, MetricTable]
    comparisons: Sequence[RunComparison]
    signature: str

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row for each metric of each run but the first."""
        return [row for made in self.comparisons for row in made.to_rows()]

    def between(self, metric: str, run: str) -> RunComparison:
        """Return the comparison of a run with the first by one metric. Raises KeyError.

        Any spelling of the metric is accepted, as in a call: `rbp(p=0.8)@2` is `rbp@2`.
        """
        table = self.tables.get(run)
        name = table[metric].name if table is not None and metric in table else metric
        for made in self.comparisons:
            if (made.metric, made.run) == (name, run):
                return made
        known = ", ".join(f"{made.metric} of {made.run}" for made in self.comparisons)
        raise KeyError(f"{metric} of {run}; compared were {known}")
