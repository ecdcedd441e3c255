"""Splits rankings that one message can't hold, and merges the tables of the parts.

Owns the cut along queries and the sums. The means of the whole come from the server, out of the
per-query values of the parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace

from judged.types import (
    GainRanking,
    GainRankings,
    MetricCounts,
    MetricOptions,
    MetricTable,
    PerQueryValues,
    Relevance,
    TrecRankings,
)

PART_BYTES = 8 << 20
_TEXT_BYTES = 3  # what a string costs on the wire beside its characters


def split(relevance: Relevance) -> list[Relevance]:
    """Return the relevance in parts of about PART_BYTES or less, cut between queries."""
    if isinstance(relevance, TrecRankings):
        return list(_split_trec(relevance))
    if isinstance(relevance, GainRankings):
        return list(_split_gains(relevance))
    return [relevance]


def _split_trec(whole: TrecRankings) -> Iterator[TrecRankings]:
    # Topics that only the run has ride along with the last part, which has judged ones too.
    extra = {q: ranked for q, ranked in whole.run.items() if q not in whole.qrels}
    qrels: dict[str, Mapping[str, int]] = {}
    run: dict[str, Mapping[str, float] | Sequence[str]] = {}
    size = sum(_topic_bytes(ranked) for ranked in extra.values())
    for query_id, grades in whole.qrels.items():
        ranked = whole.run.get(query_id)
        more = _topic_bytes(grades) + (_topic_bytes(ranked) if ranked is not None else 0)
        if qrels and size + more > PART_BYTES:
            yield TrecRankings(qrels, run)
            qrels, run, size = {}, {}, 0
        qrels[query_id] = grades
        if ranked is not None:
            run[query_id] = ranked
        size += more
    yield TrecRankings(qrels, {**run, **extra})


def _topic_bytes(topic: Mapping[str, float] | Sequence[str]) -> int:
    return sum(map(len, topic)) + (_TEXT_BYTES + 8) * len(topic)


def _split_gains(whole: GainRankings) -> Iterator[GainRankings]:
    part: list[GainRanking] = []
    size = 0
    for ranking in whole.rankings:
        more = 8 * (len(ranking.gains) + len(ranking.relevant_gains)) + len(ranking.query_id)
        if part and size + more > PART_BYTES:
            yield GainRankings(part)
            part, size = [], 0
        part.append(ranking)
        size += more
    yield GainRankings(part)


def values_of(tables: Sequence[MetricTable]) -> PerQueryValues:
    """Return the per-query values of all parts as one input."""
    return PerQueryValues(
        [query_id for table in tables for query_id in table.query_ids],
        [
            [value for table in tables for value in table.metrics[column].per_query]
            for column in range(len(tables[0].metrics))
        ],
    )


def merge(means: MetricTable, tables: Sequence[MetricTable], options: MetricOptions) -> MetricTable:
    """Return the table of the whole: the merged means, the parts' signatures, summed counts."""
    names = [field.name for field in fields(MetricCounts) if field.name != "verdicts"]
    totals = {name: sum(getattr(table.counts, name) for table in tables) for name in names}
    metrics = [
        replace(
            metric,
            signature=tables[0].metrics[column].signature,
            per_query=metric.per_query if options.per_query else [],
        )
        for column, metric in enumerate(means.metrics)
    ]
    query_ids = means.query_ids if options.per_query else []
    return MetricTable(metrics, query_ids, MetricCounts(**totals))
