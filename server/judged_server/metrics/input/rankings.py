"""Ragged rankings of many queries, as flat arrays: the input of every ranking metric.

Most measures are sums over relevant documents only, which are few. So only one scan visits all
documents of all queries, to find the relevant ones; the rest works on `Hits`, with one row for each
relevant document.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import NamedTuple, Self

import numpy as np
from judged.values.agreement import IdFit
from judged.values.metrics import MetricCounts

from judged_server.domain import (
    BoolArray,
    Float32Array,
    FloatArray,
    IntArray,
    check_unique,
    need,
    need_length,
)
from judged_server.errors import InvalidField
from judged_server.metrics.input.id_fit import IdSample
from judged_server.scheduling.fairness import checkpoint


@dataclass(frozen=True)
class Hits:
    """Relevant documents at their ranks, ordered by query, then rank. All arrays have length h.

    `query` is int64 in 0..n_queries - 1; `rank` is int64 and counts from 1; `gain` is float64
    and above 0.
    """

    n_queries: int
    query: IntArray
    rank: IntArray
    gain: FloatArray

    @cached_property
    def ordinal(self) -> IntArray:
        """int64[h]: 1 for the first hit of its query, 2 for the second, and so on."""
        return positions_in_groups(np.bincount(self.query, minlength=self.n_queries)) + 1

    @cached_property
    def discount(self) -> FloatArray:
        """float64[h]: log2(rank + 1), what DCG divides by."""
        discount: FloatArray = np.log2(self.rank + 1.0)
        return discount

    def count(self, k: int | None) -> IntArray:
        """Return int64[n_queries]: the number of hits at rank k or better; of all if k is None."""
        query = self.query if k is None else self.query[self.rank <= k]
        return np.bincount(query, minlength=self.n_queries).astype(np.int64, copy=False)

    def total(self, weights: FloatArray, k: int | None) -> FloatArray:
        """Return float64[n_queries]: the sum of `weights` (float64[h]) over hits at rank <= k.

        Terms are added in rank order in double precision, as trec_eval adds them.
        """
        query = self.query
        if k is not None:
            near = self.rank <= k
            query, weights = query[near], weights[near]
        # astype: for empty weights, bincount returns integers
        return np.bincount(query, weights, self.n_queries).astype(np.float64, copy=False)


@dataclass(frozen=True)
class Rankings:
    """The documents retrieved for n queries, and the relevant items of each query.

    offsets       int64[n + 1]; query q retrieved the documents offsets[q] to offsets[q + 1], best
                  rank first.
    gains         float64[offsets[-1]]: above 0 a hit, 0 judged not relevant, below 0 chosen to be
                  judged but never judged, NaN not in the qrels, -inf another piece of a document.
    ideal_offsets int64[n + 1]; query q has ideal_offsets[q + 1] - ideal_offsets[q] relevant items.
    ideal_gains   float64[ideal_offsets[-1]], finite and > 0, descending within a query.
    found_ranks   int64[ideal_offsets[-1]]: the best rank, from 1, that found each relevant item, 0
                  if none did. None if every hit finds exactly one item, which is so unless the
                  matching mode is ANY.
    judged_others int64[n]: the number of documents judged not relevant, retrieved or not. None if
                  these are the retrieved documents that are not hits.
    top_grade     float64[n]: the top of the scale of each query's gains, 0 if unknown.

    If `found_ranks` is None, the builder of rankings must ensure that a query's hits, sorted by
    gain, nowhere exceed its ideal gains, so that recall and ndcg stay in [0, 1].
    """

    offsets: IntArray
    gains: FloatArray
    ideal_offsets: IntArray
    ideal_gains: FloatArray
    found_ranks: IntArray | None = None
    judged_others: IntArray | None = None
    top_grade: FloatArray | None = None

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return len(self.offsets) - 1

    @cached_property
    def query(self) -> IntArray:
        """int64[documents]: the query that retrieved each."""
        return owners(self.offsets)

    @cached_property
    def n_retrieved(self) -> IntArray:
        """int64[n]: the number of documents that each query retrieved."""
        return np.diff(self.offsets)

    @cached_property
    def n_relevant(self) -> IntArray:
        """int64[n]: the number of relevant items of each query, found or not."""
        return np.diff(self.ideal_offsets)

    @cached_property
    def hits(self) -> Hits:
        """The retrieved documents that are relevant."""
        return hits_at(self.offsets, self.gains)

    @cached_property
    def ideal(self) -> Hits:
        """The best possible ranking: every relevant item, the largest gain first."""
        return hits_at(self.ideal_offsets, self.ideal_gains)

    @cached_property
    def top_gain(self) -> FloatArray:
        """float64[n]: the largest gain that each query could find, 0 if nothing is relevant."""
        top = np.zeros(self.n_queries)
        some = self.n_relevant > 0
        top[some] = self.ideal_gains[self.ideal_offsets[:-1][some]]
        return top

    @cached_property
    def n_nonrelevant(self) -> IntArray:
        """int64[n]: the number of documents judged not relevant, retrieved or not."""
        if self.judged_others is not None:
            return self.judged_others
        return self.n_retrieved - self.hits.count(None)

    @property
    def unjudged(self) -> BoolArray:
        """bool[documents]: the retrieved documents that were never judged, in the qrels or not."""
        return ~(self.gains >= 0)

    def found(self, k: int | None) -> IntArray:
        """Return int64[n]: the number of relevant items found at ranks 1 to k (None: any rank)."""
        if self.found_ranks is None:
            return self.hits.count(k)
        found = self.found_ranks > 0
        if k is not None:
            found &= self.found_ranks <= k
        return np.bincount(self.ideal.query[found], minlength=self.n_queries).astype(np.int64)

    def top(self, n: int) -> Rankings:
        """Return the rankings cut at rank n, 1 or more; the relevant items stay the same."""
        kept = positions_in_groups(self.n_retrieved) < n
        lengths = np.minimum(self.n_retrieved, n)
        return replace(self, offsets=offsets_of(lengths), gains=self.gains[kept])

    def condensed(self) -> Rankings:
        """Return the rankings without unjudged documents; documents below them move up.

        Sakai (2007), "Alternatives to Bpref".
        """
        kept = ~self.unjudged
        lengths = np.bincount(self.query[kept], minlength=self.n_queries)
        return replace(self, offsets=offsets_of(lengths), gains=self.gains[kept])

    def relevant_from(self, level: float) -> Rankings:
        """Return the rankings with gains above 0 but below `level` as judged not relevant.

        For rankings in which every hit finds one item: `found_ranks` must be None.
        """
        kept, query, n = self.ideal_gains >= level, self.ideal.query, self.n_queries
        return replace(
            self,
            gains=np.where((self.gains > 0) & (self.gains < level), 0.0, self.gains),
            ideal_offsets=offsets_of(np.bincount(query[kept], minlength=n)),
            ideal_gains=self.ideal_gains[kept],
            judged_others=self.n_nonrelevant + np.bincount(query[~kept], minlength=n),
        )

    def take(self, rows: IntArray) -> Rankings:
        """Return the rankings of the queries `rows` (int64), in that order."""
        offsets, kept = take_groups(self.offsets, rows)
        ideal_offsets, ideal_kept = take_groups(self.ideal_offsets, rows)
        return Rankings(
            offsets,
            self.gains[kept],
            ideal_offsets,
            self.ideal_gains[ideal_kept],
            None if self.found_ranks is None else self.found_ranks[ideal_kept],
            None if self.judged_others is None else self.judged_others[rows],
            None if self.top_grade is None else self.top_grade[rows],
        )

    def unjudged_extremes(self) -> tuple[Rankings, ...]:
        """Return rankings that bound every metric, for any relevance of unjudged documents.

        A relevant one has the largest grade of its topic, or 1 if the topic has no grade above 0.
        """
        n, unjudged = self.n_queries, self.unjudged
        query = self.query[unjudged]
        added = np.bincount(query, minlength=n)
        gain = np.where(self.top_gain > 0, self.top_gain, 1.0)
        low, high = self.gains.copy(), self.gains.copy()
        low[unjudged], high[unjudged] = 0.0, gain[query]
        # Topics without a known relevant document get one item to find, else every value is 0.
        one = np.flatnonzero((added > 0) & (self.n_relevant == 0))
        known, more, least = (
            ideal_of(
                np.concatenate([self.ideal.query, some]),
                np.concatenate([self.ideal_gains, gain[some]]),
                n,
            )
            for some in (one[:0], query, one)
        )
        others, all_others = self.n_nonrelevant, self.n_nonrelevant + added
        return (
            Rankings(self.offsets, low, *known, judged_others=all_others),
            Rankings(self.offsets, high, *more, judged_others=others),
            Rankings(self.offsets, low, *more, judged_others=all_others),
            Rankings(self.offsets, high, *least, judged_others=others),
        )


def offsets_of(lengths: IntArray | BoolArray) -> IntArray:
    """Return int64[n + 1]: the begin of each of n groups of these lengths, and the end of all."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def owners(offsets: IntArray) -> IntArray:
    """Return int64[offsets[-1]]: the group of each entry, counted from 0."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def ratio(numerator: FloatArray | IntArray, denominator: FloatArray | IntArray) -> FloatArray:
    """Return numerator / denominator, or 0 where the denominator is 0."""
    zeros = np.zeros(len(numerator))
    return np.divide(numerator, denominator, out=zeros, where=denominator != 0)


def flatten(ragged: Sequence[Collection[float]]) -> tuple[IntArray, FloatArray]:
    """Return int64[n + 1] offsets and float64 values of n sequences put end to end."""
    offsets = offsets_of(np.array([len(each) for each in ragged], np.int64))
    return offsets, np.fromiter(chain.from_iterable(ragged), np.float64, offsets[-1])


def ideal_of(query: IntArray, gains: FloatArray, n: int) -> tuple[IntArray, FloatArray]:
    """Return int64[n + 1] offsets, and the gains (above 0) of n queries, each's largest first."""
    offsets = offsets_of(np.bincount(query, minlength=n))
    return offsets, gains[np.lexsort((-gains, query))]


