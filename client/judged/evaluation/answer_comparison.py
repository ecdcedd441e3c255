"""Answers measured in other ways than by one model's scores: ranked, by panels, by similarity.

- Several systems' answers to the same queries are compared two by two. A language model is shown
  each pair in both orders, since models favour a place: ScoreAnswers by a rubric that shows
  `answer` and `other_answer`. What it prefers goes to RankSystems.
- The scores of several language models are combined into one, by the rules of the judge `panel`.
  That helps where models err on different answers.
- The judge `semantic` compares the embeddings of answers, references and negative references: the
  similarity of an answer is the best cosine over its references, 0 where that is negative.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import reduce
from itertools import pairwise, permutations
from operator import or_
from statistics import fmean, median

from judged._batching.judging import Progress
from judged._batching.scoring import as_rubrics, summarise
from judged._convert import Purse
from judged._inputs import Given, need_each, need_id, need_ids, set_fields
from judged.errors import InvalidArgument
from judged.values import (
    AnswerItem,
    AnswerScore,
    Asking,
    Flag,
    JudgeIdentity,
    MetricResult,
    PairedComparison,
    PerQueryValues,
    QueryGroup,
    Rubric,
    ScoredAnswers,
    Source,
    Status,
    SystemRanking,
    TextItem,
    Usage,
    VerdictError,
    Verdicts,
)

RUBRIC = "answer_preference"
METRIC = "semantic_similarity"
_LEAST, _MOST = 2, 16
_SLACK = 1e-9
_QUORUM = (
    "the members tie, or fewer than half of them gave a score; ask other models, or an odd number"
)
_UNKNOWN = 2
"""gRPC's code UNKNOWN, which scores without a quorum have."""
_SOURCES = (Source.COMPUTED, Source.SHARED, Source.REPLAY, Source.CACHE)
"""A panel's score comes from the first of these that one of its members has."""


@dataclass(frozen=True, slots=True)
class CandidateAnswer(Given):
    """What one system answered to one query, and what a rubric may show beside it."""

    query_id: str
    system: str
    query: str
    answer: str
    references: Sequence[str] = ()
    contexts: Sequence[str] = ()

    def __post_init__(self) -> None:
        Given.__post_init__(self)
        set_fields(self, system=need_id(self.system, "system"))


class AnswerPairs:
    """The pairs of answers to be compared, in both orders.

    Raises InvalidArgument for a system that answers a query twice, for a query id with two
    queries, and where no query has the answers of two systems.
    """

    def __init__(self, answers: Iterable[CandidateAnswer]) -> None:
        listed = need_each(answers, "answers", (CandidateAnswer,), "CandidateAnswer")
        of_query: dict[str, dict[str, CandidateAnswer]] = {}
        for place, one in enumerate(listed):
            known = of_query.setdefault(one.query_id, {})
            field = f"answers[{place}]"
            if one.system in known:
                rule = f"is a second answer of {one.system!r} to query {one.query_id!r}"
                raise InvalidArgument.of_field(field, rule)
            if known and next(iter(known.values())).query != one.query:
                rule = f"has another query under the id {one.query_id!r} than an answer before it"
                raise InvalidArgument.of_field(field, rule)
            known[one.system] = one
        self.items: list[AnswerItem] = []
        """What to ask, an item for each order of each pair."""
        self._asked: list[PairedComparison] = []
        self._settled: list[PairedComparison] = []
        for known in of_query.values():
            for one, other in permutations(known.values(), 2):
                said = bool(one.answer.strip()), bool(other.answer.strip())
                preference = 0.5 + 0.5 * (said[0] - said[1])
                pair = PairedComparison(one.query_id, one.system, other.system, preference)
                if not all(said) or one.answer == other.answer:
                    self._settled.append(pair)
                    continue
                shown = (one.query, one.answer, one.references, one.contexts, other.answer)
                self.items.append(AnswerItem(str(len(self._asked)), *shown))
                self._asked.append(pair)
        if not self._asked and not self._settled:
            raise InvalidArgument.of_field(
                "answers", "hold no query that two systems answered, so there is nothing to compare"
            )

    def compared(self, scores: Sequence[AnswerScore]) -> tuple[list[PairedComparison], int]:
        """Return what came of the pairs, and how many have no score.

        Raises InvalidArgument where nothing has an outcome.
        """
        found = self._settled + [
            replace(self._asked[int(score.item_id)], preference=score.score)
            for score in scores
            if score.score is not None
        ]
        missing = sum(score.score is None for score in scores)
        if not found:
            reasons = {score.error.reason for score in scores if score.error is not None}
            rule = f"none of {missing} comparisons has an outcome ({', '.join(sorted(reasons))})"
            raise InvalidArgument.of_field("answers", rule)
        return found, missing


@dataclass(frozen=True, slots=True)
class ComparedAnswers:
    """The ranking of systems, the comparisons that it rests on, and their scores.

    `missing` counts the comparisons that have no outcome; they are left out.
    """

    ranking: SystemRanking
    comparisons: Sequence[PairedComparison]
    scores: ScoredAnswers | None
    missing: int


