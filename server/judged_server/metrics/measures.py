"""Ranking metrics: their formulas, the table that declares them, and the parser of their names.

Every function takes (rankings of n queries, parameters, cutoff k or None) and returns float64[n]
in [0, 1]. Values equal trec_eval's where it has the measure; sums run in its order. A cutoff k cuts
the ranking before anything else.

Bpref, inferred AP and the judged share are for incomplete judgements. Verdicts leave nothing
unjudged, so no matching mode defines them. They are for qrels, for groups that are matched by
document id, and for gains, where everything retrieved counts as judged.

Names in requests look like `ndcg@10`, `ap(divisor=min)@100`, `precision`:

name       = metric [ "(" parameter { "," parameter } ")" ] [ "@" k ]
parameter  = word "=" value
k          = a whole number from 1 to MAX_CUTOFF; without it the whole ranking counts

A family (`precision_exact`, `recall_similarity@5`) has a few metrics over the verdicts of one fixed
judge, in mode ANY, whatever judge and matching a request names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from judged.values.choices import Matching

from judged_server.domain import (
    BoolArray,
    FloatArray,
    IntArray,
    Parameter,
    ParameterScalar,
    check_limit,
    check_unique,
    need,
)
from judged_server.errors import InvalidField, did_you_mean
from judged_server.metrics.input.rankings import Rankings, offsets_of, ratio

Parameters = Mapping[str, ParameterScalar]
MetricFunction = Callable[[Rankings, Parameters, int | None], FloatArray]

ALL_MODES = tuple(Matching)
PAIRED_MODES = (Matching.GREEDY_FIRST, Matching.MAXIMUM)
"""For metrics that would leave [0, 1] if two results could count for one expected text."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    `function` takes rankings of n queries, a value for every parameter, and the cutoff k (None:
    the whole ranking), and returns float64[n], finite and in [0, 1]: 0 if nothing was retrieved or
    there is nothing to find, except for `judged` and `rbp_residual`, which say how reliable other
    metrics are. `modes` are the matching modes that define it; empty if verdicts can't. `version`
    is raised if a change of the function changes numbers. `family` is the family (`FAMILIES`) whose
    judge decides; empty if the request's judge does. `graded` metrics weigh gains, including those
    below a relevance level. `pooled` metrics depend on which documents were judged, which verdicts
    don't show.
    """

    name: str
    description: str
    reference: str
    function: MetricFunction
    parameters: tuple[Parameter, ...] = ()
    modes: tuple[Matching, ...] = ALL_MODES
    version: int = 1
    family: str = ""
    graded: bool = False
    pooled: bool = False


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
    """2PR / (P + R) of the two above, 0 if both are 0."""
    precision, recall = _precision(rankings, parameters, k), _recall(rankings, parameters, k)
    return ratio(2.0 * precision * recall, precision + recall)


def _hit_rate(rankings: Rankings, _parameters: Parameters, k: int | None) -> FloatArray:
    """1 if the top k contain a hit, else 0."""
    return (rankings.hits.count(k) > 0).astype(np.float64)


def _mrr(rankings: Rankings, _parameters: Parameters, k: int | None) -> FloatArray:
    """1 / rank of the first hit, 0 if it is beyond k."""
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
    # The ratio is at most 1 except for rounding. np.minimum keeps NaN, so it can't hide one.
    ndcg: FloatArray = np.minimum(ratio(dcg, best), 1.0)
    return ndcg


def _linear_gains(gains: FloatArray, top: FloatArray, query: IntArray) -> FloatArray:
    """Return the gains, divided by the query's largest if sums of them could overflow."""
    if top.max(initial=0.0) < _LARGE_LINEAR_GAIN:
        return gains
    return gains / top[query]