def positions_in_groups(lengths: IntArray) -> IntArray:
    """Return int64[sum(lengths)]: 0, 1, 2, ... within each group."""
    starts = offsets_of(lengths)
    return np.arange(starts[-1], dtype=np.int64) - np.repeat(starts[:-1], lengths)


def hits_at(offsets: IntArray, gains: FloatArray) -> Hits:
    """Return the entries of ragged `gains` that are above 0, with their query and rank."""
    places, n = np.flatnonzero(gains > 0), len(offsets) - 1
    query = owners(np.searchsorted(places, offsets))
    return Hits(n, query, places - offsets[query] + 1, gains[places])


def take_groups(offsets: IntArray, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Return the offsets of the chosen groups, and the flat indices of their entries."""
    lengths = np.diff(offsets)[rows]
    return offsets_of(lengths), np.repeat(offsets[rows], lengths) + positions_in_groups(lengths)


def refuse_first(bad: BoolArray, offsets: IntArray, field: str, name: str, rule: str) -> None:
    """Raise InvalidField at the first place of a ragged column where `bad` is set."""
    if bad.any():
        place = int(bad.argmax())
        query = int(np.searchsorted(offsets, place, side="right")) - 1
        raise InvalidField(f"{field}[{query}].{name}[{place - int(offsets[query])}]", rule)


def rank_gains(
    gains: Sequence[Sequence[float]], relevant_gains: Sequence[Sequence[float]], field: str
) -> Rankings:
    """Return the rankings of n queries from their gains by rank and all gains to find.

    Gains below 0 count as 0. `relevant_gains` have the gain of every relevant document in any
    order, those retrieved included. Raises InvalidField at `field[i].gains[j]` or
    `field[i].relevant_gains[j]` for a number that is not finite or, in the latter, not above 0; and
    at `field[i].relevant_gains` if a retrieved gain is not among them, since recall and ndcg could
    then leave [0, 1].
    """
    offsets, flat = flatten(gains)
    ideal_offsets, ideal = flatten(relevant_gains)
    refuse_first(~np.isfinite(flat), offsets, field, "gains", "must be finite")
    bad = ~((ideal > 0) & np.isfinite(ideal))
    refuse_first(bad, ideal_offsets, field, "relevant_gains", "must be finite and above 0")
    ideals = ideal_of(owners(ideal_offsets), ideal, len(gains))
    rankings = Rankings(offsets, np.maximum(flat, 0.0), *ideals)
    hits, nth = rankings.hits, rankings.hits.ordinal
    order = np.lexsort((-hits.gain, hits.query))
    query, gain = hits.query[order], hits.gain[order]
    padded = np.append(rankings.ideal_gains, 0.0)
    places = np.minimum(ideal_offsets[query] + nth - 1, len(ideal))
    available = np.where(nth <= rankings.n_relevant[query], padded[places], 0.0)
    over = gain > available
    if over.any():
        first = int(over.argmax())
        raise InvalidField(
            f"{field}[{query[first]}].relevant_gains",
            "must hold the gain of every relevant document, those retrieved included; in "
            f"descending order, number {nth[first]} is {available[first]} but {gain[first]} "
            "was retrieved",
        )
    return rankings


LARGEST_SINGLE = float(np.finfo(np.float32).max)

_LINE_FEED = ord("\n")


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics with their documents: topic i owns the entries offsets[i] to offsets[i + 1].

    `names(i)` are the ids of its documents; `values` is float64: grades or scores. `field` is the
    path of the topics in the request, and `column` the name of the values there.
    """

    query_ids: list[str]
    offsets: IntArray
    names: Callable[[int], list[str]]
    values: FloatArray
    field: str
    column: str

    @classmethod
    def of_rows(
        cls,
        rows: Sequence[tuple[str, Collection[str], Collection[float]]],
        field: str,
        column: str,
    ) -> Self:
        """Return topics from rows: the id of each, its documents, their values.

        Scores may be left out: the given order is then the ranking. Raises InvalidField at
        `field[i].column` for columns of different lengths.
        """
        values: list[Collection[float]] = []
        for i, (_, names, numbers) in enumerate(rows):
            n, ranked = len(names), column == "scores" and not len(numbers)
            values.append(range(0, -n, -1) if ranked else numbers)
            need_length(values[-1], n, f"{field}[{i}].{column}", "documents")
        offsets, flat = flatten(values)
        query_ids = [name for name, _, _ in rows]
        return cls(query_ids, offsets, lambda i: list(rows[i][1]), flat, field, column)

    @classmethod
    def of_columns(
        cls,
        query_ids: list[str],
        counts: IntArray,
        document_ids: str,
        values: FloatArray | None,
        paths: tuple[str, str],
        column: str,
    ) -> Self:
        """Return topics from columns.

        `counts` is int64[topics], the documents of each; `document_ids` has a line feed between two
        ids; `values` is float64, one per document, or None: then they descend from 0 in the given
        order. `paths` are the paths of the topics and of the columns. Raises InvalidField below the
        latter for columns that do not fit together.
        """
        field, path = paths
        offsets, n = offsets_of(counts), int(counts.sum())
        text = f"{document_ids}\n".encode() if n or document_ids else b""
        line_feeds = np.flatnonzero(np.frombuffer(text, np.uint8) == _LINE_FEED)
        rule = f"must have the {n} ids that n_documents add up to, a line feed between two"
        need(len(line_feeds) == n, f"{path}.document_ids", rule)
        if values is None:
            values = np.subtract(0.0, positions_in_groups(counts))
        need_length(values, n, f"{path}.values", "documents")
        bounds = np.append(0, line_feeds + 1)[offsets].tolist()

        def names(topic: int) -> list[str]:
            return text[bounds[topic] : bounds[topic + 1]].decode().split("\n")[:-1]

        return cls(query_ids, offsets, names, values, field, column)

    def __len__(self) -> int:
        """Return the number of topics."""
        return len(self.query_ids)

    @property
    def counts(self) -> IntArray:
        """int64[topics]: the number of documents of each."""
        return np.diff(self.offsets)

    def check(self) -> None:
        """Raise InvalidField for a repeated query id, or a value not finite in single precision."""
        check_unique(self.query_ids, f"{self.field}[{{}}].query_id")
        beyond = ~(np.abs(self.values) <= LARGEST_SINGLE)
        rule = "must be a finite number within single precision, +-3.4e38"
        refuse_first(beyond, self.offsets, self.field, self.column, rule)

    def check_distinct(self, topic: int) -> None:
        """Raise InvalidField for a document that the topic repeats."""
        check_unique(self.names(topic), f"{self.field}[{topic}].document_ids[{{}}]")


@dataclass(frozen=True)
class Qrels:
    """Judgements, read and checked once for all runs that are ranked under them.

    `row_of` maps each query id to the index of its topic, in the order of topics.
    """

    topics: Topics
    row_of: Mapping[str, int]

    @classmethod
    def of(cls, topics: Topics) -> Self:
        """Return the qrels of topics.

        Raises InvalidField for a repeated topic, at `field[i].query_id`, a grade that is not finite
        in single precision, at `field[i].grades[j]`, and a document that is judged twice, at
        `field[i].document_ids[j]`.
        """
        topics.check()
        for topic in range(len(topics)):
            checkpoint()
            names = topics.names(topic)
            if len(set(names)) < len(names):
                topics.check_distinct(topic)
        return cls(topics, {query_id: row for row, query_id in enumerate(topics.query_ids)})

    def __len__(self) -> int:
        """Return the number of topics."""
        return len(self.row_of)

    @cached_property
    def topic_of(self) -> IntArray:
        """int64[documents]: the topic of each judged document."""
        return owners(self.topics.offsets)

    @cached_property
    def ideal(self) -> tuple[IntArray, FloatArray]:
        """int64[topics + 1] offsets, and float64: the grades above 0 of each topic, descending."""
        relevant = self.topics.values > 0
        return ideal_of(self.topic_of[relevant], self.topics.values[relevant], len(self))

    @cached_property
    def n_nonrelevant(self) -> IntArray:
        """int64[topics]: the number of documents judged not relevant."""
        return np.bincount(self.topic_of[self.topics.values == 0], minlength=len(self))


class RankedRun(NamedTuple):
    """A run joined with qrels.

    `rankings` has one query for each entry of `rows` (int64, ascending): the indices of the topics
    of the qrels that are evaluated. `id_fit` says how the ids of both fit.
    """

    rankings: Rankings
    rows: IntArray
    counts: MetricCounts
    id_fit: IdFit


def rank_run(
    qrels: Qrels, run: Topics, *, complete: bool = False, strict_duplicates: bool = False
) -> RankedRun:
    """Return the rankings of a run's topics, in the order of the qrels.

    A topic of the qrels that the run lacks is skipped and counted, or retrieved nothing if
    `complete`; a topic without qrels is skipped and counted. If a document repeats in a topic of
    the run, the first is kept and the others are counted.

    Raises InvalidField for a repeated topic, at `field[i].query_id`; a document retrieved twice if
    `strict_duplicates`, at `field[i].document_ids[j]`; and a score that is not finite in single
    precision, at `field[i].scores[j]`.
    """
    run.check()
    judged, n, seen = qrels.topics, len(qrels), IdSample()
    # 0 - score turns -0 and +0 into the same value.
    losses: Float32Array = np.float32(0) - run.values.astype(np.float32)
    breaks = offsets_of(np.append(losses[1:] <= losses[:-1], False))
    lasts = np.maximum(run.offsets[1:] - 1, run.offsets[:-1])
    in_order = (breaks[lasts] == breaks[run.offsets[:-1]]).tolist()
    begins, judged_begins = run.offsets.tolist(), judged.offsets.tolist()
    counts, ranks, duplicates = [0] * n, np.full(len(judged.values), -1), 0
    for topic, query_id in enumerate(run.query_ids):
        checkpoint()
        names = run.names(topic)
        kept = dict(zip(reversed(names), range(len(names) - 1, -1, -1), strict=True))
        if len(kept) < len(names):
            duplicates += len(names) - len(kept)
            if strict_duplicates:
                run.check_distinct(topic)
        row = qrels.row_of.get(query_id)
        if row is None:
            continue
        counts[row], wanted = len(kept), judged.names(row)
        if len(kept) < len(names) or not in_order[topic]:
            kept = _ranked(kept, losses[begins[topic] :])
        found = [kept.get(name, -1) for name in wanted]
        ranks[judged_begins[row] : judged_begins[row + 1]] = found
        if names and -1 in found:
            seen.look(wanted, names)
    known = ranks >= 0
    n_retrieved = np.array(counts, np.int64)
    offsets = offsets_of(n_retrieved)
    gains = np.full(offsets[-1], np.nan)
    gains[offsets[qrels.topic_of[known]] + ranks[known]] = judged.values[known]
    rankings = Rankings(offsets, gains, *qrels.ideal, judged_others=qrels.n_nonrelevant)
    met = {qrels.row_of[query_id] for query_id in run.query_ids if query_id in qrels.row_of}
    rows = np.arange(n) if complete else np.array(sorted(met), np.int64)
    skipped = len(run) - len(met)
    counted = MetricCounts(
        queries=n + skipped,
        evaluated=len(rows),
        skipped_missing=n - len(rows),
        skipped_unjudged=skipped,
        duplicates=duplicates,
    )
    n_expected = int(judged.counts[n_retrieved > 0].sum())
    id_fit = seen.fit(n_expected, int(known.sum()), len(gains))
    return RankedRun(rankings.take(rows), rows, counted, id_fit)


def _ranked(places: Mapping[str, int], losses: Float32Array) -> dict[str, int]:
    """Return the ranks from 0 of documents whose losses are at `places`.

    Ties are ordered by id, the larger first, as by strcmp: UTF-8 sorts as code points do.
    """
    names = sorted(places, reverse=True)
    order = np.argsort(losses[[places[name] for name in names]], kind="stable")
    return {names[place]: rank for rank, place in enumerate(order.tolist())}