class Combine(StrEnum):
    """How the scores of a panel's members become one."""

    MEAN = "mean"
    """The mean of their scores; it passes by the rubric's threshold."""
    MEDIAN = "median"
    """The median of their scores, which one member that errs far does not move."""
    VOTE = "vote"
    """The share of members for which the answer passes; it passes where more than half say so."""


@dataclass(frozen=True, slots=True)
class PanelScores:
    """The panel's scores, and those of each member by its model."""

    scores: ScoredAnswers
    members: dict[str, ScoredAnswers]


class AnswerPanel:
    """Answers and the rubrics by which the members of a panel score them, one after the other.

    Raises as `score_by_panel` does.
    """

    def __init__(
        self,
        items: Iterable[AnswerItem],
        rubrics: Iterable[Rubric | str],
        models: Sequence[str],
        combine: Combine | str,
        asking: Asking | None,
        progress: Progress | None,
    ) -> None:
        self._models, self._how = need_ids(models, "models"), Combine(combine)
        if not _LEAST <= len(self._models) <= _MOST:
            rule = f"must name {_LEAST} to {_MOST} models, not {len(self._models)}"
            raise InvalidArgument.of_field("models", rule)
        if len(set(self._models)) < len(self._models):
            raise InvalidArgument.of_field("models", "names a model twice; it would count twice")
        self._rubrics = as_rubrics(rubrics)
        for place, rubric in enumerate(self._rubrics):
            if "model" in rubric.parameters:
                rule = "names a model; the members of a panel are named by models"
                raise InvalidArgument.of_field(f"rubrics[{place}]", rule)
            if rubric.calibration is not None:
                rule = "is that of one model's scores, and none of a panel's; leave it out"
                raise InvalidArgument.of_field(f"rubrics[{place}].calibration", rule)
        self.items = list(items)
        self._purse, self._progress = Purse(asking), progress
        self._members: dict[str, ScoredAnswers] = {}

    def asked(self) -> Iterator[tuple[list[Rubric], Asking | None]]:
        """Yield the rubrics of each member and how it is asked; `take` its scores before the next.

        A limit on the cost is shared in equal parts, and what one leaves by those after it.
        """
        for done, name in enumerate(self._models):
            rubrics = [replace_model(rubric, name) for rubric in self._rubrics]
            yield rubrics, self._purse.rest(len(self._models) - done)

    def take(self, found: ScoredAnswers) -> None:
        """Take the scores of the next member."""
        self._members[self._models[len(self._members)]] = found
        self._purse.took(found.usage)

    def told(self, done: int, total: int) -> None:
        """Tell how far all members are."""
        if self._progress is not None:
            self._progress(len(self._members) * total + done, len(self._models) * total)

    def scores(self) -> PanelScores:
        """Return the panel's scores of what its members scored, all in the same order."""
        rows = zip(*(found.scores for found in self._members.values()), strict=True)
        scores = [_combine(row, self._how) for row in rows]
        n = len(self._rubrics)
        rubrics = [summarise(by.id, scores[place::n]) for place, by in enumerate(self._rubrics)]
        usage = sum((found.usage for found in self._members.values()), Usage())
        return PanelScores(ScoredAnswers(scores, rubrics, usage), self._members)


def replace_model(rubric: Rubric, model: str) -> Rubric:
    """Return a rubric that is asked of a model."""
    return replace(rubric, parameters={**rubric.parameters, "model": model})


def _combine(row: Sequence[AnswerScore], how: Combine) -> AnswerScore:
    valid = [score for score in row if score.score is not None]
    yes = sum(score.passed is True for score in valid)
    most = max(yes, len(valid) - yes)
    threshold = next((score.min_score for score in row if score.min_score is not None), None)
    sources = {score.source for score in row}
    made = AnswerScore(
        *(row[0].item_id, row[0].rubric, Status.OK),
        min_score=threshold,
        usage=sum((score.usage for score in row), Usage()),
        samples=len(row),
        source=next((source for source in _SOURCES if source in sources), None),
        warnings=list(dict.fromkeys(text for score in row for text in score.warnings)),
        judge=_identity(row, how),
        model=", ".join(dict.fromkeys(score.model for score in row if score.model)),
    )
    if not valid:
        worst = next((score for score in row if score.status is Status.ERROR), row[0])
        return replace(made, status=worst.status, error=worst.error)
    if 2 * len(valid) < len(row) or (how is Combine.VOTE and 2 * most == len(valid)):
        retryable = any(score.error is not None and score.error.retryable for score in row)
        error = VerdictError(_UNKNOWN, "NO_QUORUM", _QUORUM, retryable)
        return replace(made, status=Status.ABSTAINED, error=error)
    values = [score.score for score in valid if score.score is not None]
    value = median(values) if how is Combine.MEDIAN else fmean(values)
    passed = threshold is not None and value + _SLACK >= threshold
    if how is Combine.VOTE:
        value, passed = yes / len(valid), 2 * yes > len(valid)
    agreeing = next((score for score in valid if score.passed is passed), valid[0])
    return replace(
        made,
        score=value,
        passed=passed,
        reasoning=agreeing.reasoning,
        agreement=most / len(valid),
    )


