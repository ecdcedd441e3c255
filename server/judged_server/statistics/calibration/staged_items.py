"""Labelled items with the scores of several judges, of which a cascade is to be made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from judged_server.domain import BoolArray, FloatArray, IntArray
from judged_server.errors import InvalidField, LimitExceeded
from judged_server.statistics.calibration.items import number_clusters
from judged_server.statistics.calibration.reliability import Platt

MAX_STAGES = 4
MAX_LABELS = 20_000


@dataclass(frozen=True, slots=True)
class ScoredStage:
    """A judge's scores float64[n] of all items, NaN where it has none, and what one item costs.

    `shipped` is the calibration that comes with the judge, `flags` as `shift` counts them.
    """

    name: str
    scores: FloatArray
    cost: float
    shipped: Platt | None = None
    flags: FloatArray | None = None


@dataclass(frozen=True, slots=True)
class StagedItems:
    """Labels bool[n] of items, and the scores of each judge; `clusters` as of ScoredItems.

    `lengths` float64[n] are those of the retrieved texts, None where they are not known.
    """

    stages: tuple[ScoredStage, ...]
    labels: BoolArray
    clusters: IntArray
    lengths: FloatArray | None = None

    @classmethod
    def build(
        cls,
        stages: Sequence[ScoredStage],
        labels: Sequence[bool],
        clusters: Sequence[int],
        lengths: Sequence[int] = (),
    ) -> StagedItems:
        """Return the items.

        Raises InvalidField for no label, a judge without one score an item, a score outside [0, 1],
        a price that is none, and columns of other lengths; LimitExceeded above MAX_LABELS.
        """
        n = len(labels)
        if n == 0:
            raise InvalidField("labels", "must hold at least one label")
        if n > MAX_LABELS:
            raise LimitExceeded("labels", "labels", MAX_LABELS, n)
        if not 1 <= len(stages) <= MAX_STAGES:
            raise InvalidField("stages", f"{len(stages)} judges; give 1 to {MAX_STAGES}")
        if clusters and len(clusters) != n:
            raise InvalidField("clusters", f"has {len(clusters)} entries for {n} labels")
        if lengths and len(lengths) != n:
            raise InvalidField("lengths", f"has {len(lengths)} entries for {n} labels")
        for place, stage in enumerate(stages):
            field_ = f"stages[{place}]"
            if len(stage.scores) != n:
                raise InvalidField(
                    f"{field_}.scores", f"has {len(stage.scores)} entries for {n} labels"
                )
            wrong = np.flatnonzero((stage.scores < 0) | (stage.scores > 1))
            if len(wrong):
                raise InvalidField(f"{field_}.scores[{wrong[0]}]", "must lie in 0 to 1")
            if not (math.isfinite(stage.cost) and stage.cost >= 0):
                raise InvalidField(f"{field_}.cost", "must be a number, 0 or more")
        groups = number_clusters(clusters) if clusters else np.arange(n)
        known = np.array(lengths, np.float64) if lengths else None
        return cls(tuple(stages), np.fromiter(labels, np.bool_, n), groups, known)
