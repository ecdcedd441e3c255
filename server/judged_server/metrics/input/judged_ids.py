"""Groups that are matched by document id: their judged documents, and which were retrieved.

Their rankings are those that trec_eval makes from qrels with the same grades, except that the given
order is the ranking.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from judged.values.agreement import IdFit

from judged_server.domain import BoolArray, FloatArray, IntArray
from judged_server.metrics.input.id_fit import IdSample
from judged_server.metrics.input.rankings import (
    Rankings,
    flatten,
    ideal_of,
    offsets_of,
    owners,
    take_groups,
)


@dataclass(frozen=True, slots=True)
class JudgedIds:
    """The groups, of n, that are matched by document id, with their judged documents.

    graded   bool[n]: groups with graded documents; in the others every document named is relevant.
    offsets  int64[n + 1]; group g has the judged documents offsets[g] to offsets[g + 1]: none if it
             is not matched by id.
    grades   float64[offsets[-1]]: above 0 relevant, 0 not relevant, below 0 never judged.
    places   int64[sum(n_retrieved)]: the index of each result among its group's judged documents;
             -1 if it is not one of them.
    """

    graded: BoolArray
    offsets: IntArray
    grades: FloatArray
    places: IntArray

    @classmethod
    def of(cls, groups: Sequence[tuple[Sequence[str], Sequence[str], Mapping[str, int]]]) -> Self:
        """Return groups from the ids of their results and relevant documents, and their grades.

        A group that is not matched by id has neither of the latter two.
        """
        grades: list[Sequence[int]] = []
        places: list[Sequence[int]] = []
        for found, relevant, graded in groups:
            names = list(graded or dict.fromkeys(relevant))
            grades.append([graded.get(name, 1) for name in names])
            at = dict(zip(names, range(len(names)), strict=True))
            places.append([at.get(name, -1) for name in found] if at else [-1] * len(found))
        offsets, flat = flatten(grades)
        has_grades = np.array([bool(graded) for _, _, graded in groups], np.bool_)
        return cls(has_grades, offsets, flat, flatten(places)[1].astype(np.int64))

    @classmethod
    def none(cls, n_groups: int, n_retrieved: int) -> Self:
        """Return groups that are not matched by id."""
        return cls(
            np.zeros(n_groups, np.bool_),
            np.zeros(n_groups + 1, np.int64),
            np.zeros(0),
            np.full(n_retrieved, -1),
        )

    @classmethod
    def join(cls, parts: Sequence[Self], begins: IntArray) -> Self:
        """Return the groups of all parts; `begins` are those that don't continue another one."""
        offsets = offsets_of(np.concatenate([np.diff(part.offsets) for part in parts]))
        kept_offsets, kept = take_groups(offsets, begins)
        return cls(
            np.concatenate([part.graded for part in parts])[begins],
            kept_offsets,
            np.concatenate([part.grades for part in parts])[kept],
            np.concatenate([part.places for part in parts]),
        )

    @property
    def by_id(self) -> BoolArray:
        """bool[n]: the groups that are matched by document id."""
        return np.diff(self.offsets) > 0

    def fit(self, n_retrieved: IntArray, seen: IdSample) -> IdFit:
        """Return how ids fit; `n_retrieved` is int64[n], and `seen` has examined the groups."""
        counted = self.by_id & (n_retrieved > 0)
        known = self.places >= 0
        query = owners(offsets_of(n_retrieved))[known]
        found = np.unique(self.offsets[query] + self.places[known])
        expected = int(np.diff(self.offsets)[counted].sum())
        return seen.fit(expected, len(found), int(n_retrieved[counted].sum()))

    def n_unjudged(self, rankings: Rankings, rows: IntArray) -> int:
        """Return the number of results that nobody judged in graded groups among `rows`."""
        query, known = rankings.query, self.places >= 0
        unjudged = ~known
        unjudged[known] = self.grades[(self.offsets[query] + self.places)[known]] < 0
        return int(np.count_nonzero(unjudged & np.isin(query, rows[self.graded[rows]])))

    def added_to(self, rankings: Rankings, *, weighed: bool, full: float = 1.0) -> Rankings:
        """Return rankings, in which these groups have no hits yet, with their hits by id.

        If `weighed`, gains are the grades, or `full` for groups without grades, and results that
        were not judged are marked; else gains are 1. A document that is found again, in another
        piece, is another hit only if results are not paired.
        """
        n = rankings.n_queries
        of_grade, query = owners(self.offsets), rankings.query
        gains = (self.grades > 0).astype(np.float64)
        if weighed:
            gains = np.where(self.graded[of_grade], self.grades, gains * full)
        known = np.flatnonzero(self.places >= 0)
        at = self.offsets[query[known]] + self.places[known]
        _, first = np.unique(at, return_index=True)
        paired = rankings.found_ranks is None
        hits = first if paired else slice(None)
        found = rankings.gains.copy()
        if weighed:
            found[self.by_id[query]] = np.nan
            found[known] = -np.inf  # for documents that are found again
        found[known[hits]] = gains[at[hits]]
        relevant = gains > 0
        owner = np.concatenate([rankings.ideal.query, of_grade[relevant]])
        ideal = ideal_of(owner, np.concatenate([rankings.ideal_gains, gains[relevant]]), n)
        found_ranks = None
        if rankings.found_ranks is not None:
            ranks = np.zeros(len(gains), np.int64)
            ranks[at[first]] = known[first] - rankings.offsets[query[known[first]]] + 1
            found_ranks = np.concatenate([rankings.found_ranks, ranks[relevant]])
            found_ranks = found_ranks[np.argsort(owner, kind="stable")]
        top, others = rankings.top_grade, None
        if weighed:
            others = np.bincount(of_grade[self.grades == 0], minlength=n)
            others = np.where(self.by_id, others, rankings.n_nonrelevant)
        top = None if top is None else np.where(self.graded, 0.0, top)
        return Rankings(rankings.offsets, found, *ideal, found_ranks, others, top)