def _identity(row: Sequence[AnswerScore], how: Combine) -> JudgeIdentity | None:
    """Return the panel's identity, None where a member's is not known: it never answered."""
    judges = [score.judge for score in row if score.judge is not None]
    if len(judges) < len(row):
        return None
    members = ",".join(judge.fingerprint[:8] for judge in judges)
    whole = [("fingerprint", judge.fingerprint) for judge in judges]
    parts = [("combine", how.value), ("members", members)]
    return JudgeIdentity.build("score_panel", "", judges[0].min_score, parts, 1, whole)


@dataclass(frozen=True, slots=True)
class NearNegative:
    """An answer that is at least as close to a negative reference as to any reference.

    `item` and `negative` are places, from 0; both similarities are in [0, 1].
    """

    item: int
    negative: int
    similarity: float
    to_references: float


@dataclass(frozen=True, slots=True)
class AnswerSimilarity:
    """The similarity of each answer, as a metric, and the answers that are near a negative.

    `with_negatives` counts the answers that have negative references; `truncated` those of which
    only the beginning was compared, since a text is longer than the model's window. Of an answer
    that is compared with words that the model does not know, `unread` counts one; where it knows
    none the value is NaN, and `without_value` counts one.
    """

    metric: MetricResult
    negatives: Sequence[NearNegative]
    with_negatives: int
    truncated: int
    judge: JudgeIdentity
    unread: int = 0
    without_value: int = 0

    def with_mean(self, of: MetricResult) -> AnswerSimilarity:
        """Return it with the mean and interval of another result."""
        mean = of.mean if of.n else None
        return replace(self, metric=replace(self.metric, mean=mean, n=of.n, interval=of.interval))


def similarity_groups(
    items: Sequence[TextItem], negatives: Sequence[Sequence[str]]
) -> list[QueryGroup]:
    """Return what is compared: an answer with its references, and its negatives behind them."""
    given = need_each(items, "items", (TextItem,), "TextItem")
    if negatives and len(negatives) != len(given):
        rule = f"has {len(negatives)} entries for {len(given)} items"
        raise InvalidArgument.of_field("negatives", rule)
    for place, item in enumerate(given):
        if not item.references:
            raise InvalidArgument.of_field(f"items[{place}].references", "must not be empty")
    against = negatives or [()] * len(given)
    return [
        QueryGroup("", [*item.references, *some], [item.hypothesis], str(place))
        for place, (item, some) in enumerate(zip(given, against, strict=True))
    ]


def similarity_of(items: Sequence[TextItem], verdicts: Verdicts) -> AnswerSimilarity:
    """Return the similarity of each answer by the verdicts of their groups; no mean yet.

    Raises InvalidArgument where a comparison failed.
    """
    unknown = {p for p, e in verdicts.errors.items() if e.reason == "UNSUPPORTED_TEXT"}
    for place in verdicts.errors.keys() - unknown:
        rule = f"could not be compared: {verdicts.errors[place].message}"
        raise InvalidArgument.of_field(f"items[{bisect(verdicts.offsets, place) - 1}]", rule)
    values: list[float] = []
    near: list[NearNegative] = []
    with_negatives = truncated = unread = 0
    for place, (item, (first, last)) in enumerate(
        zip(items, pairwise(verdicts.offsets), strict=True)
    ):
        scores = [math.nan if p in unknown else verdicts.score[p] for p in range(first, last)]
        n = len(item.references)
        best = max((score for score in scores[:n] if not math.isnan(score)), default=math.nan)
        values.append(best)
        flags = Flag(reduce(or_, verdicts.flags[first:last]))
        with_negatives += len(scores) > n
        truncated += Flag.TRUNCATED in flags
        unread += Flag.UNKNOWN_TOKENS in flags or any(map(math.isnan, scores))
        near += [
            NearNegative(place, index, score, best)
            for index, score in enumerate(scores[n:])
            if score >= best
        ]
    signature = f"{METRIC}|judge:{verdicts.judge.scoring_key[:8]}|v1"
    metric = MetricResult(METRIC, None, 0, None, None, signature, values)
    missing = sum(map(math.isnan, values))
    counts = (with_negatives, truncated, verdicts.judge, unread, missing)
    return AnswerSimilarity(metric, near, *counts)


def known_values(values: Sequence[float]) -> PerQueryValues:
    """Return the similarities of answers that have one."""
    known = {str(place): value for place, value in enumerate(values) if not math.isnan(value)}
    return PerQueryValues(list(known), [list(known.values())])
