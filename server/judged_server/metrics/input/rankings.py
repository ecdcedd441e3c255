"""Ragged rankings of many queries, as flat arrays: the one input of every ranking metric.

Most measures are sums over relevant documents alone, and those are few. So nothing here walks
over all documents of all queries but the one scan that finds the relevant ones; the rest works
on `Hits`, one row for each relevant document.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np

from judged_server.domain import BoolArray, FloatArray, IntArray
from judged_server.errors import InvalidField


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
        """Return int64[n_queries]: the hits at rank k or better; all of them when k is None."""
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
        # astype: of no weights at all, bincount returns integers
        return np.bincount(query, weights, self.n_queries).astype(np.float64, copy=False)


@dataclass(frozen=True)
class Rankings:
    """What was retrieved for n queries, and what there was to find.

    offsets       int64[n + 1]; query q retrieved the documents offsets[q] to offsets[q + 1], best
                  rank first.
    gains         float64[offsets[-1]]: above 0 a hit, 0 judged not relevant, below 0 chosen to be
                  judged and never judged, NaN not in the qrels.
    ideal_offsets int64[n + 1]; query q has ideal_offsets[q + 1] - ideal_offsets[q] relevant items.
    ideal_gains   float64[ideal_offsets[-1]], finite and > 0, descending within a query.
    found_ranks   int64[ideal_offsets[-1]]: the best rank, from 1, that found each relevant item, 0
                  where none did. None when every hit finds exactly one item, which holds unless
                  the matching mode is ANY.
    judged_others int64[n]: how many documents were judged not relevant, retrieved or not. None when
                  those are the retrieved ones that are no hits.
    top_grade     float64[n]: the top of the scale of each query's gains, 0 where that is not known.

    Where `found_ranks` is None a query's hits, sorted by gain, must nowhere exceed its ideal
    gains, so that recall and ndcg stay in [0, 1]; whoever builds rankings sees to it.
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
        """int64[n]: how many documents each query retrieved."""
        return np.diff(self.offsets)

    @cached_property
    def n_relevant(self) -> IntArray:
        """int64[n]: how many relevant items each query has, found or not."""
        return np.diff(self.ideal_offsets)

    @cached_property
    def hits(self) -> Hits:
        """The retrieved documents that are relevant."""
        return hits_at(self.offsets, self.gains)

    @cached_property
    def ideal(self) -> Hits:
        """The best ranking there could be: every relevant item, the largest gain first."""
        return hits_at(self.ideal_offsets, self.ideal_gains)

    @cached_property
    def top_gain(self) -> FloatArray:
        """float64[n]: the largest gain each query could find, 0 where nothing is relevant."""
        top = np.zeros(self.n_queries)
        some = self.n_relevant > 0
        top[some] = self.ideal_gains[self.ideal_offsets[:-1][some]]
        return top

    @cached_property
    def n_nonrelevant(self) -> IntArray:
        """int64[n]: how many documents were judged not relevant, retrieved or not."""
        if self.judged_others is not None:
            return self.judged_others
        return self.n_retrieved - self.hits.count(None)

    @property
    def unjudged(self) -> BoolArray:
        """bool[documents]: the retrieved documents that are not in the qrels."""
        return np.isnan(self.gains)

    def found(self, k: int | None) -> IntArray:
        """Return int64[n]: how many relevant items ranks 1 to k found (None: any rank)."""
        if self.found_ranks is None:
            return self.hits.count(k)
        found = self.found_ranks > 0
        if k is not None:
            found &= self.found_ranks <= k
        return np.bincount(self.ideal.query[found], minlength=self.n_queries).astype(np.int64)

    def top(self, n: int) -> Rankings:
        """Return the rankings cut at rank n, 1 or more; what there is to find stays whole."""
        kept = positions_in_groups(self.n_retrieved) < n
        lengths = np.minimum(self.n_retrieved, n)
        return replace(self, offsets=offsets_of(lengths), gains=self.gains[kept])

    def condensed(self) -> Rankings:
        """Return the rankings without unjudged documents; what is below them moves up.

        Sakai (2007), "Alternatives to Bpref".
        """
        kept = ~self.unjudged
        lengths = np.bincount(self.query[kept], minlength=self.n_queries)
        return replace(self, offsets=offsets_of(lengths), gains=self.gains[kept])

    def relevant_from(self, level: float) -> Rankings:
        """Return the rankings in which gains below `level`, above 0, are judged not relevant.

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
        """Return rankings that bound every metric, whatever the unjudged documents are.

        Such a document has, where it is relevant, the largest grade of its topic, 1 if it has none.
        """
        n, unjudged = self.n_queries, self.unjudged
        query = self.query[unjudged]
        added = np.bincount(query, minlength=n)
        gain = np.where(self.top_gain > 0, self.top_gain, 1.0)
        low, high = self.gains.copy(), self.gains.copy()
        low[unjudged], high[unjudged] = 0.0, gain[query]
        # Where nothing is known to be relevant, one document has to be there for the rest to count.
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
    """Return int64[n + 1]: where each of n groups of these lengths begins, and where all end."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def owners(offsets: IntArray) -> IntArray:
    """Return int64[offsets[-1]]: the group of each entry, counted from 0."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def ratio(numerator: FloatArray | IntArray, denominator: FloatArray | IntArray) -> FloatArray:
    """Return numerator / denominator, 0 where the denominator is 0."""
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
    """Return the offsets of the chosen groups, and the flat places of their entries."""
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
    """Return the rankings of n queries from their gains by rank and the gains there are to find.

    Gains below 0 count as 0. `relevant_gains` need no order; they hold the gain of every relevant
    document, the retrieved ones included. Raises InvalidField at `field[i].gains[j]` or
    `field[i].relevant_gains[j]` for a number that is not finite or, in the latter, not above 0; at
    `field[i].relevant_gains` when a retrieved gain is not among them: recall and ndcg could then
    leave [0, 1].
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
            f"descending order, number {nth[first]} is {available[first]:g} but {gain[first]:g} "
            "was retrieved",
        )
    return rankings
