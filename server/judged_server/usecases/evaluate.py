"""The whole pipeline over groups: drop duplicates, judge, match, measure.

Groups may come in parts. Once a part is judged, what stays of it are a few bytes a verdict, the ids
of its queries, and the metadata that slices are made by. No metric looks at negative references:
what matches one is told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
from judged.values.choices import Matching, Status
from judged.values.judges import JudgeIdentity, Usage
from judged.values.metrics import NegativeMatch, NegativeReport
from judged.values.verdicts import VerdictCounts

from judged_server import errors
from judged_server.domain import (
    BoolArray,
    FloatArray,
    IntArray,
    JudgeSpec,
    QueryGroup,
    ScoreColumns,
    VerdictFault,
    Verdicts,
    counts_of,
)
from judged_server.judges.base import Caller, Judge, size_of
from judged_server.judges.catalog import JudgeCatalog
from judged_server.llm.budget.budgets import unpriced
from judged_server.metrics.compute import Judging, check_modes, check_open_ended, compute_merged
from judged_server.metrics.input.id_fit import IdFit
from judged_server.metrics.input.judged_ids import JudgedIds
from judged_server.metrics.matching import JudgedResults, grades_of
from judged_server.metrics.measures.formulas import FAMILIES
from judged_server.metrics.measures.names import Measure
from judged_server.metrics.table import MetricOptions, MetricTable, with_intervals_and_slices
from judged_server.scheduling.concurrency import run_by_size, run_computation
from judged_server.usecases.distinct_groups import DistinctGroups, Part
from judged_server.usecases.judge_batch import check_groups_fit, fill_expected, judge_batch


def negative_groups(judge: Judge, groups: Sequence[QueryGroup], first: int = 0) -> list[QueryGroup]:
    """Return a group for each that has negatives, in order, which expects those.

    `first` is the place of the first one among all groups. Raises InvalidField for a judge that
    reads no texts.
    """
    found = []
    for index, group in enumerate(groups, first):
        if group.negatives:
            if judge.wants_embeddings or judge.wants_spans:
                rule = f"are texts, which {judge.identity.signature} does not take; leave them out"
                raise errors.InvalidField(f"groups[{index}].negatives", rule)
            found.append(QueryGroup("", group.query, group.negatives, group.retrieved))
    return found


def matches_of(part: Part, verdicts: Verdicts) -> list[tuple[int, NegativeMatch]]:
    """Return each result of a part that matches a negative, with the place of its group there.

    `verdicts` are those of the groups that `negative_groups` made of the part's.
    """
    matches: list[tuple[int, NegativeMatch]] = []
    queries = 0
    for place, group in enumerate(part.groups):
        if not group.negatives:
            continue
        start, end = verdicts.offsets[queries : queries + 2]
        queries += 1
        found = np.flatnonzero(verdicts.relevant[start:end])
        if not len(found):
            continue
        scores = verdicts.columns.scores[start:end][found].tolist()
        names = part.document_ids(place)
        for pair, score in zip(found.tolist(), scores, strict=True):
            row, negative = divmod(pair, len(group.negatives))
            rank = part.ranks[place][row]
            match = NegativeMatch(group.query_id, rank, negative, names[row], score)
            matches.append((place, match))
    return matches


def results_of(part: Part, verdicts: Verdicts, max_grade: int, *, own: bool) -> JudgedResults:
    """Return the results of a part by one of its judges, its `own` or one of a family of metrics.

    The grades of the own judge, where it gives some, are the gains.
    """
    groups = part.asked if own else part.groups
    max_grade = max_grade if own else 0
    statuses = verdicts.columns.statuses
    n_retrieved: IntArray = np.array([group.n_retrieved for group in groups], np.int64)
    n_expected: IntArray = np.array([group.n_expected for group in groups], np.int64)
    open_ended: BoolArray | None = None
    if own and part.open_ended is not None:
        open_ended = np.array(part.open_ended, np.bool_)
    return JudgedResults(
        verdicts.relevant,
        n_retrieved,
        n_expected,
        None if statuses is None else statuses != Status.OK,
        gains=grades_of(verdicts.columns.scores, max_grade) if max_grade else None,
        max_grade=max_grade,
        judged_ids=part.judged_ids,
        open_ended=open_ended,
    )


def join(parts: Sequence[JudgedResults], begins: IntArray, n_dropped: int) -> JudgedResults:
    """Return the results of all parts as one.

    `begins` are the groups, counted over all parts, that continue no other; `n_dropped` the
    duplicates that were dropped.
    """
    missing: BoolArray | None = None
    if any(part.missing is not None for part in parts):
        missing = np.concatenate(
            [
                np.zeros(len(part.relevant), np.bool_) if part.missing is None else part.missing
                for part in parts
            ]
        )
    gains: FloatArray | None = None
    max_grade = max(part.max_grade for part in parts)
    if max_grade:
        # A part that has none was matched by id before there was anything to judge.
        none = np.zeros(0)
        gains = np.concatenate([none if part.gains is None else part.gains for part in parts])
    judged_ids: JudgedIds | None = None
    if any(part.judged_ids is not None for part in parts):
        of_parts = [
            part.judged_ids or JudgedIds.none(len(part.n_retrieved), int(part.n_retrieved.sum()))
            for part in parts
        ]
        judged_ids = JudgedIds.join(of_parts, begins)
    open_ended: BoolArray | None = None
    if any(part.open_ended is not None for part in parts):
        every = [part.is_open_ended(np.arange(len(part.n_expected))) for part in parts]
        open_ended = np.concatenate(every)[begins]
    return JudgedResults(
        np.concatenate([part.relevant for part in parts]),
        np.add.reduceat(np.concatenate([part.n_retrieved for part in parts]), begins),
        np.concatenate([part.n_expected for part in parts])[begins],
        missing,
        n_dropped,
        gains,
        max_grade,
        judged_ids,
        open_ended,
    )


@dataclass(frozen=True, slots=True)
class FamilyJudge:
    """The metrics of one family that were asked for, and the judge they bring.

    `place` is where the first of them stands in the request.
    """

    judge: Judge
    measures: Sequence[Measure]
    place: int

    @property
    def bound(self) -> list[Measure]:
        """The metrics as measures over this judge's verdicts."""
        signature = self.judge.identity.signature
        return [measure.judged_by(signature) for measure in self.measures]

    def read(self, groups: Sequence[QueryGroup], first: int = 0) -> list[QueryGroup]:
        """Return the groups as this judge reads them; `first` is the place of the first of them.

        Raises InvalidField where the judge compares texts and a group brings none.
        """
        return [self._read(group, index) for index, group in enumerate(groups, first)]

    def _read(self, group: QueryGroup, index: int) -> QueryGroup:
        if self.judge.wants_embeddings and group.embeddings is not None:
            return group
        if group.embeddings is None and group.spans is None:
            return group
        texts = len(group.expected), len(group.retrieved)
        if texts != (group.n_expected, group.n_retrieved) and group.n_contexts:
            brings = "spans" if group.embeddings is None else "embeddings"
            rule = f"{self.measures[0]} compares texts, and groups[{index}] brings {brings} only"
            what_to_do = "send its texts too, or leave the metric out"
            raise errors.InvalidField(f"metrics[{self.place}]", f"{rule}; {what_to_do}")
        return replace(group, embeddings=None, spans=None)


