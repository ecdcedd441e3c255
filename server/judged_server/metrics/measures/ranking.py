"""Precision, recall, F1, hit rate, MRR, AP, nDCG, R-precision: formulas and declarations.

Every function takes (rankings of n queries, parameters, cutoff k or None) and returns float64[n]
in [0, 1]. Values equal trec_eval's where it has the measure; sums run in its order.
"""

from __future__ import annotations

import numpy as np

from judged_server.domain import FloatArray, IntArray
from judged_server.metrics.input.rankings import Rankings, ratio
from judged_server.metrics.measures.declaration import PAIRED_MODES, Choice, Metric, Parameters

_TREC_EVAL = "trec_eval 9.0 (https://github.com/usnistgov/trec_eval)"
_LARGE_LINEAR_GAIN = 1e100
_LARGE_EXPONENT = 500.0


def _precision(rankings: Rankings, _parameters: Parameters, k: int | None) -> FloatArray:
    """Hits in the top k / k, also when fewer were retrieved; without k, hits / retrieved."""
    hits = rankings.hits.count(k)
    return hits / float(k) if k is not None else ratio(hits, rankings.n_retrieved)


def _recall(rankings: Rankings, _parameters: Parameters, k: int | None) -> FloatArray:
    """Relevant items found in the top k / relevant items."""
    return ratio(rankings.found(k), rankings.n_relevant)


def _f1(rankings: Rankings, parameters: Parameters, k: int | None) -> FloatArray:
    """2PR / (P + R) of the two above, 0 when both are 0."""
    precision, recall = _precision(rankings, parameters, k), _recall(rankings, parameters, k)
    return ratio(2.0 * precision * recall, precision + recall)


def _hit_rate(rankings: Rankings, _parameters: Parameters, k: int | None) -> FloatArray:
    """1 if the top k hold a hit, else 0."""
    return (rankings.hits.count(k) > 0).astype(np.float64)


def _mrr(rankings: Rankings, _parameters: Parameters, k: int | None) -> FloatArray:
    """1 / rank of the first hit, 0 when it lies beyond k."""
    hits = rankings.hits
    return hits.total((hits.ordinal == 1) / hits.rank, k)


def _ap(rankings: Rankings, parameters: Parameters, k: int | None) -> FloatArray:
    """Sum of the precision at each hit in the top k / relevant items, or min(k, relevant)."""
    hits = rankings.hits
    possible = rankings.n_relevant
    if k is not None and parameters["divisor"] == "min":
        possible = np.minimum(possible, k)
    return ratio(hits.total(hits.ordinal / hits.rank, k), possible)


def _r_precision(rankings: Rankings, _parameters: Parameters, k: int | None) -> FloatArray:
    """Hits in the top R / R, where R is the number of relevant items."""
    hits = rankings.hits
    in_top = (hits.rank <= rankings.n_relevant[hits.query]).astype(np.float64)
    return ratio(hits.total(in_top, k), rankings.n_relevant)


def _ndcg(rankings: Rankings, parameters: Parameters, k: int | None) -> FloatArray:
    """DCG of the top k / DCG of the best top k there could be."""
    hits, ideal = rankings.hits, rankings.ideal
    exponential = parameters["gain"] == "exponential"
    transform = _exponential_gains if exponential else _linear_gains
    dcg = hits.total(transform(hits.gain, rankings.top_gain, hits.query) / hits.discount, k)
    best = ideal.total(transform(ideal.gain, rankings.top_gain, ideal.query) / ideal.discount, k)
    # The ratio is at most 1 but for rounding. np.minimum hands NaN on, so it can't hide one.
    ndcg: FloatArray = np.minimum(ratio(dcg, best), 1.0)
    return ndcg


def _linear_gains(gains: FloatArray, top: FloatArray, query: IntArray) -> FloatArray:
    """Return the gains, divided by the query's largest if sums of them could overflow."""
    if top.max(initial=0.0) < _LARGE_LINEAR_GAIN:
        return gains
    return gains / top[query]


def _exponential_gains(gains: FloatArray, top: FloatArray, query: IntArray) -> FloatArray:
    """Return 2^gain - 1, divided by a power of two per query where that would overflow.

    nDCG is a ratio, so that a factor common to a query's gains cancels.
    """
    # expm1, since 2^gain - 1 would round a gain of 1e-20 to nothing.
    plain: FloatArray = np.expm1(np.minimum(gains, _LARGE_EXPONENT) * np.log(2.0))
    if top.max(initial=0.0) <= _LARGE_EXPONENT:
        return plain
    shift = np.maximum(top - _LARGE_EXPONENT, 0.0)[query]
    return np.where(shift == 0.0, plain, np.exp2(gains - shift) - np.exp2(-shift))


RANKING_METRICS = (
    Metric(
        name="precision",
        description="Hits in the top k divided by k; without k, hits divided by retrieved.",
        reference=f"{_TREC_EVAL}: P",
        function=_precision,
    ),
    Metric(
        name="recall",
        description="Relevant items found in the top k divided by all relevant items.",
        reference=f"{_TREC_EVAL}: recall",
        function=_recall,
    ),
    Metric(
        name="f1",
        description="Harmonic mean of precision and recall at k, 0 when both are 0.",
        reference="C. J. van Rijsbergen, Information Retrieval, 2nd ed., 1979, chapter 7",
        function=_f1,
    ),
    Metric(
        name="hit_rate",
        description="1 if the top k hold any hit, else 0.",
        reference=f"{_TREC_EVAL}: success",
        function=_hit_rate,
    ),
    Metric(
        name="mrr",
        description="1 divided by the rank of the first hit, 0 if it lies beyond k.",
        reference=f"{_TREC_EVAL}: recip_rank",
        function=_mrr,
    ),
    Metric(
        name="ap",
        description="Sum of the precision at each hit in the top k divided by all relevant items.",
        reference=f"{_TREC_EVAL}: map_cut",
        function=_ap,
        parameters=(
            Choice(
                name="divisor",
                default="relevant",
                choices=("relevant", "min"),
                description="Divide by all relevant items, or by min(k, relevant items).",
            ),
        ),
        modes=PAIRED_MODES,
    ),
    Metric(
        name="ndcg",
        description="Gains discounted by log2(rank + 1), summed over the top k, over the best sum.",
        reference="Jarvelin and Kekalainen, ACM TOIS 20(4), 2002, as trec_eval's ndcg_cut",
        function=_ndcg,
        parameters=(
            Choice(
                name="gain",
                default="linear",
                choices=("linear", "exponential"),
                description="The grade itself, or 2^grade - 1.",
            ),
        ),
        modes=PAIRED_MODES,
        graded=True,
    ),
    Metric(
        name="r_precision",
        description="Hits in the top R divided by R, the number of relevant items.",
        reference=f"{_TREC_EVAL}: Rprec",
        function=_r_precision,
        modes=PAIRED_MODES,
    ),
)
"""The metrics of this family, in the order GetServerInfo lists them."""
