"""A run beside the baseline, on the queries that both have.

What is made of the differences is up to `compare` and `corrected_tests`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from judged_server.domain import TIE_TOLERANCE, FloatArray, IntArray
from judged_server.errors import InvalidField

FEWEST = 2
"""Queries without which nothing has a spread."""


@dataclass(frozen=True, slots=True)
class RunValues:
    """One run: `values` is float64[metrics, queries], `query_ids` names the queries, each once."""

    name: str
    query_ids: Sequence[str]
    values: FloatArray


@dataclass(frozen=True, slots=True)
class Pair:
    """A run beside the baseline, on the queries of both. Differences of rounding are 0."""

    places: IntArray
    query_ids: Sequence[str]
    left_out: int
    baseline: FloatArray
    run: FloatArray
    differences: FloatArray


def pair_up(baseline: RunValues, run: RunValues, places: dict[str, int], field: str) -> Pair:
    """Return the run beside the baseline, whose queries are numbered by `places`.

    Raises InvalidField at `field` when they share fewer than FEWEST queries.
    """
    theirs = {query_id: place for place, query_id in enumerate(run.query_ids)}
    common = [query_id for query_id in baseline.query_ids if query_id in theirs]
    if len(common) < FEWEST:
        first = f"{field.partition('[')[0]}[0]"
        what = f"shares {len(common)} evaluated queries with the baseline, {first}"
        rule = f"{what}; a comparison needs at least {FEWEST}: compare runs on the same queries"
        raise InvalidField(field, rule)
    ours = np.array([places[query_id] for query_id in common])
    before = baseline.values[:, ours]
    after = run.values[:, [theirs[query_id] for query_id in common]]
    differences = after - before
    return Pair(
        places=ours,
        query_ids=common,
        left_out=len(places) + len(theirs) - 2 * len(common),
        baseline=before,
        run=after,
        differences=np.where(np.abs(differences) <= TIE_TOLERANCE, 0.0, differences),
    )