def own_measures(measures: Sequence[Measure]) -> list[Measure]:
    """Return the metrics that the request's judge decides."""
    return [measure for measure in measures if not measure.metric.family]


def family_judges(
    catalog: JudgeCatalog, measures: Sequence[Measure], groups: Sequence[QueryGroup]
) -> list[FamilyJudge]:
    """Return the judges that the families among the metrics bring.

    `groups` show whether a judge is to compare the caller's vectors. Raises as the catalog does
    where a judge can't run here.
    """
    judges = []
    for family in FAMILIES.values():
        places = [i for i, measure in enumerate(measures) if measure.metric.family == family.name]
        if places:
            spec = JudgeSpec(family.kind, family.profile, family.min_score)
            judge = catalog.choose(spec, groups=groups)
            judges.append(FamilyJudge(judge, [measures[i] for i in places], places[0]))
    return judges


_Known = tuple[list[str], Sequence[str], Mapping[str, int]]
"""The ids that a group retrieved, the relevant ones, and their grades."""

Once = Callable[[Callable[[Caller], Coroutine[Any, Any, Verdicts]]], Awaitable[Verdicts]]
"""Gives the verdicts that a piece of work returns, or those that it returned before."""
FaultOf = Callable[[Exception], tuple[errors.JudgedError, VerdictFault]]
"""Says what a failure is for the whole call, and for one context."""


