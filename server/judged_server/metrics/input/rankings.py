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
from struct import pack

import numpy as np

from judged_server.domain import BoolArray, FloatArray, IntArray
from judged_server.errors import InvalidField


def distinct_results(
    document_ids: Sequence[str],
    texts: Sequence[object] | None,
    *,
    field: str,
    strict: bool,
    seen: dict[object, int] | None = None,
    first: int = 0,
) -> list[int] | None:
    """Return the places to keep of one query's results, or None when nothing repeats.

    `texts` is parallel to `document_ids`: texts, or what stands for them; None means that the id
    alone tells documents apart. Results may come in parts: `seen`, which this adds to, has the
    places of earlier ones, and `first` is the place of this part's first.
    With `strict` the first duplicate, at place j, raises InvalidField at `field[j]`.
    """
    keys: Sequence[object]
    keys = document_ids if texts is None else list(zip(document_ids, texts, strict=True))
    places = {} if seen is None else seen
    kept = []
    for place, key in enumerate(keys, first):
        earlier = places.setdefault(key, place)
        if earlier == place:
            kept.append(place - first)
        elif strict:
            same = "id" if texts is None else "id and text"
            raise InvalidField(f"{field}[{place}]", f"has the {same} of entry {earlier}")
    return None if len(kept) == len(document_ids) else kept


_SMALL = 1 << 31
"""Whole numbers below this share 64 bits with the number of a group."""


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


@dataclass(frozen=True, slots=True)
class Pool:
    """What judges looked at, where not everything retrieved was judged.

    judged         bool[documents]: the retrieved documents that somebody judged relevant or not.
    unsampled      bool[documents]: those that were to be judged and never were; never `judged`.
    n_nonrelevant  int64[n]: how many documents were judged not relevant, retrieved or not.
    """

    judged: BoolArray
    unsampled: BoolArray
    n_nonrelevant: IntArray


@dataclass(frozen=True)
class Rankings:
    """What was retrieved for n queries, and what there was to find.

    offsets       int64[n + 1]; query q retrieved the documents offsets[q] to offsets[q + 1], best
                  rank first.
    gains         float64[offsets[-1]], finite and >= 0; above 0 is a hit.
    ideal_offsets int64[n + 1]; query q has ideal_offsets[q + 1] - ideal_offsets[q] relevant items.
    ideal_gains   float64[ideal_offsets[-1]], finite and > 0, descending within a query.
    found_ranks   int64[ideal_offsets[-1]]: the best rank, from 1, that found each relevant item, 0
                  where none did. None when every hit finds exactly one item, which holds unless
                  the matching mode is ANY.
    known_pool    which documents were judged; None when all of those retrieved were, and no others
                  but the relevant ones.
    top_grade     float64[n]: the top of the scale of each query's gains, 0 where that is not known.

    Where `found_ranks` is None a query's hits, sorted by gain, must nowhere exceed its ideal
    gains, so that recall and ndcg stay in [0, 1]; whoever builds rankings sees to it.
    """

    offsets: IntArray
    gains: FloatArray
    ideal_offsets: IntArray
    ideal_gains: FloatArray
    found_ranks: IntArray | None = None
    known_pool: Pool | None = None
    top_grade: FloatArray | None = None

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return len(self.offsets) - 1

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
    def pool(self) -> Pool:
        """Which documents were judged."""
        if self.known_pool is not None:
            return self.known_pool
        everything = np.ones(len(self.gains), np.bool_)
        return Pool(everything, ~everything, self.n_retrieved - self.hits.count(None))

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
        lengths = np.minimum(self.n_retrieved, n)
        kept = np.repeat(self.offsets[:-1], lengths) + positions_in_groups(lengths)
        found, pool = self.found_ranks, self.known_pool
        if found is not None:
            found = np.where(found > n, 0, found)
        if pool is not None:
            pool = Pool(pool.judged[kept], pool.unsampled[kept], pool.n_nonrelevant)
        return Rankings(
            offsets_of(lengths),
            self.gains[kept],
            self.ideal_offsets,
            self.ideal_gains,
            found,
            pool,
            self.top_grade,
        )

    def relevant_from(self, level: float) -> Rankings:
        """Return the rankings in which gains below `level`, above 0, are judged not relevant.

        For rankings in which every hit finds one item: `found_ranks` must be None.
        """
        kept = self.ideal_gains >= level
        query = self.ideal.query
        pool, n = self.pool, self.n_queries
        return Rankings(
            self.offsets,
            np.where(self.gains >= level, self.gains, 0.0),
            offsets_of(np.bincount(query[kept], minlength=n)),
            self.ideal_gains[kept],
            known_pool=replace(
                pool, n_nonrelevant=pool.n_nonrelevant + np.bincount(query[~kept], minlength=n)
            ),
            top_grade=self.top_grade,
        )

    def take(self, rows: IntArray) -> Rankings:
        """Return the rankings of the queries `rows` (int64), in that order."""
        offsets, kept = take_groups(self.offsets, rows)
        ideal_offsets, ideal_kept = take_groups(self.ideal_offsets, rows)
        found = None if self.found_ranks is None else self.found_ranks[ideal_kept]
        pool = self.known_pool
        if pool is not None:
            pool = Pool(pool.judged[kept], pool.unsampled[kept], pool.n_nonrelevant[rows])
        return Rankings(
            offsets,
            self.gains[kept],
            ideal_offsets,
            self.ideal_gains[ideal_kept],
            found,
            pool,
            None if self.top_grade is None else self.top_grade[rows],
        )


