"""The items of a calibration: scores of all, labels of some.

What is made of them is up to `calibrate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from judged_server.domain import BoolArray, FloatArray, IntArray
from judged_server.errors import InvalidField, LimitExceeded
from judged_server.statistics.agreement.quality import LabelledScores

MAX_ITEMS = 1_000_000


@dataclass(frozen=True, slots=True)
class ScoredItems:
    """Scores float64[n] in [0, 1]; the places int64[m], ascending, and labels bool[m] of some.

    `clusters` is int64[n] or None when every item stands alone, `inclusion` float64[m] or None when
    all labels were drawn with the same probability.
    """

    scores: FloatArray
    labelled: IntArray
    labels: BoolArray
    clusters: IntArray | None = None
    inclusion: FloatArray | None = None

    @classmethod
    def build(
        cls,
        scores: Sequence[float],
        labelled: Sequence[int],
        labels: Sequence[bool],
        clusters: Sequence[int] = (),
    ) -> ScoredItems:
        """Return the items.

        Raises InvalidField for no score or none with a label, a score outside [0, 1], places that
        do not ascend or do not exist, and columns of different lengths; LimitExceeded above
        MAX_ITEMS.
        """
        n = len(scores)
        if n == 0:
            raise InvalidField("scores", "must hold at least one score")
        if n > MAX_ITEMS:
            raise LimitExceeded("scores", "items", MAX_ITEMS, n)
        values = np.fromiter(scores, np.float64, n)
        wrong = np.flatnonzero(~((values >= 0) & (values <= 1)))  # NaN is in no range
        if len(wrong):
            raise InvalidField(f"scores[{wrong[0]}]", "must lie in 0 to 1")
        if len(labels) != len(labelled):
            rule = f"has {len(labels)} entries for {len(labelled)} entries of labelled"
            raise InvalidField("labels", rule)
        if len(labelled) == 0:
            raise InvalidField("labelled", "must name at least one item that has a label")
        if clusters and len(clusters) != n:
            raise InvalidField("clusters", f"has {len(clusters)} entries for {n} scores")
        return cls(
            values,
            _places(labelled, n),
            np.fromiter(labels, np.bool_, len(labels)),
            number_clusters(clusters) if clusters else None,
        )

    @property
    def with_label(self) -> LabelledScores:
        """The items that have a label."""
        clusters = None if self.clusters is None else self.clusters[self.labelled]
        return LabelledScores(self.scores[self.labelled], self.labels, clusters)


def number_clusters(clusters: Sequence[int]) -> IntArray:
    """Return int64[n]: clusters, which callers number as they like, by numbers from 0."""
    names = np.fromiter(clusters, np.uint64, len(clusters))
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


def _places(labelled: Sequence[int], n: int) -> IntArray:
    places = np.fromiter(labelled, np.uint64, len(labelled))
    beyond = np.flatnonzero(places >= n)
    if len(beyond):
        raise InvalidField(f"labelled[{beyond[0]}]", f"must be below {n}, the number of scores")
    falls = np.flatnonzero(places[1:] <= places[:-1])
    if len(falls):
        raise InvalidField(
            f"labelled[{falls[0] + 1}]", "must be above the entry before it; sort, each once"
        )
    return places.astype(np.int64)