@dataclass(frozen=True, slots=True)
class JudgedPart:
    """The verdicts of a part by the request's judge, None where it had nothing to do.

    `on_negatives` are the verdicts of its results against the negatives of their groups, None where
    there are none; `matches` those that match.
    """

    verdicts: Verdicts | None
    on_negatives: Verdicts | None
    matches: Sequence[NegativeMatch]
    usage: Usage | None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Metrics over groups, and what they rest on.

    `identity` is that of the request's judge, None where it had nothing to do. `counts` are those
    of the verdicts of every judge that ran for the metrics. The matches of `negatives` are those of
    its parts.
    """

    table: MetricTable
    query_ids: Sequence[str]
    identity: JudgeIdentity | None
    counts: VerdictCounts
    negatives: NegativeReport | None = None
    usage: Usage | None = None


class PartedEvaluation:
    """One evaluation: parts are received in order, judged in any order, and measured together."""

    def __init__(
        self,
        catalog: JudgeCatalog,
        spec: JudgeSpec,
        measures: Sequence[Measure],
        options: MetricOptions,
        caller: Caller,
        *,
        keep_verdicts: bool = True,
    ) -> None:
        """Raise InvalidField for metrics that the matching leaves undefined.

        The judge of `spec` runs if a metric needs it, if there are negatives, and where its
        verdicts are to be kept.
        """
        check_modes(measures, options.matching, families=True, by_id=True)
        self._catalog = catalog
        self._spec = spec
        self._measures = measures
        self._options = options
        self._caller = caller
        self._own = own_measures(measures)
        self._asks_own = bool(self._own) or keep_verdicts
        family_names = {measure.metric.family for measure in measures}
        self._n_columns = bool(self._own) + len(family_names.intersection(FAMILIES))
        self._judge: Judge | None = None
        self._families: Sequence[FamilyJudge] = ()
        self._groups = DistinctGroups(strict=options.strict_duplicates)
        self._id_fit = IdFit()
        self._last_known: Sequence[_Known] = ()
        self._continued: list[bool] = []
        self._judged: list[Sequence[JudgedResults]] = []
        self._metadata: list[Mapping[str, str]] = []
        self._needed = False
        self._counts = VerdictCounts()
        self._usage: Usage | None = None
        self._with_negatives: set[int] = set()
        self._hit: set[int] = set()
        self._negative_counts = VerdictCounts()
        self._answered = False
        self._failure: errors.JudgedError | None = None

    @property
    def identity(self) -> JudgeIdentity | None:
        """The request's judge; None as long as nothing was received that it could judge."""
        return None if self._judge is None else self._judge.identity

    async def receive(self, groups: Sequence[QueryGroup], *, continues: bool = False) -> Part:
        """Return the next part, its results without duplicates, ready to be judged.

        With `continues` its first group goes on where the last one ended. Raises InvalidField and
        what the catalog raises; paths count groups over all parts.
        """
        by_id = all(group.by_id for group in groups)
        check_modes(self._measures, self._options.matching, families=True, by_id=by_id)
        part = await run_by_size(size_of(groups), self._distinct, groups, continues=continues)
        if self._judge is None and any(map(_can_be_judged, groups)):
            self._settle(groups)
        part.asked = part.groups if self._asks_own else ()
        if self._judge is not None:
            if self._asks_own:
                check_groups_fit(self._judge, part.groups, first=part.first)
                part.asked = fill_expected(self._judge, part.groups)
                if not self._judge.needs_expected and any(g.open_ended for g in part.groups):
                    part.open_ended = [group.open_ended for group in part.groups]
                    check_open_ended(self._measures, self._judge.identity.max_grade)
            part.negatives = negative_groups(self._judge, part.groups, part.first)
        part.of_families = [family.read(part.groups, part.first) for family in self._families]
        self._needed |= bool(part.negatives) or (self._asks_own and not all(part.by_id))
        if self._options.slice_by:
            self._metadata += [
                {key: group.metadata.get(key, "") for key in self._options.slice_by}
                for group in groups[continues:]
            ]
        self._with_negatives.update(
            part.first + i for i, group in enumerate(part.groups) if group.negatives
        )
        self._continued += [continues, *(False for _ in groups[1:])]
        self._judged.append(())
        return part

    async def judge(
        self, part: Part, once: Once | None = None, fault_of: FaultOf | None = None
    ) -> JudgedPart:
        """Return the verdicts of a part.

        A failure is raised, but with `fault_of` it is the fault of each context: `measure` then
        raises only if nothing at all was judged. InvalidField is raised either way.
        """
        asked = part.asked
        n = len(asked)
        both = await self._verdicts(self._judge, [*asked, *part.negatives], once, fault_of)
        verdicts = both.of_groups(0, n) if part.negatives else both
        columns = [verdicts] if self._own else []
        if part.of_families:
            for family, groups in zip(self._families, part.of_families, strict=True):
                columns.append(await self._of_family(family, groups, verdicts, fault_of))
        else:  # there are none, or nothing in this part or before it could be judged
            columns += [verdicts] * (self._n_columns - len(columns))
        max_grade = 0 if self.identity is None else self.identity.max_grade
        self._judged[part.number] = [
            # The families, behind the request's own judge, give no grades and need expected texts.
            results_of(part, column, max_grade, own=bool(self._own) and place == 0)
            for place, column in enumerate(columns)
        ]
        for column in columns:
            self._counts += counts_of(column)
        usage = both.columns.usage
        if usage is not None:
            self._usage = usage if self._usage is None else self._usage + usage
        on_negatives, told = None, []
        if part.negatives:
            on_negatives = both.of_groups(n, n + len(part.negatives))
            self._negative_counts += counts_of(on_negatives)
            matches = matches_of(part, on_negatives)
            self._hit.update(part.first + place for place, _ in matches)
            told = [match for _, match in matches]
        return JudgedPart(verdicts if self._asks_own else None, on_negatives, told, usage)

    async def measure(self) -> Evaluation:
        """Return the metrics of all parts, which are all judged.

        Raises InvalidField when there is none, the first failure when nothing at all could be
        judged, and as the metrics do.
        """
        if not self._judged:
            raise errors.InvalidField("groups", "must hold at least one group")
        if self._failure is not None and not self._answered:
            raise self._failure
        if self._judge is None:
            self._settle(())
        self._id_fit.see(self._last_known)
        table = await run_computation(self._table)
        report = None
        if self._with_negatives:
            report = NegativeReport(
                len(self._with_negatives), len(self._hit), (), self._negative_counts
            )
        identity = self.identity if self._needed else None
        query_ids = list(self._groups.query_ids)
        return Evaluation(table, query_ids, identity, self._counts, report, self._usage)

    def _distinct(self, groups: Sequence[QueryGroup], *, continues: bool) -> Part:
        """Return the groups without repeated results, and look at the ids of those with some."""
        part = self._groups.add(groups, continues=continues)
        known: list[_Known] = []
        if any(part.by_id):
            known = [
                (list(part.document_ids(i)), group.relevant_document_ids, group.grades)
                for i, group in enumerate(part.groups)
            ]
            part.judged_ids = JudgedIds.of(known)
        # The last group waits until it is known whether the next part goes on with it.
        if continues and known and self._last_known:
            begun = self._last_known[0][0]
            begun += known[0][0]
            known[0] = (begun, *known[0][1:])
            self._last_known = ()
        self._id_fit.see([*self._last_known, *known[:-1]])
        self._last_known = known[-1:]
        return part

    def _settle(self, groups: Sequence[QueryGroup]) -> None:
        """Choose the judges; `groups` show whether they are to compare the caller's vectors."""
        judge = self._catalog.choose(self._spec, groups=groups)
        if groups:
            if self._caller.cost_tracker.max_cost is not None and not judge.priced:
                raise unpriced()
            judge.check_api_keys(self._caller.cache)
        self._families = family_judges(self._catalog, self._measures, groups)
        self._judge = judge

    async def _verdicts(
        self,
        judge: Judge | None,
        groups: Sequence[QueryGroup],
        once: Once | None,
        fault_of: FaultOf | None,
    ) -> Verdicts:
        offsets = list(accumulate([group.n_contexts for group in groups], initial=0))
        if judge is None:  # and so nothing to judge
            return Verdicts(np.zeros(0, np.bool_), ScoreColumns(np.zeros(0)), offsets)

        async def work(caller: Caller) -> Verdicts:
            return await judge_batch(judge, groups, caller=caller)

        try:
            found = await (work(self._caller) if once is None else once(work))
        except errors.InvalidField:
            raise
        except Exception as error:
            if fault_of is None:
                raise
            failure, fault = fault_of(error)
            self._failure = self._failure or failure
            return _failed(offsets, fault)
        self._answered |= bool(offsets[-1])
        return found

    async def _of_family(
        self,
        family: FamilyJudge,
        groups: Sequence[QueryGroup],
        known: Verdicts,
        fault_of: FaultOf | None,
    ) -> Verdicts:
        """Return the verdicts of a family: those that are known, if their judge scores as its own.

        The others ask no language model.
        """
        own, identity = self.identity, family.judge.identity
        if self._asks_own and own is not None and own.scoring_key == identity.scoring_key:
            return Verdicts.decide(known.columns, known.offsets, identity.min_score)
        return await self._verdicts(family.judge, groups, None, fault_of)

    def _table(self) -> MetricTable:
        in_mode_any = replace(self._options, matching=Matching.ANY)
        asked = [(self._own, self._options)] if self._own else []
        asked += [(family.bound, in_mode_any) for family in self._families]
        begins = np.flatnonzero(~np.array(self._continued, np.bool_))
        n_dropped = self._groups.n_dropped
        judgings = [
            Judging(
                some, join([columns[column] for columns in self._judged], begins, n_dropped), how
            )
            for column, (some, how) in enumerate(asked)
        ]
        table = compute_merged(judgings, self._measures)
        results = judgings[0].results
        if results.judged_ids is not None:
            fit = results.judged_ids.fit(results.n_retrieved, self._id_fit)
            table = replace(table, id_fit=fit)
        return with_intervals_and_slices(table, self._options, self._metadata)