def offsets_of(lengths: IntArray) -> IntArray:
    """Return int64[n + 1]: where each of n groups of these lengths begins, and where all end."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def ratio(numerator: FloatArray | IntArray, denominator: FloatArray | IntArray) -> FloatArray:
    """Return numerator / denominator, 0 where the denominator is 0."""
    zeros = np.zeros(len(numerator))
    return np.divide(numerator, denominator, out=zeros, where=denominator != 0)


def flatten(ragged: Sequence[Collection[float]]) -> tuple[IntArray, FloatArray]:
    """Return int64[n + 1] offsets and float64 values of n sequences put end to end."""
    lengths = np.fromiter(map(len, ragged), np.int64, len(ragged))
    # Half the time of fromiter.
    flat = pack(f"{int(lengths.sum())}d", *chain.from_iterable(ragged))
    return offsets_of(lengths), np.frombuffer(flat)


def descending(offsets: IntArray, values: FloatArray) -> FloatArray:
    """Return ragged `values` sorted within each group, the largest first."""
    group = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    if values.min(initial=0) > -_SMALL and values.max(initial=0) < _SMALL:
        # Grades mostly are whole numbers, which one sort of integers does in a tenth of the time.
        whole = values.astype(np.int64)
        if np.array_equal(whole, values):
            group <<= 32
            keys = group - whole
            keys.sort()
            return (group - keys).astype(np.float64)
    return values[np.lexsort((-values, group))]


def positions_in_groups(lengths: IntArray) -> IntArray:
    """Return int64[sum(lengths)]: 0, 1, 2, ... within each group."""
    starts = offsets_of(lengths)
    return np.arange(starts[-1], dtype=np.int64) - np.repeat(starts[:-1], lengths)


def hits_at(offsets: IntArray, gains: FloatArray) -> Hits:
    """Return the entries of ragged `gains` that are above 0, with their query and rank."""
    places, n = np.flatnonzero(gains > 0), len(offsets) - 1
    query = np.repeat(np.arange(n), np.diff(np.searchsorted(places, offsets)))
    return Hits(n, query, places - offsets[query] + 1, gains[places])


def rankings_of_hits(lengths: IntArray, hit: BoolArray, n_relevant: IntArray) -> Rankings:
    """Return binary rankings: `hit` is bool[sum(lengths)], every relevant item has gain 1."""
    return Rankings(
        offsets=offsets_of(lengths),
        gains=hit.astype(np.float64),
        ideal_offsets=offsets_of(n_relevant),
        ideal_gains=np.ones(int(n_relevant.sum())),
    )


def take_groups(offsets: IntArray, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Return the offsets of the chosen groups, and the flat places of their entries."""
    lengths = np.diff(offsets)[rows]
    return offsets_of(lengths), np.repeat(offsets[rows], lengths) + positions_in_groups(lengths)
