"""Metrics that weigh ranks by how far a reader gets: the formulas and their declarations.

Context precision, hybrid log rank, ERR and RBP with its residual. A cutoff k cuts the ranking
before anything else.
"""

from __future__ import annotations

import numpy as np

from judged_server.domain import FloatArray, IntArray
from judged_server.metrics.input.rankings import Rankings, ratio
from judged_server.metrics.measures.declaration import PAIRED_MODES, Metric, Number, Parameters

_OWN = 'the page "Metrics" of the documentation'


def _context_precision(rankings: Rankings, _parameters: Parameters, k: int | None) -> FloatArray:
    """Sum of relevance / rank over what was retrieved, over the same sum for perfect results."""
    hits, depth = rankings.hits, _depth(rankings, k)
    # Both sums run in rank order, so that a perfect ranking is exactly 1.
    harmonic = np.cumsum(1.0 / np.arange(1, depth.max(initial=0) + 1))
    best = np.append(0.0, harmonic)[depth]
    return ratio(hits.total(_shares(rankings) / hits.rank, k), best)


def _hybrid_log_rank(rankings: Rankings, parameters: Parameters, k: int | None) -> FloatArray:
    """Weigh recall by alpha and by 1 - alpha the mean rank credit of all relevant items."""
    alpha = float(parameters["alpha"])
    if rankings.found_ranks is None:
        query, rank = rankings.hits.query, rankings.hits.rank
    else:
        found = rankings.found_ranks > 0
        query, rank = rankings.ideal.query[found], rankings.found_ranks[found]
    if k is not None:
        near = rank <= k
        query, rank = query[near], rank[near]
    credit = _rank_credit(rank, _depth(rankings, k)[query], float(parameters["gamma"]))
    credits_of_query = np.bincount(query, credit, rankings.n_queries)
    recall = ratio(rankings.found(k), rankings.n_relevant)
    return alpha * recall + (1.0 - alpha) * ratio(credits_of_query, rankings.n_relevant)


def _rank_credit(rank: IntArray, depth: IntArray, gamma: float) -> FloatArray:
    """Return 1 for rank 1 down to 0 for the last of `depth` ranks; 1 if there is but one."""
    if gamma == 0.0:  # where the logarithms' ratio tends to
        return 1.0 - ratio(rank - 1, depth - 1)
    return 1.0 - ratio(np.log1p(gamma * (rank - 1)), np.log1p(gamma * (depth - 1)))


def _err(rankings: Rankings, parameters: Parameters, k: int | None) -> FloatArray:
    """1 / the rank at which a reader going down is satisfied, as it is to be expected."""
    hits, top = rankings.hits, float(parameters["max_grade"])
    # (2^grade - 1) / 2^max_grade; expm1, since 2^grade - 1 would round tiny grades to nothing.
    grade_gain = np.expm1(np.minimum(hits.gain, top) * np.log(2.0))
    satisfied = np.minimum(grade_gain * np.exp2(-top), 1.0)
    unsatisfied = _running_product(1.0 - satisfied, hits.ordinal)
    reached = np.where(hits.ordinal == 1, 1.0, np.append(1.0, unsatisfied)[:-1])
    return hits.total(satisfied * reached / hits.rank, k)


def _running_product(factors: FloatArray, ordinal: IntArray) -> FloatArray:
    """Return the product of each factor with those before it in its query.

    `ordinal` counts each query's factors from 1. Every pass doubles how many factors a product
    takes in, so that there are few passes, and no query's value depends on its neighbours.
    """
    product, span = factors.copy(), 1
    while span < ordinal.max(initial=0):
        longer = np.flatnonzero(ordinal > span)
        product[longer] = product[longer] * product[longer - span]
        span *= 2
    return product


def _rbp(rankings: Rankings, parameters: Parameters, k: int | None) -> FloatArray:
    """(1 - p) * sum of relevance * p^(rank - 1)."""
    hits, p = rankings.hits, float(parameters["p"])
    total = hits.total(_shares(rankings) * p ** (hits.rank - 1.0), k)
    # At most 1 but for rounding. np.minimum hands NaN on, so it can't hide one.
    rbp: FloatArray = np.minimum((1.0 - p) * total, 1.0)
    return rbp


def _rbp_residual(rankings: Rankings, parameters: Parameters, k: int | None) -> FloatArray:
    """p^depth: what the ranks behind the last one would add if all of them were perfect."""
    residual: FloatArray = float(parameters["p"]) ** _depth(rankings, k).astype(np.float64)
    return residual


def _depth(rankings: Rankings, k: int | None) -> IntArray:
    """Return int64[n]: how many documents were retrieved in the top k."""
    n_retrieved = rankings.n_retrieved
    return n_retrieved if k is None else np.minimum(n_retrieved, k)


def _shares(rankings: Rankings) -> FloatArray:
    """Return the hits' gains, divided by the largest of their query where that exceeds 1.

    On a scale that is known they are divided by its top.
    """
    top = np.maximum(rankings.top_gain, 1.0)
    if rankings.top_grade is not None:
        top = np.where(rankings.top_grade > 0, rankings.top_grade, top)
    return rankings.hits.gain / top[rankings.hits.query]


_PERSISTENCE = Number(
    name="p",
    default=0.8,
    minimum=0.0,
    maximum=0.9999,
    description="Persistence: how likely a reader goes on from one rank to the next.",
)

WEIGHTED_METRICS = (
    Metric(
        name="context_precision",
        description="Relevance / rank summed over what was retrieved, over the sum of 1 / rank.",
        reference=_OWN,
        function=_context_precision,
        modes=PAIRED_MODES,
        graded=True,
    ),
    Metric(
        name="hybrid_log_rank",
        description="alpha * recall + (1 - alpha) * the mean log rank credit of relevant items.",
        reference=_OWN,
        function=_hybrid_log_rank,
        parameters=(
            Number(
                name="gamma",
                default=1.0,
                minimum=0.0,
                maximum=1e100,
                description="How steeply the first ranks lose credit; 0 is a straight line.",
            ),
            Number(
                name="alpha",
                default=0.5,
                minimum=0.0,
                maximum=1.0,
                description="The share of recall; the rest is rank credit.",
            ),
        ),
    ),
    Metric(
        name="err",
        description="Expected reciprocal rank at which a reader is satisfied.",
        reference="Chapelle, Metzler, Zhang and Grinspan, CIKM 2009",
        function=_err,
        parameters=(
            Number(
                name="max_grade",
                default=1.0,
                minimum=1.0,
                maximum=100.0,
                description="The top of the grades' scale; larger grades count as this one.",
            ),
        ),
        modes=PAIRED_MODES,
        graded=True,
    ),
    Metric(
        name="rbp",
        description="Rank-biased precision: (1 - p) * sum of relevance * p^(rank - 1).",
        reference="Moffat and Zobel, ACM TOIS 27(1), 2008",
        function=_rbp,
        parameters=(_PERSISTENCE,),
        modes=PAIRED_MODES,
        graded=True,
    ),
    Metric(
        name="rbp_residual",
        description="The most that rbp could gain from ranks behind the last; 1 of no ranks.",
        reference="Moffat and Zobel, ACM TOIS 27(1), 2008",
        function=_rbp_residual,
        parameters=(_PERSISTENCE,),
        modes=PAIRED_MODES,
    ),
)
"""The metrics of this family, in the order GetServerInfo lists them."""
