"""Agreement of raters, paired comparisons, rankings of systems, and inputs of metrics."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from judged._inputs import Given, as_column, need_by_ids, refuse_set, set_fields, set_grades
from judged._views import View, of_all, plural, row_of
from judged.errors import InvalidArgument, WrongType
from judged.values.choices import Estimate, HumanLabels, ends_of, estimate_names
from judged.values.groups import EmbeddedRankings


class RatingLevel(IntEnum):
    """The level of measurement of categories."""

    NOMINAL = 1
    """They are equal or not."""
    ORDINAL = 2
    """They have an order."""
    INTERVAL = 3
    """They are evenly spaced."""


@dataclass(frozen=True)
class Rater:
    """One rater's column: for each item the index of a category, or -1 for no rating."""

    name: str
    ratings: Sequence[int]


@dataclass(frozen=True, repr=False)
class RatingTable(View):
    """The ratings of the same items by several raters."""

    categories: Sequence[str]
    raters: Sequence[Rater]
    level: RatingLevel = RatingLevel.NOMINAL

    @classmethod
    def of(
        cls,
        categories: Sequence[str],
        ratings: Mapping[str, Sequence[str | None]],
        level: RatingLevel = RatingLevel.NOMINAL,
    ) -> RatingTable:
        """Return the table of ratings by rater: for each item a category, or None.

        Raises InvalidArgument for a rating that is not a category.
        """
        places: dict[str | None, int] = {name: place for place, name in enumerate(categories)}
        places[None] = -1
        raters = []
        for j, (name, given) in enumerate(ratings.items()):
            for i, each in enumerate(given):
                if each not in places:
                    rule = "is none of the categories; add it to them, or give None for no rating"
                    raise InvalidArgument.of_field(f"ratings.raters[{j}].ratings[{i}]", rule)
            raters.append(Rater(name, [places[each] for each in given]))
        return cls(categories, raters, level)


@dataclass(frozen=True)
class SystemScores:
    """Two judges' scores of the same systems; the first is the reference, larger is better."""

    systems: Sequence[str]
    first: Sequence[float]
    second: Sequence[float]


@dataclass(frozen=True, repr=False)
class Agreement(View):
    """The agreement of raters. An estimate is None if it does not apply or is undefined.

    `confusion` counts, row by row, the items that the first of two raters put into the category of
    the row and the second into that of the column; it is empty for more raters. `fleiss_kappa` is
    over items that all raters rated; the others are over the `n_items` items with two or more
    ratings.
    """

    raters: Sequence[str]
    n_items: int
    categories: Sequence[str]
    confusion: Sequence[int] = ()
    observed: Estimate | None = None
    cohen_kappa: Estimate | None = None
    linear_kappa: Estimate | None = None
    quadratic_kappa: Estimate | None = None
    fleiss_kappa: Estimate | None = None
    krippendorff_alpha: Estimate | None = None
    warnings: tuple[str, ...] = ()

    def confusion_rows(self) -> list[Sequence[int]]:
        """Return the confusion as a list of rows."""
        k = len(self.categories)
        return [self.confusion[row : row + k] for row in range(0, len(self.confusion), k)]


@dataclass(frozen=True, repr=False)
class RankAgreement(View):
    """The rank correlation of two judges on the same systems; None if it is undefined."""

    n_systems: int
    kendall_tau: Estimate | None
    tau_ap: Estimate | None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class MeasuredAgreement(View):
    """The result of `measure_agreement`: each part is None if it was not asked for."""

    ratings: Agreement | None
    systems: RankAgreement | None


MEASURES = estimate_names(Agreement)
"""The coefficients of an Agreement, by name."""


@dataclass(frozen=True)
class PairedComparison:
    """One comparison of two systems' answers to a query; the answer of `first` is shown first.

    `preference` is in [0, 1]: 1 prefers the first, 0 the second, .5 is a tie.
    """

    query_id: str
    first: str
    second: str
    preference: float


@dataclass(frozen=True)
class RankedSystem:
    """One system of a ranking: its strength in natural log-odds, and its wins, ties and losses."""

    name: str
    strength: Estimate
    wins: float
    ties: float
    losses: float