def _exponential_gains(gains: FloatArray, top: FloatArray, query: IntArray) -> FloatArray:
    """Return 2^gain - 1, divided by a power of two per query if that would overflow.

    nDCG is a ratio, so a factor common to a query's gains cancels.
    """
    # expm1, since 2^gain - 1 would round a gain of 1e-20 to 0.
    plain = np.expm1(np.minimum(gains, _LARGE_EXPONENT) * np.log(2.0))
    shift = np.maximum(top - _LARGE_EXPONENT, 0.0)[query]
    return np.where(shift == 0.0, plain, np.exp2(gains - shift) - np.exp2(-shift))


_OWN = 'the page "Metrics" of the documentation'


def _context_precision(rankings: Rankings, _parameters: Parameters, k: int | None) -> FloatArray:
    """Sum of relevance / rank over the results, divided by the same sum for perfect results."""
    hits, depth = rankings.hits, _depth(rankings, k)
    # Both sums run in rank order, so that a perfect ranking is exactly 1.
    harmonic = np.cumsum(1.0 / np.arange(1, depth.max(initial=0) + 1))
    best = np.append(0.0, harmonic)[depth]
    return ratio(hits.total(_shares(rankings) / hits.rank, k), best)


def _hybrid_log_rank(rankings: Rankings, parameters: Parameters, k: int | None) -> FloatArray:
    """Recall * alpha + the mean rank credit of all relevant items * (1 - alpha)."""
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
    """Return 1 for rank 1 down to 0 for the last of `depth` ranks; 1 if there is only one."""
    if gamma == 0.0:  # the limit of the logarithms' ratio
        return 1.0 - ratio(rank - 1, depth - 1)
    return 1.0 - ratio(np.log1p(gamma * (rank - 1)), np.log1p(gamma * (depth - 1)))


def _err(rankings: Rankings, parameters: Parameters, k: int | None) -> FloatArray:
    """1 / the rank at which a reader going down is satisfied, as an expected value."""
    hits, top = rankings.hits, float(parameters["max_grade"])
    # (2^grade - 1) / 2^max_grade; expm1, since 2^grade - 1 would round tiny grades to 0.
    grade_gain = np.expm1(np.minimum(hits.gain, top) * np.log(2.0))
    satisfied = np.minimum(grade_gain * np.exp2(-top), 1.0)
    unsatisfied = _running_product(1.0 - satisfied, hits.ordinal)
    reached = np.where(hits.ordinal == 1, 1.0, np.append(1.0, unsatisfied)[:-1])
    return hits.total(satisfied * reached / hits.rank, k)


