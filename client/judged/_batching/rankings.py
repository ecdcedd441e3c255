"""Splits rankings that one message can't hold, and merges the tables of the parts.

Means of the whole are those of the parts' per-query values; intervals, slices and corrections of
the whole come from the server, out of the same values.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import accumulate, chain, compress
from typing import Any, cast

from judged._batching.packing import packed
from judged._convert.trec import Joined, joined
from judged.errors import InvalidArgument
from judged.values.choices import Unjudged
from judged.values.groups import EmbeddedRankings
from judged.values.metrics import MetricCounts, MetricOptions, MetricResult, MetricTable
from judged.values.rankings import (
    GainRankings,
    JudgedRanking,
    JudgedRankings,
    PerQueryValues,
    Relevance,
    RetrievedDocuments,
    TrecRankings,
)
from judged.values.verdicts import VerdictCounts

Metadata = Mapping[str, Mapping[str, str]]
"""Metadata of queries by query id."""

_FIELDS = {GainRankings: "gains", EmbeddedRankings: "embedded", JudgedRankings: "judged"}
PART_BYTES = 1 << 20
"""Small enough that the server works on one part while the client writes the next."""
_VERDICT_BYTES = {"relevant": 1, "status": 1, "source": 1, "flags": 1, "score": 8}
_LARGER = 8
"""How many times as large a part of verdicts may be: slices of several parts have no bounds."""


def split(relevance: Relevance, part_bytes: int = PART_BYTES) -> Iterator[Relevance]:
    """Yield the relevance in parts of about `part_bytes` or less, cut between queries."""
    if isinstance(relevance, TrecRankings):
        return _split_trec(relevance, part_bytes)
    if isinstance(relevance, GainRankings) and relevance.rankings:
        return _split_gains(relevance, part_bytes)
    if isinstance(relevance, EmbeddedRankings) and relevance.rankings:
        return _split_embedded(relevance, part_bytes)
    if isinstance(relevance, JudgedRankings) and relevance.rankings:
        return _split_judged(relevance, _LARGER * part_bytes)
    return iter([relevance])


def check_rankings(relevance: Relevance) -> None:
    """Raise InvalidArgument, as the server would, for a query that is there twice."""
    if isinstance(relevance, TrecRankings | PerQueryValues):
        return  # the one can't name a query twice, the other travels in one piece
    field = f"{_FIELDS[type(relevance)]}.rankings"
    places: dict[str, int] = {}
    for i, query_id in enumerate(query_ids_of(relevance)):
        first = places.setdefault(query_id, i)
        if first != i:
            rule = f"is that of {field}[{first}] again"
            raise InvalidArgument.of_field(f"{field}[{i}].query_id", rule)


def _split_trec(whole: TrecRankings, part_bytes: int) -> Iterator[TrecRankings]:
    qrels: dict[str, Joined] = {}
    run: dict[str, Joined] = {}
    size = 0
    for (query_id, grades), unjudged in zip(whole.qrels.items(), _unjudged(whole), strict=True):
        judged = joined(grades)
        ranked = {query_id: joined(whole.run[query_id])} if query_id in whole.run else {}
        ranked.update(unjudged)
        more = judged.size + sum(topic.size for topic in ranked.values())
        if qrels and size + more > part_bytes:
            yield _part(qrels, run)
            qrels, run, size = {}, {}, 0
        qrels[query_id] = judged
        run.update(ranked)
        size += more
    yield _part(qrels, run)


def _unjudged(whole: TrecRankings) -> Iterator[dict[str, Joined]]:
    """Yield the topics that only the run has, spread evenly over those of the judgements.

    A part needs a judged topic, and a run over a whole collection may have hundreds of others for
    each of these.
    """
    topics = {q: joined(ranked) for q, ranked in whole.run.items() if q not in whole.qrels}
    ends = [*accumulate(topic.size for topic in topics.values())]
    names, first = list(topics), 0
    for number in range(1, len(whole.qrels) + 1):
        end = bisect_right(ends, ends[-1] * number // len(whole.qrels)) if ends else 0
        yield {name: topics[name] for name in names[first:end]}
        first = end


def _part(qrels: Mapping[str, Joined], run: Mapping[str, Joined]) -> TrecRankings:
    """Return judgements and a run whose ids are joined already, which spares doing it again."""
    return TrecRankings(
        cast("Mapping[str, Mapping[str, int]]", qrels),
        cast("Mapping[str, RetrievedDocuments]", run),
    )


def _split_gains(whole: GainRankings, part_bytes: int) -> Iterator[GainRankings]:
    sized = (
        (one, [8 * (len(one.gains) + len(one.relevant_gains)) + len(one.query_id)])
        for one in whole.rankings
    )
    return map(GainRankings, packed(sized, [part_bytes]))


def _split_embedded(whole: EmbeddedRankings, part_bytes: int) -> Iterator[EmbeddedRankings]:
    sized = (
        (one, [len(one.embeddings.expected) + len(one.embeddings.retrieved) + len(one.query_id)])
        for one in whole.rankings
    )
    return (EmbeddedRankings(part, whole.min_score) for part in packed(sized, [part_bytes]))


def _split_judged(whole: JudgedRankings, part_bytes: int) -> Iterator[JudgedRankings]:
    sizes = [*map(_size, whole.rankings)]
    columns = {name: getattr(whole, name) for name in _VERDICT_BYTES}
    columns = {name: column for name, column in columns.items() if len(column)}
    fit = min(sizes) >= 0 and all(len(column) == sum(sizes) for column in columns.values())
    if whole.human_labels is not None or not fit:
        return iter([whole])  # labels correct all of it; what does not fit is the server's to say
    return _judged_parts(whole, columns, part_bytes)


def _judged_parts(
    whole: JudgedRankings, columns: Mapping[str, Sequence[Any]], part_bytes: int
) -> Iterator[JudgedRankings]:
    each = sum(_VERDICT_BYTES[name] for name in columns)
    sized = ((one, [each * _size(one) + _id_bytes(one)]) for one in whole.rankings)
    first = 0
    for pack in packed(sized, [part_bytes]):
        end = first + sum(map(_size, pack))
        cut: dict[str, Any] = {name: column[first:end] for name, column in columns.items()}
        yield replace(whole, rankings=pack, **cut)
        first = end


def _id_bytes(ranking: JudgedRanking) -> int:
    ids = (ranking.document_ids, ranking.relevant_document_ids, ranking.grades)
    return len(ranking.query_id) + sum(len(name) for some in ids for name in some)


def _size(ranking: JudgedRanking) -> int:
    return ranking.expected * ranking.retrieved


def check_metadata(relevance: Relevance, metadata: Metadata) -> None:
    """Raise InvalidArgument, as the server would, for metadata of a query that is not there."""
    known = set(query_ids_of(relevance))
    for i, query_id in enumerate(metadata):
        if query_id not in known:
            rule = "is the id of no query of this request"
            raise InvalidArgument.of_field(f"metadata[{i}].query_id", rule)


def check_human_values(relevance: Relevance, human: PerQueryValues | None) -> None:
    """Raise InvalidArgument, as the server would, for a human value of a query not there."""
    known = set(query_ids_of(relevance))
    if isinstance(relevance, TrecRankings):
        known = set(relevance.qrels)
    for i, query_id in enumerate(human.query_ids if human is not None else ()):
        if query_id not in known:
            rule = "is the id of none of the queries that are measured"
            raise InvalidArgument.of_field(f"human_values.query_ids[{i}]", rule)


def among(human: PerQueryValues | None, values: PerQueryValues) -> PerQueryValues | None:
    """Return the human values without those of queries that the parts gave no value to."""
    if human is None:
        return None
    measured = set(values.query_ids)
    kept = [query_id in measured for query_id in human.query_ids]
    if all(kept) or any(len(column) != len(kept) for column in human.columns):
        return human  # the server says what is wrong with the columns
    return PerQueryValues(
        list(compress(human.query_ids, kept)),
        [list(compress(column, kept)) for column in human.columns],
        list(compress(human.inclusion_probabilities, kept)),
    )


def query_ids_of(relevance: Relevance) -> Collection[str]:
    """Return the ids of all queries."""
    if isinstance(relevance, TrecRankings):
        return [*relevance.qrels, *relevance.run]
    if isinstance(relevance, PerQueryValues):
        return relevance.query_ids
    return [ranking.query_id for ranking in relevance.rankings]


def for_part(
    part: Relevance, options: MetricOptions, metadata: Metadata
) -> tuple[MetricOptions, Metadata]:
    """Return what to ask for a part: its values, and slices if these have bounds to sum up."""
    asked = replace(options, per_query=True, interval=None)
    if options.unjudged is not Unjudged.BOUNDS:
        return replace(asked, slice_by=()), {}
    return asked, {q: metadata[q] for q in dict.fromkeys(query_ids_of(part)) if q in metadata}


def values_of(tables: Sequence[MetricTable]) -> PerQueryValues:
    """Return the per-query values of all parts as one input."""
    return PerQueryValues(
        [query_id for table in tables for query_id in table.query_ids],
        [
            list(chain.from_iterable(table.metrics[column].per_query for table in tables))
            for column in range(len(tables[0].metrics))
        ],
        # Of parts without a warning the whole has none.
        id_fits=[table.id_fit for table in tables if table.id_fit is not None]
        if any(table.warnings for table in tables)
        else (),
    )


def for_whole(
    values: PerQueryValues, options: MetricOptions, metadata: Metadata
) -> tuple[MetricOptions, Metadata]:
    """Return what to ask for the values of all parts: means, intervals, slices."""
    return for_values(options), {q: metadata[q] for q in values.query_ids if q in metadata}


def for_values(options: MetricOptions) -> MetricOptions:
    """Return the options of what is measured already: how values were made is no matter to them."""
    return replace(
        options,
        matching=None,
        no_gold=None,
        strict_duplicates=False,
        complete=False,
        unjudged=None,
        relevance_level=None,
        max_documents=None,
    )


def means_of(values: PerQueryValues, tables: Sequence[MetricTable]) -> MetricTable:
    """Return the means of the parts' values. Sums are exact, as the server's are."""
    metrics = [
        MetricResult(
            first.name,
            math.fsum(column) / len(column) if column else None,
            len(column),
            lower_bound=None,
            upper_bound=None,
            signature=first.signature,
            per_query=column,
        )
        for first, column in zip(tables[0].metrics, values.columns, strict=True)
    ]
    return MetricTable(metrics, values.query_ids, MetricCounts())


def merge(means: MetricTable, tables: Sequence[MetricTable], options: MetricOptions) -> MetricTable:
    """Return the table of the whole: the merged means, the parts' signatures, summed counts.

    Bounds are those of the parts; slices have them where parts were asked for these.
    """
    names = [field.name for field in fields(MetricCounts) if field.name != "verdicts"]
    totals = {name: sum(getattr(table.counts, name) for table in tables) for name in names}
    verdicts = [table.counts.verdicts for table in tables if table.counts.verdicts is not None]
    counts = MetricCounts(**totals, verdicts=sum(verdicts, VerdictCounts()) if verdicts else None)
    parts = [table.metrics for table in tables]
    unsettled = [table.counts.skipped_unsettled for table in tables]
    metrics = [
        metric
        if options.per_query
        else replace(metric, per_query=[], per_query_lower=[], per_query_upper=[])
        for metric in _with_bounds(means.metrics, parts, parts[0], unsettled)
    ]
    parts_of_slices: dict[tuple[str, str], list[Sequence[MetricResult]]] = {}
    for table in tables:
        for part in table.slices:
            parts_of_slices.setdefault((part.key, part.value), []).append(part.metrics)
    slices = [
        replace(
            part,
            metrics=_with_bounds(
                part.metrics, parts_of_slices.get((part.key, part.value), []), parts[0]
            ),
        )
        for part in means.slices
    ]
    query_ids = means.query_ids if options.per_query else []
    return MetricTable(metrics, query_ids, counts, slices, means.warnings, means.id_fit)


def _with_bounds(
    metrics: Sequence[MetricResult],
    parts: Sequence[Sequence[MetricResult]],
    signed: Sequence[MetricResult],
    unsettled: Iterable[int] = (),
) -> list[MetricResult]:
    """Return the metrics under the signatures of `signed`, with the bounds that the parts have.

    Those of a part enclose its `unsettled` queries too, which have no part in its mean.
    """
    left_out = [*unsettled] or [0] * len(parts)
    done = []
    for column, metric in enumerate(metrics):
        of_parts = [part[column] for part in parts]
        weights = [part.n + more for part, more in zip(of_parts, left_out, strict=True)]
        done.append(
            replace(
                metric,
                signature=signed[column].signature,
                lower_bound=_weighted([part.lower_bound for part in of_parts], of_parts, weights),
                upper_bound=_weighted([part.upper_bound for part in of_parts], of_parts, weights),
            )
        )
    return done


def _weighted(
    bounds: Sequence[float | None], parts: Sequence[MetricResult], weights: Sequence[int]
) -> float | None:
    """Return the mean of the parts' bounds, None where none has any.

    The mean of a part is its bound where nothing is missing; a part without queries has neither.
    """
    if all(bound is None for bound in bounds):
        return None
    ends = [
        part.mean if bound is None else bound for bound, part in zip(bounds, parts, strict=True)
    ]
    some = [(end, weight) for end, weight in zip(ends, weights, strict=True) if end is not None]
    n_queries = sum(weight for _, weight in some)
    return math.fsum(end * weight for end, weight in some) / n_queries if n_queries else None
