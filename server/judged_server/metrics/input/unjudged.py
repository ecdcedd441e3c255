"""What becomes of retrieved documents that the qrels do not judge.

A document with a grade below 0 is in the qrels: it was pooled, counts as 0, and is not unjudged.

Whether a relevant document more raises a value or lowers it depends on the metric. One that is
found can only help, but it also adds to what there was to find, and that can only hurt: with one
of one relevant documents found recall is 1, and a second one far down makes it 1/2 at the top.
So the bounds take the two apart. The lowest value has all unjudged documents in what there is to
find and none of them found; the highest has all of them found and none in what there is to find,
but is never above 1. No judgement of them leads outside, as long as hits never lower a metric and
more to find never raises it, which holds for all but r_precision, bpref, infap and
context_precision. For these the bounds are the extremes of the cases tried, which are: as it is;
all judged not relevant; all judged relevant; and the two above.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from judged_server.domain import BoolArray, FloatArray, IntArray
from judged_server.metrics.input.rankings import Pool, Rankings, descending, offsets_of
from judged_server.metrics.measures.names import Measure


def unjudged_mask(rankings: Rankings) -> BoolArray:
    """Return bool[documents]: the retrieved documents that are not in the qrels."""
    mask: BoolArray = ~(rankings.pool.judged | rankings.pool.unsampled)
    return mask


def condensed(rankings: Rankings) -> Rankings:
    """Return the rankings without unjudged documents; what is below them moves up.

    Sakai (2007), "Alternatives to Bpref".
    """
    kept, pool = ~unjudged_mask(rankings), rankings.pool
    query = np.repeat(np.arange(rankings.n_queries), rankings.n_retrieved)
    return replace(
        rankings,
        offsets=offsets_of(np.bincount(query[kept], minlength=rankings.n_queries)),
        gains=rankings.gains[kept],
        known_pool=Pool(pool.judged[kept], pool.unsampled[kept], pool.n_nonrelevant),
    )


@dataclass(frozen=True, slots=True)
class Extremes:
    """Rankings under which a metric is smallest or largest, whatever the unjudged documents are."""

    cases: tuple[Rankings, ...]

    def bounds(self, measure: Measure, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the lowest and the highest value of each query; `values` are those as it is."""
        tried = np.stack([values, *(measure.values(case) for case in self.cases)])
        return np.clip(tried.min(axis=0), 0.0, 1.0), np.clip(tried.max(axis=0), 0.0, 1.0)


def extremes(rankings: Rankings) -> Extremes:
    """Return the rankings that bound what judgements of unjudged documents could do.

    Such a document has, where it is relevant, the largest grade of its topic, 1 if it has none.
    """
    unjudged = unjudged_mask(rankings)
    query = np.repeat(np.arange(rankings.n_queries), rankings.n_retrieved)[unjudged]
    added = np.bincount(query, minlength=rankings.n_queries).astype(np.int64)
    gain = np.where(rankings.top_gain > 0, rankings.top_gain, 1.0)
    gains = rankings.gains.copy()
    gains[unjudged] = gain[query]
    more = _with_ideal(rankings, query, gain[query])
    # Where nothing is known to be relevant, one document has to be there for the rest to count.
    one = np.flatnonzero((added > 0) & (rankings.n_relevant == 0))
    found = replace(_with_ideal(rankings, one, gain[one]), gains=gains)
    pool = rankings.pool
    full = Pool(pool.judged | unjudged, pool.unsampled, pool.n_nonrelevant)
    none = replace(full, n_nonrelevant=pool.n_nonrelevant + added)
    return Extremes(
        (
            replace(rankings, known_pool=none),
            replace(more, gains=gains, known_pool=full),
            replace(more, known_pool=none),
            replace(found, known_pool=full),
        )
    )


def _with_ideal(rankings: Rankings, query: IntArray, gains: FloatArray) -> Rankings:
    """Return the rankings with more to find: gains of these queries, whose numbers ascend."""
    n = rankings.n_queries
    owner = np.concatenate([np.repeat(np.arange(n), rankings.n_relevant), query])
    offsets = offsets_of(np.bincount(owner, minlength=n))
    together = np.concatenate([rankings.ideal_gains, gains])[np.argsort(owner, kind="stable")]
    return replace(rankings, ideal_offsets=offsets, ideal_gains=descending(offsets, together))