def _running_product(factors: FloatArray, ordinal: IntArray) -> FloatArray:
    """Return the product of each factor with those before it in its query.

    `ordinal` counts each query's factors from 1. Every pass doubles the number of factors in a
    product, so that passes are few, and no query's value depends on another query.
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
    # At most 1 except for rounding. np.minimum keeps NaN, so it can't hide one.
    rbp: FloatArray = np.minimum((1.0 - p) * total, 1.0)
    return rbp


def _rbp_residual(rankings: Rankings, parameters: Parameters, k: int | None) -> FloatArray:
    """p^depth: what the ranks after the last one would add if all of them were perfect."""
    residual: FloatArray = float(parameters["p"]) ** _depth(rankings, k).astype(np.float64)
    return residual


def _depth(rankings: Rankings, k: int | None) -> IntArray:
    """Return int64[n]: the number of documents retrieved in the top k."""
    n_retrieved = rankings.n_retrieved
    return n_retrieved if k is None else np.minimum(n_retrieved, k)


def _shares(rankings: Rankings) -> FloatArray:
    """Return the hits' gains, divided by the query's largest gain if that exceeds 1.

    If the scale is known they are divided by its top instead.
    """
    top = np.maximum(rankings.top_gain, 1.0)
    if rankings.top_grade is not None:
        top = np.where(rankings.top_grade > 0, rankings.top_grade, top)
    return rankings.hits.gain / top[rankings.hits.query]


_PERSISTENCE = Parameter(
    "p", 0.8, "Persistence: how likely a reader goes on from one rank to the next.", 0.0, 0.9999
)


_INFAP_EPSILON = 0.00001


def _bpref(rankings: Rankings, _parameters: Parameters, k: int | None) -> FloatArray:
    """Mean over relevant items of 1 - the share of judged non-relevant ones that rank above."""
    hits, relevant = rankings.hits, rankings.n_relevant
    above = np.minimum(_above(rankings, rankings.gains == 0), relevant[hits.query])
    most = np.minimum(rankings.n_nonrelevant, relevant)[hits.query]
    return ratio(hits.total(1.0 - ratio(above, most), k), relevant)


def _infap(rankings: Rankings, _parameters: Parameters, k: int | None) -> FloatArray:
    """AP with the precision above each hit estimated from the judged documents there."""
    hits = rankings.hits
    nonrelevant = _above(rankings, rankings.gains == 0)
    relevant = hits.ordinal - 1
    unsampled = (rankings.gains < 0) & (rankings.gains > -np.inf)
    pooled = relevant + nonrelevant + _above(rankings, unsampled)
    estimate = (relevant + _INFAP_EPSILON) / (relevant + nonrelevant + 2 * _INFAP_EPSILON)
    return ratio(hits.total((1.0 + pooled * estimate) / hits.rank, k), rankings.n_relevant)


def _judged(rankings: Rankings, _parameters: Parameters, k: int | None) -> FloatArray:
    """Documents in the top k that have a judgement / documents in the top k."""
    in_top, begins = _depth(rankings, k), rankings.offsets[:-1]
    known = offsets_of(~np.isnan(rankings.gains))
    return ratio(known[begins + in_top] - known[begins], in_top)


def _above(rankings: Rankings, mask: BoolArray) -> IntArray:
    """Return int64[hits]: the number of documents of `mask` that rank above each hit."""
    hits, counts = rankings.hits, offsets_of(mask)
    begins = rankings.offsets[hits.query]
    above: IntArray = counts[begins + hits.rank - 1] - counts[begins]
    return above


@dataclass(frozen=True, slots=True)
class Family:
    """The judge of a family: its kind, profile and threshold; `matches` describes it in words."""

    name: str
    kind: str
    profile: str
    min_score: float
    matches: str


MIN_SCORE = 0.8
"""The threshold of both families. It is part of the published definition of their metrics, unlike
the default of the judge semantic, 0.75, which a request may change."""

FAMILIES = {
    family.name: family
    for family in (
        Family("exact", "exact", "verbatim", MIN_SCORE, "are equal, byte for byte"),
        Family(
            "similarity",
            "semantic",
            "",
            MIN_SCORE,
            f"have embeddings with a cosine of at least {MIN_SCORE:g}, the fixed threshold of this "
            "metric, not the default of the judge semantic",
        ),
    )
}
"""Both families by the suffix of their metrics' names."""

_MEMBERS = ("precision", "recall", "f1", "hybrid_log_rank")

