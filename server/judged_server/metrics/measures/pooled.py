"""Metrics for judgements that are incomplete: the formulas and their declarations.

Bpref, inferred AP and the share that was judged. Verdicts leave nothing unjudged, so that no
matching mode has them: they are for qrels, for groups that are matched by document id, and for
gains, where everything retrieved counts as judged.
"""

from __future__ import annotations

import numpy as np

from judged_server.domain import BoolArray, FloatArray, IntArray
from judged_server.metrics.input.rankings import Rankings, offsets_of, ratio
from judged_server.metrics.measures.declaration import Metric, Parameters

_INFAP_EPSILON = 0.00001


def _bpref(rankings: Rankings, _parameters: Parameters, k: int | None) -> FloatArray:
    """Mean over relevant items of 1 - the share of non-relevant ones judged that rank above."""
    hits, pool = rankings.hits, rankings.pool
    relevant = rankings.n_relevant
    above = np.minimum(_above(rankings, _judged_nonrelevant(rankings)), relevant[hits.query])
    most = np.minimum(pool.n_nonrelevant, relevant)[hits.query]
    return ratio(hits.total(1.0 - ratio(above, most), k), relevant)


def _infap(rankings: Rankings, _parameters: Parameters, k: int | None) -> FloatArray:
    """AP whose precision above each hit is estimated from the judged documents there."""
    hits = rankings.hits
    nonrelevant = _above(rankings, _judged_nonrelevant(rankings))
    relevant = hits.ordinal - 1
    pooled = relevant + nonrelevant + _above(rankings, rankings.pool.unsampled)
    estimate = (relevant + _INFAP_EPSILON) / (relevant + nonrelevant + 2 * _INFAP_EPSILON)
    return ratio(hits.total((1.0 + pooled * estimate) / hits.rank, k), rankings.n_relevant)


def _judged(rankings: Rankings, _parameters: Parameters, k: int | None) -> FloatArray:
    """Documents in the top k that have a judgement / documents in the top k."""
    in_top = rankings.n_retrieved if k is None else np.minimum(rankings.n_retrieved, k)
    begins = rankings.offsets[:-1]
    known = _counts(rankings.pool.judged | rankings.pool.unsampled)
    return ratio(known[begins + in_top] - known[begins], in_top)


def _judged_nonrelevant(rankings: Rankings) -> BoolArray:
    mask: BoolArray = rankings.pool.judged & (rankings.gains == 0)
    return mask


def _above(rankings: Rankings, mask: BoolArray) -> IntArray:
    """Return int64[hits]: how many documents of `mask` rank above each hit."""
    hits, counts = rankings.hits, _counts(mask)
    begins = rankings.offsets[hits.query]
    above: IntArray = counts[begins + hits.rank - 1] - counts[begins]
    return above


def _counts(mask: BoolArray) -> IntArray:
    """Return int64[documents + 1]: how many of the first i documents are in `mask`."""
    return offsets_of(mask.astype(np.int64))


POOLED_METRICS = (
    Metric(
        name="bpref",
        description="Mean over relevant items of 1 - the share of judged others ranked above.",
        reference="Buckley and Voorhees, SIGIR 2004, as trec_eval's bpref",
        function=_bpref,
        modes=(),
        pooled=True,
    ),
    Metric(
        name="judged",
        description="Documents in the top k that have a judgement, divided by documents there.",
        reference="ir_measures (https://ir-measur.es): Judged",
        function=_judged,
        modes=(),
        pooled=True,
    ),
    Metric(
        name="infap",
        description="AP with the precision above each hit inferred from the documents judged.",
        reference="Yilmaz and Aslam, CIKM 2006, as trec_eval's infAP",
        function=_infap,
        modes=(),
        pooled=True,
    ),
)
"""The metrics of this family, in the order GetServerInfo lists them."""
