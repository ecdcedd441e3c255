"""One compute_metrics() call that takes several messages: its parts, their tables, the whole.

A part is asked for the values of its queries; means, intervals, slices and corrections of the whole
come from the server, out of the values of all parts.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from itertools import accumulate, chain, compress
from typing import Any, cast

from judged import errors
from judged._batching.chunks import packed
from judged._convert.metrics import read_table, write_metrics
from judged._convert.trec import Joined, joined
from judged._inputs import as_metrics, need_by_ids, need_kind, set_fields
from judged._transport.status import rename_paths
from judged.v1 import judge_service_pb2 as pb
from judged.values.choices import Unjudged
from judged.values.groups import EmbeddedRanking, EmbeddedRankings
from judged.values.metrics import MetricCounts, MetricOptions, MetricResult, MetricTable
from judged.values.rankings import (
    GainRanking,
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

PART_BYTES = 1 << 20
"""Small enough that the server works on one part while the client writes the next."""
_LARGER = 8
"""How many times as large a part of verdicts may be: slices of several parts have no bounds."""
_VERDICT_BYTES = {"relevant": 1, "status": 1, "source": 1, "flags": 1, "score": 8}
_FIELDS = {GainRankings: "gains", EmbeddedRankings: "embedded", JudgedRankings: "judged"}
_PATH = re.compile(
    r"(?<![\w.])(trec\.qrels|trec\.run|gains\.rankings|embedded\.rankings|judged\.rankings"
    r"|judged\.verdicts\.\w+|metadata|human_values\.query_ids)\[(\d+)\]"
)


@dataclass(frozen=True, slots=True)
class Given:
    """What is measured, of the whole or of a part, and what is known of its queries."""

    relevance: Relevance
    metadata: Metadata
    human: PerQueryValues | None = None

    def __post_init__(self) -> None:
        kinds = (TrecRankings, JudgedRankings, GainRankings, EmbeddedRankings, PerQueryValues)
        others = " or ".join(kind.__name__ for kind in kinds[1:])
        what = f"TrecRankings(qrels, run), for judgements and a run, or {others}"
        need_kind(self.relevance, "relevance", kinds, what)
        if self.human is not None:
            need_kind(self.human, "human_values", PerQueryValues, "PerQueryValues")
        set_fields(self, metadata=need_by_ids(self.metadata, "metadata"))

    def names(self, path: str) -> list[str]:
        """Return a name for each entry of a repeated field, the same in a part as in the whole.

        It is the id of the entry's query; of a verdict, with the verdict's place in its query.
        """
        if path == "metadata":
            return list(self.metadata)
        if path == "human_values.query_ids":
            return list(self.human.query_ids) if self.human is not None else []
        if path.startswith("judged.verdicts") and isinstance(self.relevance, JudgedRankings):
            sizes = ((one.query_id, _size(one)) for one in self.relevance.rankings)
            return [f"{query_id} {n}" for query_id, size in sizes for n in range(size)]
        if isinstance(self.relevance, TrecRankings):
            trec = self.relevance
            return list(trec.run if path == "trec.run" else trec.qrels)
        return list(_query_ids(self.relevance))


class Parts:
    """The parts of a call and their tables so far; none where one message holds everything.

    Parts can't see each other, so what the server would refuse for that is refused here: raises
    InvalidArgument for a query that is there twice, and for metadata and human values of a query
    that is not there.
    """

    def __init__(
        self,
        metrics: Sequence[str],
        given: Given,
        options: MetricOptions,
        part_bytes: int = PART_BYTES,
    ) -> None:
        self._metrics = as_metrics(metrics)
        self._given = given
        self._options = options
        self._parts: Iterator[Relevance] = iter(())
        self._tables: list[MetricTable] = []
        parts = split(given.relevance, part_bytes)
        first = next(parts)  # the second is made only when the first is on its way
        self._one_message = len(_query_ids(first)) == len(_query_ids(given.relevance))
        if not self._one_message:
            _check_queries(given)
            self._parts = chain((first,), parts)

    def requests(self) -> Iterator[tuple[Given, pb.ComputeMetricsRequest]]:
        """Yield what to send for each part, in order, made as it is asked for.

        That are its values, and slices if these have bounds to sum up.
        """
        asked, known = replace(self._options, per_query=True, interval=None), self._given.metadata
        if self._options.unjudged is not Unjudged.BOUNDS:
            asked, known = replace(asked, slice_by=()), {}
        for relevance in self._parts:
            ids = dict.fromkeys(_query_ids(relevance)) if known else ()
            part = Given(relevance, {q: known[q] for q in ids if q in known})
            with self.about(part):
                request = write_metrics(self._metrics, relevance, asked, part.metadata)
            yield part, request

    def take(self, part: Given, reply: pb.ComputeMetricsResponse | errors.JudgedError) -> None:
        """Take in the answer of the next part, in the order of the requests; raise its error."""
        with self.about(part):
            if isinstance(reply, errors.JudgedError):
                raise reply
            self._tables.append(read_table(reply.table))

    @contextmanager
    def about(self, part: Given) -> Iterator[None]:
        """Make errors about a part speak of the whole: trec.run[0] of a later part is another."""
        if part is self._given:
            yield
            return

        def rename(match: re.Match[str]) -> str:
            query_id = part.names(match[1])[int(match[2])]
            return f"{match[1]}[{self._given.names(match[1]).index(query_id)}]"

        try:
            yield
        except errors.InvalidArgument as error:
            raise rename_paths(error, _PATH, rename) from None

    def whole(self) -> tuple[Given, pb.ComputeMetricsRequest]:
        """Return what to send once all parts are answered: their values, or all there is."""
        given, options = self._given, self._options
        if not self._one_message:
            values = self._values()
            metadata = {q: given.metadata[q] for q in values.query_ids if q in given.metadata}
            given = Given(values, metadata, _among(given.human, values))
            options = _for_values(options)
        with self.about(given):
            request = write_metrics(
                self._metrics, given.relevance, options, given.metadata, given.human
            )
        return given, request

    def table(self, reply: pb.ComputeMetricsResponse) -> MetricTable:
        """Return the table of the whole, given the answer to `whole`."""
        table = read_table(reply.table)
        return table if self._one_message else _merged(table, self._tables)

    def _values(self) -> PerQueryValues:
        """Return the per-query values of all parts as one input."""
        tables = self._tables
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


def split(relevance: Relevance, part_bytes: int = PART_BYTES) -> Iterator[Relevance]:
    """Yield the relevance in parts of about `part_bytes` or less, cut between queries."""
    if isinstance(relevance, TrecRankings):
        return _split_trec(relevance, part_bytes)
    if isinstance(relevance, PerQueryValues) or not relevance.rankings:
        return iter([relevance])
    if not isinstance(relevance, JudgedRankings):
        return _split_rankings(relevance, part_bytes, {})
    sizes = [*map(_size, relevance.rankings)]
    columns = {name: getattr(relevance, name) for name in _VERDICT_BYTES}
    columns = {name: column for name, column in columns.items() if len(column)}
    fit = min(sizes) >= 0 and all(len(column) == sum(sizes) for column in columns.values())
    if relevance.human_labels is not None or not fit:
        return iter([relevance])  # labels correct all of it; what does not fit is the server's
    return _split_rankings(relevance, _LARGER * part_bytes, columns)


def _split_rankings(
    whole: JudgedRankings | GainRankings | EmbeddedRankings,
    part_bytes: int,
    columns: Mapping[str, Sequence[Any]],
) -> Iterator[Relevance]:
    """Yield some of the rankings each time, with their part of the columns of verdicts."""
    each = sum(_VERDICT_BYTES[name] for name in columns)
    rankings: Sequence[Any] = whole.rankings
    first = 0
    for pack in packed(((one, [_bytes(one, each)]) for one in rankings), [part_bytes]):
        end = first + (sum(map(_size, pack)) if columns else 0)
        cut: dict[str, Any] = {name: column[first:end] for name, column in columns.items()}
        cut["rankings"] = pack
        yield replace(whole, **cut)
        first = end


def _bytes(ranking: JudgedRanking | GainRanking | EmbeddedRanking, of_verdict: int) -> int:
    size = len(ranking.query_id)
    if isinstance(ranking, GainRanking):
        return size + 8 * (len(ranking.gains) + len(ranking.relevant_gains))
    if isinstance(ranking, EmbeddedRanking):
        return size + len(ranking.embeddings.expected) + len(ranking.embeddings.retrieved)
    ids = (ranking.document_ids, ranking.relevant_document_ids, ranking.grades)
    return size + of_verdict * _size(ranking) + sum(len(name) for some in ids for name in some)


def _size(ranking: JudgedRanking) -> int:
    return ranking.expected * ranking.retrieved


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
            yield _trec(qrels, run)
            qrels, run, size = {}, {}, 0
        qrels[query_id] = judged
        run.update(ranked)
        size += more
    yield _trec(qrels, run)


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


def _trec(qrels: Mapping[str, Joined], run: Mapping[str, Joined]) -> TrecRankings:
    """Return judgements and a run whose ids are joined already, which spares doing it again."""
    return TrecRankings(
        cast("Mapping[str, Mapping[str, int]]", qrels),
        cast("Mapping[str, RetrievedDocuments]", run),
    )


def _query_ids(relevance: Relevance) -> Collection[str]:
    if isinstance(relevance, TrecRankings):
        return [*relevance.qrels, *relevance.run]
    if isinstance(relevance, PerQueryValues):
        return relevance.query_ids
    return [ranking.query_id for ranking in relevance.rankings]


def _check_queries(given: Given) -> None:
    """Refuse, as the server would, a query that is there twice, or that metadata lack."""
    relevance, human = given.relevance, given.human
    known = set(_query_ids(relevance))
    if isinstance(relevance, GainRankings | EmbeddedRankings | JudgedRankings):
        field = f"{_FIELDS[type(relevance)]}.rankings"
        places: dict[str, int] = {}
        for i, query_id in enumerate(_query_ids(relevance)):
            if (first := places.setdefault(query_id, i)) != i:
                rule = f"is that of {field}[{first}] again"
                raise errors.InvalidArgument.of_field(f"{field}[{i}].query_id", rule)
    for i, query_id in enumerate(given.metadata):
        if query_id not in known:
            rule = "is the id of no query of this request"
            raise errors.InvalidArgument.of_field(f"metadata[{i}].query_id", rule)
    measured = set(relevance.qrels) if isinstance(relevance, TrecRankings) else known
    for i, query_id in enumerate(() if human is None else human.query_ids):
        if query_id not in measured:
            rule = "is the id of none of the queries that are measured"
            raise errors.InvalidArgument.of_field(f"human_values.query_ids[{i}]", rule)


def _among(human: PerQueryValues | None, values: PerQueryValues) -> PerQueryValues | None:
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


def _for_values(options: MetricOptions) -> MetricOptions:
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


def _merged(whole: MetricTable, tables: Sequence[MetricTable]) -> MetricTable:
    """Return the table of the whole with what only the parts know.

    That are signatures, counts, and bounds; slices have bounds where parts were asked for these.
    """
    names = [field.name for field in fields(MetricCounts) if field.name != "verdicts"]
    totals = {name: sum(getattr(table.counts, name) for table in tables) for name in names}
    verdicts = [table.counts.verdicts for table in tables if table.counts.verdicts is not None]
    counts = MetricCounts(**totals, verdicts=sum(verdicts, VerdictCounts()) if verdicts else None)
    parts = [table.metrics for table in tables]
    unsettled = [table.counts.skipped_unsettled for table in tables]
    metrics = _with_bounds(whole.metrics, parts, parts[0], unsettled)
    of_slices: dict[tuple[str, str], list[Sequence[MetricResult]]] = {}
    for part in (part for table in tables for part in table.slices):
        of_slices.setdefault((part.key, part.value), []).append(part.metrics)
    slices = [
        replace(
            part,
            metrics=_with_bounds(part.metrics, of_slices.get((part.key, part.value), []), parts[0]),
        )
        for part in whole.slices
    ]
    return replace(whole, metrics=metrics, counts=counts, slices=slices)


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