_ALL = (
    Metric(
        "precision",
        "Hits in the top k divided by k; without k, hits divided by retrieved.",
        f"{_TREC_EVAL}: P",
        _precision,
    ),
    Metric(
        "recall",
        "Relevant items found in the top k divided by all relevant items.",
        f"{_TREC_EVAL}: recall",
        _recall,
    ),
    Metric(
        "f1",
        "Harmonic mean of precision and recall at k, 0 when both are 0.",
        "C. J. van Rijsbergen, Information Retrieval, 2nd ed., 1979, chapter 7",
        _f1,
    ),
    Metric(
        "hit_rate",
        "1 if the top k hold any hit, else 0.",
        f"{_TREC_EVAL}: success",
        _hit_rate,
    ),
    Metric(
        "mrr",
        "1 divided by the rank of the first hit, 0 if it lies beyond k.",
        f"{_TREC_EVAL}: recip_rank",
        _mrr,
    ),
    Metric(
        "ap",
        "Sum of the precision at each hit in the top k divided by all relevant items.",
        f"{_TREC_EVAL}: map_cut",
        _ap,
        parameters=(
            Parameter(
                "divisor",
                "relevant",
                "Divide by all relevant items, or by min(k, relevant items).",
                choices=("relevant", "min"),
            ),
        ),
        modes=PAIRED_MODES,
    ),
    Metric(
        "ndcg",
        "Gains discounted by log2(rank + 1), summed over the top k, over the best sum.",
        "Jarvelin and Kekalainen, ACM TOIS 20(4), 2002, as trec_eval's ndcg_cut",
        _ndcg,
        parameters=(
            Parameter(
                "gain",
                "linear",
                "The grade itself, or 2^grade - 1.",
                choices=("linear", "exponential"),
            ),
        ),
        modes=PAIRED_MODES,
        graded=True,
    ),
    Metric(
        "r_precision",
        "Hits in the top R divided by R, the number of relevant items.",
        f"{_TREC_EVAL}: Rprec",
        _r_precision,
        modes=PAIRED_MODES,
    ),
    Metric(
        "context_precision",
        "Relevance / rank summed over what was retrieved, over the sum of 1 / rank.",
        _OWN,
        _context_precision,
        modes=PAIRED_MODES,
        graded=True,
    ),
    Metric(
        "hybrid_log_rank",
        "alpha * recall + (1 - alpha) * the mean log rank credit of relevant items.",
        _OWN,
        _hybrid_log_rank,
        parameters=(
            Parameter(
                "gamma",
                1.0,
                "How steeply the first ranks lose credit; 0 is a straight line.",
                0.0,
                1e100,
            ),
            Parameter(
                "alpha",
                0.5,
                "The share of recall; the rest is rank credit.",
                0.0,
                1.0,
            ),
        ),
    ),
    Metric(
        "err",
        "Expected reciprocal rank at which a reader is satisfied.",
        "Chapelle, Metzler, Zhang and Grinspan, CIKM 2009",
        _err,
        parameters=(
            Parameter(
                "max_grade",
                1.0,
                "The top of the grades' scale; larger grades count as this one.",
                1.0,
                100.0,
            ),
        ),
        modes=PAIRED_MODES,
        graded=True,
    ),
    Metric(
        "rbp",
        "Rank-biased precision: (1 - p) * sum of relevance * p^(rank - 1).",
        "Moffat and Zobel, ACM TOIS 27(1), 2008",
        _rbp,
        parameters=(_PERSISTENCE,),
        modes=PAIRED_MODES,
        graded=True,
    ),
    Metric(
        "rbp_residual",
        "The most that rbp could gain from ranks behind the last; 1 of no ranks.",
        "Moffat and Zobel, ACM TOIS 27(1), 2008",
        _rbp_residual,
        parameters=(_PERSISTENCE,),
        modes=PAIRED_MODES,
    ),
    Metric(
        "bpref",
        "Mean over relevant items of 1 - the share of judged others ranked above.",
        "Buckley and Voorhees, SIGIR 2004, as trec_eval's bpref",
        _bpref,
        modes=(),
        pooled=True,
    ),
    Metric(
        "judged",
        "Documents in the top k that have a judgement, divided by documents there.",
        "ir_measures (https://ir-measur.es): Judged",
        _judged,
        modes=(),
        pooled=True,
    ),
    Metric(
        "infap",
        "AP with the precision above each hit inferred from the documents judged.",
        "Yilmaz and Aslam, CIKM 2006, as trec_eval's infAP",
        _infap,
        modes=(),
        pooled=True,
    ),
)

METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            *_ALL,
            *(
                replace(
                    metric,
                    name=f"{metric.name}_{family.name}",
                    description=(
                        f"{metric.name} without pairing, where texts match that {family.matches}."
                    ),
                    modes=(Matching.ANY,),
                    family=family.name,
                )
                for family in FAMILIES.values()
                for metric in _ALL
                if metric.name in _MEMBERS
            ),
        )
    }
)
"""Every metric by the name requests use, in the order GetServerInfo lists them."""