@dataclass(frozen=True)
class PositionBias:
    """The outcomes of pairs that were compared in both orders.

    `same` counts pairs with the same outcome in both orders, `first` and `second` those in which
    the answer shown first or second was preferred both times, `mixed` those that tied in only one
    order. `preference_for_first` is .5 without bias, None without such pairs.
    """

    pairs: int
    same: int
    first: int
    second: int
    mixed: int
    preference_for_first: float | None


@dataclass(frozen=True, repr=False)
class SystemRanking(View):
    """Systems, the strongest first; `tie` is Davidson's nu, the share of ties."""

    systems: Sequence[RankedSystem]
    tie: float
    position: PositionBias
    queries: int
    warnings: Sequence[str]
    signature: str

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row per system, the strongest first."""
        return [
            {
                "system": system.name,
                "strength": system.strength.value,
                **ends_of(system.strength.interval),
                **row_of(system, "wins ties losses"),
            }
            for system in self.systems
        ]


class ScoredDocuments(NamedTuple):
    """Documents and their scores as two columns, as retrievers return them.

    A column may be any iterable, such as an array or a generator. The scores rank, whatever the
    order of the columns; without scores, the order is the ranking.
    """

    document_ids: Sequence[str]
    scores: Sequence[float] = ()


RetrievedDocuments = Mapping[str, float] | Sequence[str] | ScoredDocuments
"""A run's results of a query: document id to score, a list of ids, best first, or two columns."""


@dataclass(frozen=True, repr=False)
class TrecRankings(View):
    """Judgements and a run.

    `qrels` maps query id to document id to grade. `run` maps query id to document id to score, to
    a list of document ids, best first, or to ScoredDocuments, which is the fastest to send. Ids are
    text or whole numbers, compared as text.
    """

    qrels: Mapping[str, Mapping[str, int]]
    run: Mapping[str, RetrievedDocuments]

    def __post_init__(self) -> None:
        qrels = need_by_ids(self.qrels, "qrels")
        set_fields(self, qrels=qrels, run=kept_run(self.run, "run"))


_TIED = (
    "all scores tie, so that the ids of the documents rank them, as in trec_eval; write scores "
    "that fall with rank"
)
_ROUNDED = (
    "scores differ, but not in single precision, in which trec_eval compares them, so that the ids "
    "of the documents rank those; write smaller scores"
)


def ranking_warnings(rankings: TrecRankings, *, complete: bool) -> Iterator[str]:
    """Yield warnings about topics that only qrels or run have, and scores that hardly rank."""
    judged, run = rankings.qrels, rankings.run
    missing = [] if complete else [topic for topic in judged if topic not in run]
    for topics, of, lacks, step in (
        (missing, "qrels", "run", "; the option complete counts them as 0"),
        ([topic for topic in run if topic not in judged], "run", "qrels", ""),
    ):
        if topics:
            some = f"{plural(len(topics), 'topic')} of the {of} left out: not in the {lacks}"
            yield f"{some}, for example {topics[0]!r}{step}"
    # Comparing all scores would take as long as the metrics: most runs differ enough at their ends.
    near = {topic: ranked for topic, ranked in run.items() if _is_near(_scores_of(ranked))}
    yield from score_warnings(near, len(run))


def _scores_of(ranked: RetrievedDocuments) -> Any:  # noqa: ANN401 - reversible and sized
    given: Any = ranked.values() if isinstance(ranked, Mapping) else getattr(ranked, "scores", ())
    if type(ranked) is dict or type(given) in (list, tuple):
        return given
    return given.tolist() if hasattr(given, "tolist") else list(given)


def _is_near(scores: Any) -> bool:  # noqa: ANN401 - see above
    """Return whether evenly spaced scores, with these at their ends, could collide."""
    first, last = float(next(iter(scores), 0.0)), float(next(reversed(scores), 0.0))
    return abs(first - last) <= 1e-6 * len(scores) * max(abs(first), abs(last))


def score_warnings(run: Mapping[str, RetrievedDocuments], total: int) -> Iterator[str]:
    """Yield warnings about topics, of `total`, whose scores hardly rank their documents.

    Of a thousand scores with all digits of a double, one or two collide in single precision by
    chance; a tenth or more of the distinct ones is told.
    """
    tied, rounded = list[str](), list[str]()
    for topic, scores in ((topic, _scores_of(ranked)) for topic, ranked in run.items()):
        different = set(scores)
        lost = len(different) - len(set(array("f", different)))
        if len(different) == 1 < len(scores):
            tied.append(topic)
        elif lost * 10 >= max(len(different) - 1, 1):
            rounded.append(topic)
    for topics, problem in ((tied, _TIED), (rounded, _ROUNDED)):
        if topics:
            yield told_of_topics(topics, total, problem)


