"""Answers measured in other ways than by one model's scores: ranked, or by similarity.

- Several systems' answers to the same queries are compared two by two. A language model is shown
  each pair in both orders, since models favour a place: ScoreAnswers by a rubric that shows
  `answer` and `other_answer`. What it prefers goes to RankSystems.
- The judge `semantic` compares embeddings: the similarity of an answer is the best cosine over its
  references, 0 where that is negative.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise, permutations
from operator import or_

from judged._batching.judging import Progress
from judged._inputs import Given
from judged.client import Client
from judged.errors import InvalidArgument
from judged.values import (
    AnswerItem,
    AnswerScore,
    Asking,
    Flag,
    IntervalOptions,
    Judge,
    JudgeIdentity,
    MetricOptions,
    MetricResult,
    PairedComparison,
    PerQueryValues,
    QueryGroup,
    Rubric,
    ScoredAnswers,
    SystemRanking,
    TextItem,
)

RUBRIC = "answer_preference"
METRIC = "semantic_similarity"


@dataclass(frozen=True, slots=True)
class CandidateAnswer(Given):
    """What one system answered to one query, and what a rubric may show beside it."""

    query_id: str
    system: str
    query: str
    answer: str
    references: Sequence[str] = ()
    contexts: Sequence[str] = ()


class AnswerPairs:
    """The pairs of answers to be compared, in both orders.

    Raises InvalidArgument for a system that answers a query twice, for a query id with two
    queries, and where no query has the answers of two systems.
    """

    def __init__(self, answers: Iterable[CandidateAnswer]) -> None:
        of_query: dict[str, dict[str, CandidateAnswer]] = {}
        for place, one in enumerate(answers):
            known = of_query.setdefault(one.query_id, {})
            rule = ""
            if one.system in known:
                rule = f"is a second answer of {one.system!r} to query {one.query_id!r}"
            elif any(other.query != one.query for other in known.values()):
                rule = f"has another query under the id {one.query_id!r} than an answer before it"
            if rule:
                raise InvalidArgument.of_field(f"answers[{place}]", rule)
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


def compare_answers(
    answers: Iterable[CandidateAnswer] | AnswerPairs,
    *,
    client: Client,
    rubric: Rubric | str = RUBRIC,
    interval: IntervalOptions | None = None,
    asking: Asking | None = None,
    timeout: float | None = None,
    progress: Progress | None = None,
) -> ComparedAnswers:
    """Return the ranking of systems by their answers, each pair compared in both orders.

    An empty answer loses against any other without a call, and equal answers tie without one.
    Comparisons without an outcome are left out. Which models the systems are made of is not known
    here: `judged.evaluation.check_circular(info, Judge("answers"), models)` warns where one of them
    compares its own answers. Raises as `Client.score_answers` and `Client.rank_systems` do, and
    InvalidArgument where nothing has an outcome.
    """
    pairs = answers if isinstance(answers, AnswerPairs) else AnswerPairs(answers)
    scores: ScoredAnswers | None = None
    if pairs.items:
        scores = client.score_answers(
            pairs.items, [rubric], asking=asking, timeout=timeout, progress=progress
        )
    comparisons, missing = pairs.compared(scores or ())
    ranking = client.rank_systems(comparisons, interval, timeout=timeout)
    return ComparedAnswers(ranking, comparisons, scores, missing)


@dataclass(frozen=True, slots=True)
class AnswerSimilarity:
    """The similarity of each answer, as a metric.

    `truncated` counts the answers of which only the beginning was compared, since a text is longer
    than the model's window. Of an answer that is compared with words that the model does not know,
    `unread` counts one; where it knows none the value is NaN, and `without_value` counts one.
    """

    metric: MetricResult
    truncated: int
    judge: JudgeIdentity
    unread: int = 0
    without_value: int = 0


def answer_similarity(
    items: Sequence[TextItem],
    *,
    client: Client,
    judge: Judge | str = "semantic",
    interval: IntervalOptions | None = None,
    timeout: float | None = None,
) -> AnswerSimilarity:
    """Return how close answers are to their references.

    Raises InvalidArgument for an item without references, and where a comparison failed; else as
    `Client.judge` and `Client.compute_metrics` do.
    """
    given = list(items)
    for place, item in enumerate(given):
        if not item.references:
            raise InvalidArgument.of_field(f"items[{place}].references", "must not be empty")
    groups = [
        QueryGroup("", item.references, [item.hypothesis], str(place))
        for place, item in enumerate(given)
    ]
    verdicts = client.judge(groups, judge, timeout=timeout)
    unknown = {p for p, e in verdicts.errors.items() if e.reason == "UNSUPPORTED_TEXT"}
    for place in verdicts.errors.keys() - unknown:
        rule = f"could not be compared: {verdicts.errors[place].message}"
        raise InvalidArgument.of_field(f"items[{bisect(verdicts.offsets, place) - 1}]", rule)
    values: list[float] = []
    truncated = unread = 0
    for first, last in pairwise(verdicts.offsets):
        scores = [verdicts.score[place] for place in range(first, last) if place not in unknown]
        values.append(max(scores, default=math.nan))
        flags = Flag(reduce(or_, verdicts.flags[first:last]))
        truncated += Flag.TRUNCATED in flags
        unread += Flag.UNKNOWN_TOKENS in flags or len(scores) < last - first
    known = {str(place): value for place, value in enumerate(values) if not math.isnan(value)}
    [mean] = client.compute_metrics(
        [METRIC],
        PerQueryValues(list(known), [list(known.values())]),
        MetricOptions(per_query=True, interval=interval),
        timeout=timeout,
    )
    signature = f"{METRIC}|judge:{verdicts.judge.scoring_key[:8]}|v1"
    metric = MetricResult(
        METRIC,
        mean.mean if mean.n else None,
        mean.n,
        None,
        None,
        signature,
        values,
        interval=mean.interval,
    )
    missing = len(values) - len(known)
    return AnswerSimilarity(metric, truncated, verdicts.judge, unread, missing)
