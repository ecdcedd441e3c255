"""From gains the caller knows to rankings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from judged_server.domain import BoolArray, IntArray
from judged_server.errors import InvalidField
from judged_server.metrics.input.rankings import Rankings, descending, flatten, hits_at


def rank_gains(
    gains: Sequence[Sequence[float]], relevant_gains: Sequence[Sequence[float]], field: str
) -> Rankings:
    """Return the rankings of n queries from their gains by rank and the gains there are to find.

    Gains below 0 count as 0. `relevant_gains` need no order; they hold the gain of every relevant
    document, the retrieved ones included. Raises InvalidField at `field[i].gains[j]` or
    `field[i].relevant_gains[j]` for a number that is not finite or, in the latter, not above 0;
    at `field[i].relevant_gains` when a retrieved gain is not among them.
    """
    offsets, flat = flatten(gains)
    ideal_offsets, ideal = flatten(relevant_gains)
    _refuse(~np.isfinite(flat), offsets, field, "gains", "must be finite")
    bad = ~((ideal > 0) & np.isfinite(ideal))
    _refuse(bad, ideal_offsets, field, "relevant_gains", "must be finite and above 0")
    rankings = Rankings(
        offsets, np.maximum(flat, 0.0), ideal_offsets, descending(ideal_offsets, ideal)
    )
    _check_attainable(rankings, field)
    return rankings


def _refuse(bad: BoolArray, offsets: IntArray, field: str, name: str, rule: str) -> None:
    """Raise InvalidField at the first place of a ragged column where `bad` is set."""
    if bad.any():
        place = int(bad.argmax())
        query = int(np.searchsorted(offsets, place, side="right")) - 1
        raise InvalidField(f"{field}[{query}].{name}[{place - int(offsets[query])}]", rule)


def _check_attainable(rankings: Rankings, field: str) -> None:
    """Refuse a query whose hits, largest gain first, exceed what there is to find.

    Without this rule recall and ndcg could leave [0, 1].
    """
    hits = hits_at(rankings.offsets, rankings.gains)
    order = np.lexsort((-hits.gain, hits.query))
    query, gain, nth = hits.query[order], hits.gain[order], hits.ordinal
    padded = np.append(rankings.ideal_gains, 0.0)
    places = np.minimum(rankings.ideal_offsets[query] + nth - 1, len(rankings.ideal_gains))
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
