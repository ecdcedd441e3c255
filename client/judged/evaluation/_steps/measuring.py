"""From groups and their verdicts to one table of metrics, however many groups there are.

Every number of a part comes from the server; over parts there are sums and weighted means only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

from judged.types import (
    Flag,
    JudgedRanking,
    JudgedRankings,
    MetricCounts,
    MetricOptions,
    MetricResult,
    MetricTable,
    QueryGroup,
    Source,
    Status,
    VerdictCounts,
    Verdicts,
)

PART_BYTES = 8 << 20
"""About the largest message of rankings that is sent."""
Compute = Callable[[JudgedRankings, MetricOptions], MetricTable]


@dataclass(slots=True)
class _Part:
    """Rankings that travel together."""

    rankings: list[JudgedRanking]
    relevant: list[bool]
    status: list[int]
    source: list[int]
    size: int = 0

    def rankings_message(self) -> JudgedRankings:
        """Return the part as compute_metrics takes it: columns only where they tell."""
        told = any(status != Status.OK for status in self.status)
        elsewhere = any(source != Source.COMPUTED for source in self.source)
        return JudgedRankings(
            self.rankings,
            self.relevant,
            self.status if told else (),
            source=self.source if elsewhere else (),
        )


def measure(
    compute: Compute,
    groups: Sequence[QueryGroup],
    verdicts: Verdicts | None,
    options: MetricOptions,
    max_contexts: int,
    only: frozenset[str] | None = None,
) -> MetricTable:
    """Return the metrics of distinct groups; `verdicts` has those of the judged ones, in order.

    `compute` asks the server; with `only`, about these queries. The counts of verdicts leave out
    what was matched by id.
    """
    parts = list(_parts(groups, verdicts, max_contexts, only))
    asked = options if len(parts) == 1 else replace(options, per_query=True)
    tables = [compute(part.rankings_message(), asked) for part in parts]
    table = tables[0] if len(tables) == 1 else _merge(tables, options)
    return replace(table, counts=replace(table.counts, verdicts=count_verdicts(verdicts)))


def _parts(
    groups: Sequence[QueryGroup],
    verdicts: Verdicts | None,
    max_contexts: int,
    only: frozenset[str] | None,
) -> Iterator[_Part]:
    """Yield the rankings in parts, each within PART_BYTES and `max_contexts` where it can be."""
    part = _Part([], [], [], [])
    for index, group in enumerate(groups):
        if only is not None and group.query_id not in only:
            continue
        n_expected, relevant, status, source = _columns(index, group, verdicts)
        # A query id, its two numbers and their tags; one byte each a decision, status and source.
        size = 3 * len(group.query_id) + 16 + 3 * len(relevant)
        over = part.size + size > PART_BYTES or len(part.relevant) + len(relevant) > max_contexts
        if part.rankings and over:
            yield part
            part = _Part([], [], [], [])
        part.rankings.append(JudgedRanking(group.query_id, n_expected, group.n_retrieved))
        part.relevant += relevant
        part.status += status
        part.source += source
        part.size += size
    yield part


def _columns(
    index: int, group: QueryGroup, verdicts: Verdicts | None
) -> tuple[int, Sequence[bool], Sequence[int], Sequence[int]]:
    """Return a group's number of expected things; decision, status and source of each pair."""
    if not group.relevant_document_ids:
        if verdicts is None:
            return group.n_expected, [], [], []
        part = slice(verdicts.offsets[index], verdicts.offsets[index + 1])
        columns = verdicts.relevant[part], verdicts.status[part], verdicts.source[part]
        return group.n_expected, *columns
    wanted = list(dict.fromkeys(group.relevant_document_ids))
    found = group.document_ids or [f"retrieved_{rank}" for rank in range(group.n_retrieved)]
    relevant = [document == target for document in found for target in wanted]
    n = len(relevant)
    return len(wanted), relevant, [int(Status.OK)] * n, [int(Source.COMPUTED)] * n


def _merge(tables: Sequence[MetricTable], options: MetricOptions) -> MetricTable:
    names = [field.name for field in fields(MetricCounts) if field.name != "verdicts"]
    counts = {name: sum(getattr(table.counts, name) for table in tables) for name in names}
    return MetricTable(
        metrics=[
            _merge_metric(tables, column, options) for column in range(len(tables[0].metrics))
        ],
        query_ids=[q for table in tables for q in table.query_ids] if options.per_query else [],
        counts=MetricCounts(**counts),
    )


def _merge_metric(
    tables: Sequence[MetricTable], column: int, options: MetricOptions
) -> MetricResult:
    results = [table.metrics[column] for table in tables]
    values = [value for result in results for value in result.per_query]
    lower = upper = None
    if any(result.lower_bound is not None for result in results):
        # Bounds also speak of the queries that have no value for want of verdicts.
        sizes = [table.counts.evaluated + table.counts.skipped_unsettled for table in tables]
        lower = _weighted([_either(r.lower_bound, r.mean) for r in results], sizes)
        upper = _weighted([_either(r.upper_bound, r.mean) for r in results], sizes)
    return replace(
        results[0],
        # fsum is exact, as is the server's sum: the mean is the one a single call would give.
        mean=math.fsum(values) / len(values) if values else None,
        n=len(values),
        lower_bound=lower,
        upper_bound=upper,
        per_query=values if options.per_query else [],
    )


def _either(bound: float | None, mean: float | None) -> float | None:
    return mean if bound is None else bound


def _weighted(means: Sequence[float | None], sizes: Sequence[int]) -> float | None:
    weighted = [mean * size for mean, size in zip(means, sizes, strict=True) if mean is not None]
    return math.fsum(weighted) / sum(sizes) if weighted else None


def count_verdicts(verdicts: Verdicts | None) -> VerdictCounts:
    """Return how many verdicts have each status, and remarks worth knowing."""
    if verdicts is None:
        return VerdictCounts()
    # A list counts an integer a thousand times faster than it counts members of an IntEnum.
    statuses = list(verdicts.status)
    return VerdictCounts(
        ok=statuses.count(int(Status.OK)),
        error=statuses.count(int(Status.ERROR)),
        abstained=statuses.count(int(Status.ABSTAINED)),
        not_assessable=statuses.count(int(Status.NOT_ASSESSABLE)),
        relevant=list(verdicts.relevant).count(True),
        flagged_no_tokens=verdicts.count(Flag.NO_TOKENS),
        flagged_truncated=verdicts.count(Flag.TRUNCATED),
        flagged_reserved_tokens=verdicts.count(Flag.RESERVED_TOKENS),
        flagged_fallback=verdicts.count(Flag.FALLBACK),
    )