def told_of_topics(topics: Sequence[str], total: int, problem: str) -> str:
    """Return the warning about a problem of some topics."""
    of = of_all(len(topics), total, "topic", "topics")
    return f"in {of} {problem}; for example in topic {topics[0]!r}"


def kept_run(run: Mapping[str, RetrievedDocuments], field: str) -> Mapping[str, RetrievedDocuments]:
    """Return a run with text ids, and with iterators read into lists."""
    given = need_by_ids(run, field).items()
    return {query_id: _kept(ranked, f"{field}[{query_id!r}]") for query_id, ranked in given}


def _kept(documents: RetrievedDocuments, field: str) -> RetrievedDocuments:
    if isinstance(documents, ScoredDocuments):
        return ScoredDocuments(*map(as_column, documents))
    refuse_set(documents, field)
    kept: RetrievedDocuments = as_column(documents)
    if not hasattr(kept, "__len__"):
        rule = f"must be documents (ids, or ids with scores), not {type(kept).__name__}"
        raise WrongType.of_field(field, rule)
    return kept


@dataclass(frozen=True)
class JudgedRanking(Given):
    """The shape of one query's part of the verdicts.

    With `relevant_document_ids` or `grades`, as in QueryGroup, it has no verdicts: the retrieved
    `document_ids` are matched, and `expected` is 0. `open_ended` means that no text was expected
    and each result was judged by itself; `expected` is then 1.
    """

    query_id: str
    expected: int
    retrieved: int
    document_ids: Sequence[str] = ()
    relevant_document_ids: Sequence[str] = ()
    grades: Mapping[str, int] = field(default_factory=dict)
    open_ended: bool = False

    def __post_init__(self) -> None:
        Given.__post_init__(self)
        set_grades(self)


@dataclass(frozen=True, repr=False)
class JudgedRankings(Given, View):
    """Rankings and their verdicts, ranking by ranking, each retrieved-major.

    `status`, `source` and `flags` may be empty if every verdict is OK, COMPUTED, or without a flag.
    With `human_labels`, every mean also has a corrected estimate. With `max_grade`, the highest
    grade of a judge that gives grades, metrics that weigh gains use score times max_grade.
    """

    rankings: Sequence[JudgedRanking]
    relevant: Sequence[bool]
    status: Sequence[int] = ()
    flags: Sequence[int] = ()
    score: Sequence[float] = ()
    human_labels: HumanLabels | None = None
    source: Sequence[int] = ()
    max_grade: int = 0


@dataclass(frozen=True, repr=False)
class GainRanking(Given, View):
    """One query's gains by rank, and the gains of everything relevant, retrieved or not."""

    query_id: str
    gains: Sequence[float]
    relevant_gains: Sequence[float]


@dataclass(frozen=True, repr=False)
class GainRankings(Given, View):
    """Rankings with known gains."""

    rankings: Sequence[GainRanking]


@dataclass(frozen=True, repr=False)
class IdFit(View):
    """How the ids of judged documents match those retrieved, over queries that retrieved any.

    Of `expected` ids, counted per query, `found` were retrieved for it; `retrieved` counts all.
    Of the others, `compared` were searched in another spelling; `alike` of them were found, and
    `same` of these have the same text. The last three are an example and its difference in words.
    """

    expected: int = 0
    found: int = 0
    retrieved: int = 0
    compared: int = 0
    alike: int = 0
    same: int = 0
    expected_id: str = ""
    retrieved_id: str = ""
    difference: str = ""


@dataclass(frozen=True, repr=False)
class PerQueryValues(Given, View):
    """Per-query values of earlier calls, one column per metric, to be merged into means.

    Human values may have `inclusion_probabilities`, with which each query was drawn. `id_fits` are
    those of the tables that the values come from.
    """

    query_ids: Sequence[str]
    columns: Sequence[Sequence[float]]
    inclusion_probabilities: Sequence[float] = ()
    id_fits: Sequence[IdFit] = ()


Relevance = JudgedRankings | TrecRankings | GainRankings | PerQueryValues | EmbeddedRankings
"""The inputs that metrics are computed from."""
