"""Evaluations whose verdicts come from a record: a trace that was kept, say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from judged._batching.chunks import ASKING_KINDS, against_negatives, at_ranks, distinct_ranks
from judged._convert.groups import as_groups
from judged.errors import InvalidArgument
from judged.evaluation.labels import refuse_families
from judged.values import (
    Evaluation,
    JudgedRanking,
    JudgedRankings,
    MetricOptions,
    MetricTable,
    NegativeMatch,
    NegativeReport,
    QueryGroup,
    RubricInfo,
    VerdictCounts,
    Verdicts,
)
from judged.values.verdicts import pick_verdicts


@runtime_checkable
class RecordedJudge(Protocol):
    """Gives the verdicts of groups from what was recorded of them."""

    def verdicts(
        self, groups: Sequence[QueryGroup], rubrics: Sequence[RubricInfo]
    ) -> Verdicts | None:
        """Return a verdict for each context; None when there is nothing to judge.

        `rubrics` are those of the server, of which a recorded rubric must be one.
        """
        ...


class RecordedEvaluation:
    """The evaluation of groups by recorded verdicts; ComputeMetrics measures them."""

    def __init__(
        self, groups: Iterable[QueryGroup], metrics: Sequence[str], options: MetricOptions
    ) -> None:
        """Raise InvalidArgument for no groups, and for what a record can't stand for.

        That are metrics that bring a judge of their own, and repeated results where those are
        refused.
        """
        refuse_families(metrics)
        self._given = as_groups(groups)
        if not self._given:
            raise InvalidArgument.of_field("groups", "must hold at least one group")
        self._ranks = [
            distinct_ranks(group, f"groups[{i}]", strict=options.strict_duplicates)
            for i, group in enumerate(self._given)
        ]
        pairs = zip(self._given, self._ranks, strict=True)
        self._distinct = [at_ranks(group, ranks) for group, ranks in pairs]
        self.options = replace(options, strict_duplicates=False)  # none is left
        """The options to measure with."""
        self._verdicts: Verdicts | None = None
        self._on_negatives: Verdicts | None = None

    def take(self, judge: RecordedJudge, rubrics: Sequence[RubricInfo]) -> None:
        """Take the verdicts of a recorded judge. Raises as it does."""
        self.take_verdicts(judge.verdicts(self.to_judge, rubrics))

    @property
    def to_judge(self) -> list[QueryGroup]:
        """The groups that verdicts are needed of; those of negatives are behind the others."""
        own = [replace(group, negatives=()) for group in self._distinct]
        return [*own, *against_negatives(self._distinct)]

    def take_verdicts(self, verdicts: Verdicts | None) -> None:
        """Take the verdicts of `to_judge`; None when there was nothing to judge."""
        n = len(self._distinct)
        self._verdicts = verdicts
        if verdicts is not None and len(verdicts.offsets) > n + 1:
            self._verdicts = of_groups(verdicts, 0, n)
            self._on_negatives = of_groups(verdicts, n, len(verdicts.offsets) - 1)

    @property
    def metadata(self) -> Mapping[str, Mapping[str, str]]:
        """What is known of the queries, where slices are asked for."""
        if not self.options.slice_by:
            return {}
        return {group.query_id: group.metadata for group in self._given if group.metadata}

    @property
    def rankings(self) -> JudgedRankings:
        """The groups as ComputeMetrics takes them: those with relevant ids matched by id."""
        verdicts = self._verdicts
        # Their rubrics need not show what was expected; all other judges compare with it.
        asks = verdicts is not None and verdicts.judge.kind in ASKING_KINDS
        rankings = [self._ranking(group, asks=asks) for group in self._distinct]
        if verdicts is None:
            return JudgedRankings(rankings, [])
        grades = {"score": verdicts.score, "max_grade": verdicts.judge.max_grade}
        return JudgedRankings(
            *(rankings, verdicts.relevant, verdicts.status),
            source=verdicts.source,
            **(grades if verdicts.judge.max_grade else {}),  # type: ignore[arg-type]
        )

    def _ranking(self, group: QueryGroup, *, asks: bool) -> JudgedRanking:
        n = group.n_retrieved
        if not group.by_id:
            ended = asks and group.open_ended
            return JudgedRanking(group.query_id, group.n_expected, n, open_ended=ended)
        found = group.document_ids or [f"retrieved_{rank}" for rank in range(n)]
        return JudgedRanking(group.query_id, 0, n, found, group.relevant_document_ids, group.grades)

    def evaluation(self, table: MetricTable) -> Evaluation:
        """Return the evaluation, given what ComputeMetrics made of the rankings."""
        n_given = sum(group.n_retrieved for group in self._given)
        dropped = n_given - sum(group.n_retrieved for group in self._distinct)
        counts = replace(
            table.counts,
            duplicates=table.counts.duplicates + dropped,
            verdicts=VerdictCounts.of(self._verdicts),
        )
        verdicts = self._verdicts
        return Evaluation(
            table=replace(table, counts=counts),
            judge=None if verdicts is None else verdicts.judge,
            verdicts=verdicts,
            negatives=None if self._on_negatives is None else self._report(self._on_negatives),
            usage=None if verdicts is None else verdicts.usage,
        )

    def _report(self, verdicts: Verdicts) -> NegativeReport:
        matches: list[NegativeMatch] = []
        queries = hit = 0
        for group, ranks in zip(self._distinct, self._ranks, strict=True):
            if not group.negatives:
                continue
            start, end = verdicts.offsets[queries : queries + 2]
            queries += 1
            places = [place for place in range(start, end) if verdicts.relevant[place]]
            hit += bool(places)
            for place in places:
                rank, negative = divmod(place - start, len(group.negatives))
                name = group.document_ids[rank] if group.document_ids else f"retrieved_{rank}"
                score = verdicts.score[place]
                found = NegativeMatch(group.query_id, ranks[rank], negative, name, score)
                matches.append(found)
        return NegativeReport(queries, hit, matches, VerdictCounts.of(verdicts))


def of_groups(verdicts: Verdicts, begin: int, end: int) -> Verdicts:
    """Return the verdicts of the groups from `begin` up to, not including, `end`."""
    first, last = verdicts.offsets[begin], verdicts.offsets[end]
    offsets = [offset - first for offset in verdicts.offsets[begin : end + 1]]
    return pick_verdicts(verdicts, range(first, last), offsets, verdicts.groups[begin:end])