MAX_METRICS = 100
"""The most metrics one request may ask for."""

MAX_CUTOFF = 1_000_000_000
"""The largest k; no ranking is that long, and a float is exact only up to 2^53."""

_NAME = re.compile(r"(?P<metric>\w+)(?:\((?P<parameters>[^()]*)\))?(?:@(?P<k>.*))?", re.ASCII)
_PLAIN_NAME = re.compile(r"[A-Za-z][\w.-]{0,99}", re.ASCII)
_CUTOFF = re.compile(r"[1-9][0-9]{0,9}")
_LONGEST_NAME = 200
_THEIR_CUTOFF = re.compile(r"(_cut)?(_[0-9]+)?$")
_ELSEWHERE = {
    "map": "ap",
    "p": "precision",
    "recip_rank": "mrr",
    "rprec": "r_precision",
    "success": "hit_rate",
}
"""Names of trec_eval and ir_measures in lower case, without their cutoffs, for hints."""


Named = TypeVar("Named")


class MetricNameError(ValueError):
    """A metric's name breaks a rule; the message is the rule, without the field's path."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric with all parameters set and its cutoff; `str` is the canonical name.

    `judge` is the signature of the judge whose verdicts it uses, if that is not the request's.
    """

    metric: Metric
    parameters: Parameters
    k: int | None = None
    judge: str = ""

    def __str__(self) -> str:
        chosen = [
            f"{parameter.name}={write_value(self.parameters[parameter.name])}"
            for parameter in self.metric.parameters
            if self.parameters[parameter.name] != parameter.default
        ]
        brackets = f"({','.join(chosen)})" if chosen else ""
        return f"{self.metric.name}{brackets}{self._at_k}"

    @property
    def _at_k(self) -> str:
        return "" if self.k is None else f"@{self.k}"

    def values(self, rankings: Rankings) -> FloatArray:
        """Return the measure of each query: float64[n], finite, in [0, 1]."""
        return self.metric.function(rankings, self.parameters, self.k)

    def doubt(self, rankings: Rankings) -> str:
        """Return what makes the values doubtful, "" if nothing does."""
        top = self.parameters.get("max_grade")
        if top is None or rankings.top_gain.max(initial=0.0) <= float(top):
            return ""
        return (
            f"{self} counts grades above {write_value(top)} as {write_value(top)}, and there are "
            f"some; name the highest grade, as in {self.metric.name}(max_grade=4){self._at_k}"
        )

    def judged_by(self, signature: str) -> Measure:
        """Return the measure over verdicts of that judge; it is then no longer of a family."""
        return replace(self, metric=replace(self.metric, family=""), judge=signature)

    def signature(self, settings: Sequence[tuple[str, str]]) -> str:
        """Return one stable line that says how the number is computed.

        It has the name and cutoff, every parameter (defaults too, so that a later default can't
        change what an old line means), the `settings` of the rankings, and the metric's version.
        """
        parameters = [
            f"{parameter.name}:{write_value(self.parameters[parameter.name])}"
            for parameter in self.metric.parameters
        ]
        made_under = [f"{name}:{value}" for name, value in settings]
        if self.judge:
            made_under.insert(0, "judge:" + self.judge.replace("|", " "))
        head, version = f"{self.metric.name}{self._at_k}", f"v{self.metric.version}"
        return "|".join([head, *parameters, *made_under, version])


def parse_metrics(names: Sequence[str], *, of_values: bool = False) -> tuple[Measure, ...]:
    """Return the measures named by a request, in order.

    With `of_values`, if the request contains all values, a name may also be a plain word that is
    not a metric here: a rubric, or a text metric. Raises as `parse_names` does.
    """

    def parse(name: str) -> Measure:
        plain = of_values and _PLAIN_NAME.fullmatch(name) and name not in METRICS
        return _brought(name) if plain else parse_measure(name)

    return parse_names(names, parse, "metric, for example ndcg@10")