async def evaluate(
    catalog: JudgeCatalog,
    spec: JudgeSpec,
    groups: Sequence[QueryGroup],
    measures: Sequence[Measure],
    options: MetricOptions,
    *,
    keep_verdicts: bool = True,
    caller: Caller = Caller(),  # noqa: B008 - frozen
) -> tuple[Evaluation, JudgedPart]:
    """Return the metrics of groups that come all at once, and their verdicts.

    Raises as judging and the metrics do, with paths.
    """
    run = PartedEvaluation(catalog, spec, measures, options, caller, keep_verdicts=keep_verdicts)
    judged = await run.judge(await run.receive(groups))
    return await run.measure(), judged


def _can_be_judged(group: QueryGroup) -> bool:
    brought = group.embeddings is not None or group.spans is not None
    return brought or bool(group.n_contexts or group.negatives or group.open_ended)


def _failed(offsets: Sequence[int], fault: VerdictFault) -> Verdicts:
    """Return verdicts that are missing, all for the same reason."""
    n = offsets[-1]
    statuses = np.full(n, int(Status.ERROR), np.uint8)
    faults = tuple(replace(fault, index=index) for index in range(n))
    columns = ScoreColumns(np.zeros(n), statuses, faults=faults)
    return Verdicts(np.zeros(n, np.bool_), columns, offsets)
