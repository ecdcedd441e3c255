"""Several systems' answers to the same queries, compared two by two and ranked.

A language model is shown each pair in both orders, since models favour a place: ScoreAnswers by a
rubric that shows `answer` and `other_answer`. What it prefers goes to RankSystems.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from judged._inputs import as_list, need_each, need_id, set_fields
from judged.errors import InvalidArgument
from judged.values import (
    AnswerItem,
    AnswerScore,
    PairedComparison,
    ScoredAnswers,
    SystemRanking,
)

RUBRIC = "answer_preference"


@dataclass(frozen=True, slots=True)
class CandidateAnswer:
    """What one system answered to one query, and what a rubric may show beside it."""

    query_id: str
    system: str
    query: str
    answer: str
    references: Sequence[str] = ()
    contexts: Sequence[str] = ()

    def __post_init__(self) -> None:
        set_fields(
            self,
            query_id=need_id(self.query_id, "query_id"),
            system=need_id(self.system, "system"),
            references=as_list(self.references),
            contexts=as_list(self.contexts),
        )


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