def parse_names(
    names: Sequence[str], parse: Callable[[str], Named], what: str
) -> tuple[Named, ...]:
    """Return the parsed names of a request, in order; messages call one of them `what`.

    Raises InvalidField at `metrics` if there are no names, and at `metrics[i]` if name i breaks a
    rule or repeats an earlier one; LimitExceeded if there are more than MAX_METRICS.
    """
    need(len(names) > 0, "metrics", f"must name at least one {what}")
    check_limit(len(names), MAX_METRICS, "metrics", "metrics")
    found = []
    for i, name in enumerate(names):
        try:
            found.append(parse(name))
        except MetricNameError as error:
            raise InvalidField(f"metrics[{i}]", str(error)) from None
    check_unique([str(one) for one in found], "metrics[{}]")
    return tuple(found)


def unknown_name(what: str, name: str, known: Mapping[str, object], meant: str) -> MetricNameError:
    """Return the error for a name that is not known; `meant` is used to find similar ones."""
    hint = did_you_mean(meant, known)
    return MetricNameError(
        f"no {what} is called {name[:40]!r}{hint and '; '}{hint} "
        f"(this server has {', '.join(known)})"
    )


def write_value(value: ParameterScalar) -> str:
    """Return the text of a parameter: a word, or a number at its shortest: 0.5, 1, 1e-07."""
    return value if isinstance(value, str) else repr(value + 0.0).removesuffix(".0")


def _brought(name: str) -> Measure:
    """Return a measure whose values the caller provides."""

    def unknown(_rankings: Rankings, _parameters: Parameters, _k: int | None) -> FloatArray:
        raise ValueError(f"{name} is measured elsewhere; only its values are known here")

    return Measure(Metric(name, "Values that the caller brings.", "", unknown, modes=()), {})


def parse_measure(name: str) -> Measure:
    """Return the measure of one name. Raises MetricNameError with the rule the name breaks."""
    parts = _NAME.fullmatch(name) if len(name) <= _LONGEST_NAME else None
    if parts is None:
        raise MetricNameError(
            f"{name[:40]!r} is not a metric's name; write metric@k, or metric(parameter=value)@k"
        )
    metric = METRICS.get(parts["metric"])
    if metric is None:
        meant = _THEIR_CUTOFF.sub("", parts["metric"].lower())
        raise unknown_name("metric", parts["metric"], METRICS, _ELSEWHERE.get(meant, meant))
    return Measure(metric, _read_parameters(metric, parts["parameters"]), _read_cutoff(parts["k"]))


def _read_cutoff(text: str | None) -> int | None:
    """Return k, or None if the name has none."""
    if text is None:
        return None
    if not _CUTOFF.fullmatch(text) or int(text) > MAX_CUTOFF:
        raise MetricNameError(f"k must be a whole number from 1 to {MAX_CUTOFF}, not {text[:40]!r}")
    return int(text)


def _read_parameters(metric: Metric, text: str | None) -> dict[str, ParameterScalar]:
    """Return a value for every parameter of the metric, in the order of their declaration."""
    given: dict[str, str] = {}
    for part in text.split(",") if text is not None else ():
        name, equals, value = part.partition("=")
        if not equals:
            raise MetricNameError(f"parameters are written name=value, not {part[:40]!r}")
        if name in given:
            raise MetricNameError(f"parameter {name} is given twice")
        given[name] = value
    values: dict[str, ParameterScalar] = {}
    for parameter in metric.parameters:
        written = given.pop(parameter.name, None)
        try:
            values[parameter.name] = (
                parameter.default if written is None else parameter.read(written)
            )
        except ValueError as error:
            raise MetricNameError(f"{parameter.name} must be {error}") from None
    for name in given:
        known = ", ".join(parameter.name for parameter in metric.parameters) or "none"
        raise MetricNameError(f"{metric.name} has no parameter {name[:40]!r}; it has {known}")
    return values
