"""Evaluates groups: drops duplicate results, judges, matches, and computes the metrics.

Groups may come in parts. Once a part is judged, only a few bytes per verdict, the query ids, and
the metadata of slices are kept. Negative references enter no metric; results that match one are
reported.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from judged.values.choices import Matching, Status
from judged.values.groups import VerdictCounts
from judged.values.judges import JudgeIdentity, Usage
from judged.values.metrics import NegativeMatch, NegativeReport

from judged_server import errors
from judged_server.domain import (
    Group,
    IntArray,
    JudgeSpec,
    ScoreColumns,
    VerdictFault,
    Verdicts,
    counts_of,
    need,
)
from judged_server.judges.base import ANONYMOUS, Caller, Judge, size_of
from judged_server.judges.catalog import JudgeCatalog
from judged_server.llm.budgets import unpriced
from judged_server.metrics.compute import (
    Judging,
    MetricTable,
    SettledOptions,
    check_modes,
    check_open_ended,
    compute_merged,
    with_intervals_and_slices,
)
from judged_server.metrics.input.id_fit import IdSample
from judged_server.metrics.input.judged_ids import JudgedIds
from judged_server.metrics.matching import JudgedResults, grades_of
from judged_server.metrics.measures import FAMILIES, Measure
from judged_server.scheduling.concurrency import run_by_size, run_computation
from judged_server.usecases.judge_batch import check_groups_fit, fill_expected, judge_batch

_Known = tuple[list[str], Sequence[str], Mapping[str, int]]
"""The retrieved ids of a group, its relevant ids, and their grades."""

Once = Callable[[Callable[[Caller], Coroutine[Any, Any, Verdicts]]], Awaitable[Verdicts]]
"""Runs work and returns its verdicts, or returns those of an earlier run."""
FaultOf = Callable[[Exception], tuple[errors.JudgedError, VerdictFault]]
"""Returns a failure as an error of the whole call, and as the fault of one context."""


@dataclass(slots=True)
class Part:
    """Groups that were sent together, without duplicate results, and their place in the whole.

    `number` is the part's place, `first` that of its first group, both from 0. `ranks` has for each
    group the original ranks of its remaining results. `asked` are the groups for the request's
    judge; `open_ended` says in which of them it judges each result by itself. Also judged are
    `negatives`, one group per group with negatives, which are its expected texts; and
    `of_families`, the groups as each family's judge reads them. `judged_ids` is set if a group is
    matched by document id.
    """

    first: int
    groups: Sequence[Group]
    ranks: Sequence[Sequence[int]]
    number: int = 0
    asked: Sequence[Group] = ()
    open_ended: Sequence[bool] = ()
    negatives: Sequence[Group] = ()
    of_families: Sequence[Sequence[Group]] = ()
    judged_ids: JudgedIds | None = None

    def document_ids(self, index: int) -> Sequence[str]:
        """Return the ids of a group's results, "retrieved_RANK" where there are no ids."""
        ids = self.groups[index].document_ids
        return ids or [f"retrieved_{rank}" for rank in self.ranks[index]]

    def matches(self, verdicts: Verdicts) -> list[NegativeMatch]:
        """Return each result that matches a negative; `verdicts` are those of `negatives`."""
        found: list[NegativeMatch] = []
        places = [place for place, group in enumerate(self.groups) if group.negatives]
        for place, (first, last) in zip(places, pairwise(verdicts.offsets), strict=True):
            group, ranks, names = self.groups[place], self.ranks[place], self.document_ids(place)
            for pair in np.flatnonzero(verdicts.relevant[first:last]).tolist():
                row, negative = divmod(pair, len(group.negatives))
                score = float(verdicts.columns.scores[first + pair])
                found.append(NegativeMatch(group.query_id, ranks[row], negative, names[row], score))
        return found


_SHARED = ("query_id", "query", "expected", "relevant_document_ids", "negatives", "grades")
"""The fields that must be equal in all parts of a group."""
_CONTINUED = (
    "does not continue the group before: parts of a group have the same query and expected texts, "
    "all or none of them document_ids and embeddings, and no spans"
)


@dataclass
class DistinctGroups:
    """Takes groups in parts and drops duplicate results; with `strict` it raises instead.

    `places` has the place of each query by id, in order; `n_dropped` counts dropped results.
    """

    strict: bool
    places: dict[str, int] = field(default_factory=dict)
    n_dropped: int = 0
    _last: Group | None = None
    _seen: dict[object, int] = field(default_factory=dict)
    _n_received: int = 0

    def add(self, groups: Sequence[Group], *, continues: bool) -> Part:
        """Return the next part; with `continues` its first group continues the last one.

        Raises InvalidField for an id that is missing or repeated.
        """
        first = len(self.places) - continues
        distinct: list[Group] = []
        ranks: list[Sequence[int]] = []
        for i, group in enumerate(groups):
            path = f"groups[{first + i}]"
            if continues and i == 0:
                self._check_continued(group, path)
            else:
                self._begin(group, path)
            kept = self._kept(group, f"{path}.document_ids")
            distinct.append(group if kept is None else group.at_ranks(kept))
            places = range(group.n_retrieved) if kept is None else kept
            ranks.append([self._n_received + place for place in places])
            self._n_received += group.n_retrieved
            self.n_dropped += group.n_retrieved - len(places)
        self._last = groups[-1]
        return Part(first, distinct, ranks)

    def _begin(self, group: Group, path: str) -> None:
        need(group.query_id != "", f"{path}.query_id", "must be set")
        place = len(self.places)
        first = self.places.setdefault(group.query_id, place)
        rule = f"repeats groups[{first}].query_id"
        need(first == place, f"{path}.query_id", rule)
        self._seen, self._n_received = {}, 0

    def _check_continued(self, group: Group, path: str) -> None:
        last = self._last
        if last is None:
            raise errors.InvalidField("chunk.continues", "is set, and there is no group before")
        alike = {name: getattr(group, name) == getattr(last, name) for name in _SHARED}
        retrieve = group.n_retrieved and last.n_retrieved
        for name in ("document_ids", "embeddings"):
            alike[name] = not retrieve or bool(getattr(group, name)) == bool(getattr(last, name))
        alike["spans"] = group.spans is None
        for name, fits in alike.items():
            need(fits, f"{path}.{name}", _CONTINUED)

    def _kept(self, group: Group, path: str) -> list[int] | None:
        """Return the places of a group's results to keep, None to keep all.

        A duplicate has the id of an earlier result and, if given, the same text or span.
        """
        if not group.document_ids:
            return None
        keys: Sequence[object] = group.document_ids
        if group.spans is not None:
            spans = map(tuple, group.spans.retrieved.tolist())
            keys = list(zip(group.document_ids, spans, strict=True))
        elif group.retrieved:
            keys = list(zip(group.document_ids, group.retrieved, strict=True))
        kept = []
        for place, key in enumerate(keys):
            rank = self._n_received + place
            earlier = self._seen.setdefault(key, rank)
            if earlier == rank:
                kept.append(place)
            elif self.strict:
                same = "id" if keys is group.document_ids else "id and text"
                raise errors.InvalidField(f"{path}[{rank}]", f"has the {same} of entry {earlier}")
        return None if len(kept) == len(keys) else kept


def results_of(verdicts: Verdicts, groups: Sequence[tuple[int, int]]) -> JudgedResults:
    """Return the judged results of groups, given as pairs (n_retrieved, n_expected)."""
    sizes: IntArray = np.array(groups, np.int64).reshape(-1, 2)
    missing = verdicts.columns.filled("statuses") != Status.OK
    return JudgedResults(verdicts.relevant, sizes[:, 0], sizes[:, 1], missing)


def join(parts: Sequence[JudgedResults], begins: IntArray, n_dropped: int) -> JudgedResults:
    """Join the results of all parts; each must have `missing`, `gains` and `open_ended`.

    `begins` are the places, over all parts, of groups that continue no other; `n_dropped` is the
    number of dropped duplicates.
    """

    def joined(name: str) -> Any:  # noqa: ANN401 - an array
        return np.concatenate([getattr(part, name) for part in parts])

    judged_ids: JudgedIds | None = None
    if any(part.judged_ids is not None for part in parts):
        of_parts = [
            part.judged_ids or JudgedIds.none(len(part.n_retrieved), int(part.n_retrieved.sum()))
            for part in parts
        ]
        judged_ids = JudgedIds.join(of_parts, begins)
    missing, open_ended = joined("missing"), joined("open_ended")[begins]
    max_grade = max(part.max_grade for part in parts)
    return JudgedResults(
        joined("relevant"),
        np.add.reduceat(joined("n_retrieved"), begins),
        joined("n_expected")[begins],
        missing if missing.any() else None,
        n_dropped,
        joined("gains") if max_grade else None,
        max_grade,
        judged_ids,
        open_ended if open_ended.any() else None,
    )


@dataclass(slots=True)
class FamilyJudge:
    """The requested metrics of one family, and the judge that they need.

    `place` is the place of the first one in the request. The judge is None until something that it
    could judge is received.
    """

    spec: JudgeSpec
    measures: Sequence[Measure]
    place: int
    judge: Judge | None = None

    def read(self, groups: Sequence[Group], first: int = 0) -> list[Group]:
        """Return the groups as this judge reads them; `first` is the place of the first one.

        Raises InvalidField if the judge compares texts and a group brings none.
        """
        return [self._read(group, index) for index, group in enumerate(groups, first)]

    def _read(self, group: Group, index: int) -> Group:
        brings = group.brings
        vectors = brings == "embeddings" and self.judge is not None and self.judge.wants == brings
        if vectors or brings == "texts":
            return group
        texts = len(group.expected), len(group.retrieved)
        if texts != (group.n_expected, group.n_retrieved) and group.n_contexts:
            rule = f"{self.measures[0]} compares texts, and groups[{index}] brings {brings} only"
            what_to_do = "send its texts too, or leave the metric out"
            raise errors.InvalidField(f"metrics[{self.place}]", f"{rule}; {what_to_do}")
        return replace(group, embeddings=None, spans=None)


@dataclass(frozen=True, slots=True)
class JudgedPart:
    """The verdicts of a part by the request's judge, None if it was not needed.

    `on_negatives` are the verdicts on its results against the negatives of their groups, None
    without negatives; `matches` are the results that match.
    """

    verdicts: Verdicts | None
    on_negatives: Verdicts | None
    matches: Sequence[NegativeMatch]
    usage: Usage | None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Metrics over groups, and the verdicts that they are based on.

    `identity` is that of the request's judge, None if it was not needed. `counts` are over the
    verdicts of all judges that ran for the metrics. The matches in `negatives` are those passed to
    `measure`.
    """

    table: MetricTable
    query_ids: Sequence[str]
    identity: JudgeIdentity | None
    counts: VerdictCounts
    negatives: NegativeReport | None = None
    usage: Usage | None = None


@dataclass(eq=False)
class PartedEvaluation:
    """One evaluation: parts are received in order, judged in any order, and measured together.

    The judge of `spec` runs if a metric needs it, if there are negatives, or if its verdicts are to
    be kept. The constructor raises InvalidField for metrics that are undefined under the matching.
    """

    catalog: JudgeCatalog
    spec: JudgeSpec
    measures: Sequence[Measure]
    options: SettledOptions
    caller: Caller = ANONYMOUS
    keep_verdicts: bool = True
    _judge: Judge | None = None
    _last_known: Sequence[_Known] = ()
    _needed: bool = False
    _usage: Usage | None = None
    _with_negatives: int = 0
    _answered: bool = False
    _failure: errors.JudgedError | None = None

    def __post_init__(self) -> None:
        """Find the judges that the metrics need."""
        measures, options = self.measures, self.options
        check_modes(measures, options.matching, families=True, by_id=True)
        self._own = [measure for measure in measures if not measure.metric.family]
        self._asks_own = bool(self._own) or self.keep_verdicts
        self._families: list[FamilyJudge] = []
        for family in FAMILIES.values():
            places = [i for i, each in enumerate(measures) if each.metric.family == family.name]
            if places:
                its = JudgeSpec(family.kind, family.profile, family.min_score)
                self._families.append(FamilyJudge(its, [measures[i] for i in places], places[0]))
        self._groups = DistinctGroups(strict=options.strict_duplicates)
        self._id_fit = IdSample()
        self._counts = self._negative_counts = VerdictCounts()
        self._continued: list[bool] = []
        self._judged: list[Sequence[JudgedResults]] = []
        self._metadata: list[Mapping[str, str]] = []
        self._hit: set[str] = set()

    @property
    def identity(self) -> JudgeIdentity | None:
        """The request's judge; None until something that it could judge is received."""
        return None if self._judge is None else self._judge.identity

    async def receive(self, groups: Sequence[Group], *, continues: bool = False) -> Part:
        """Return the next part without duplicate results, ready to be judged.

        With `continues` its first group continues the last one. Raises InvalidField and what the
        catalog raises; paths count groups over all parts.
        """
        all_by_id = all(group.by_id for group in groups)
        check_modes(self.measures, self.options.matching, families=True, by_id=all_by_id)
        part = await run_by_size(size_of(groups), self._distinct, groups, continues=continues)
        if self._judge is None and any(map(_can_be_judged, groups)):
            self._settle(groups)
        part.number = len(self._judged)
        part.asked = part.groups if self._asks_own else ()
        if self._judge is not None:
            self._prepare(part, self._judge)
            part.of_families = [family.read(part.groups, part.first) for family in self._families]
        self._needed |= bool(part.negatives) or (self._asks_own and not all_by_id)
        begun = groups[continues:]
        if keys := self.options.slice_by:
            self._metadata += [{key: each.metadata.get(key, "") for key in keys} for each in begun]
        self._with_negatives += sum(bool(group.negatives) for group in begun)
        self._continued += [continues, *(False for _ in groups[1:])]
        self._judged.append(())
        return part

    def _prepare(self, part: Part, judge: Judge) -> None:
        """Set what the request's judge will be asked. Raises InvalidField."""
        if self._asks_own:
            check_groups_fit(judge, part.groups, first=part.first)
            part.asked = fill_expected(judge, part.groups)
            if not judge.needs_expected and any(group.open_ended for group in part.groups):
                part.open_ended = [group.open_ended for group in part.groups]
                check_open_ended(self.measures, judge.identity.max_grade)
        takes_texts = judge.wants == "texts"
        rule = f"are texts, which {judge.identity.signature} does not take; leave them out"
        for index, group in enumerate(part.groups, part.first):
            need(takes_texts or not group.negatives, f"groups[{index}].negatives", rule)
        part.negatives = [
            Group("", group.query, group.negatives, group.retrieved)
            for group in part.groups
            if group.negatives
        ]

    async def judge(
        self, part: Part, once: Once | None = None, fault_of: FaultOf | None = None
    ) -> JudgedPart:
        """Return the verdicts of a part.

        Failures are raised, but with `fault_of` they become the fault of each context: `measure`
        then raises only if nothing at all was judged. InvalidField is raised in any case.
        """
        n = len(part.asked)
        both = await self._verdicts(self._judge, [*part.asked, *part.negatives], once, fault_of)
        verdicts = both.of_groups(0, n) if part.negatives else both
        columns = [verdicts] if self._own else []
        for place, family in enumerate(self._families):
            own, judge = self.identity, family.judge
            if judge is None:  # nothing in this part or before it could be judged
                columns.append(verdicts)
            elif (
                own is not None and self._asks_own and own.scoring_key == judge.identity.scoring_key
            ):
                least = judge.identity.min_score
                columns.append(Verdicts.decide(verdicts.columns, verdicts.offsets, least))
            else:  # it asks no language model
                groups = part.of_families[place]
                columns.append(await self._verdicts(judge, groups, None, fault_of))
        self._judged[part.number] = [
            self._results(part, column, own=bool(self._own) and place == 0)
            for place, column in enumerate(columns)
        ]
        for column in columns:
            self._counts += counts_of(column)
        usage = both.columns.usage
        if usage is not None:
            self._usage = usage if self._usage is None else self._usage + usage
        on_negatives, matches = None, []
        if part.negatives:
            on_negatives = both.of_groups(n, n + len(part.negatives))
            self._negative_counts += counts_of(on_negatives)
            matches = part.matches(on_negatives)
            self._hit.update(match.query_id for match in matches)
        return JudgedPart(verdicts if self._asks_own else None, on_negatives, matches, usage)

    def _results(self, part: Part, verdicts: Verdicts, *, own: bool) -> JudgedResults:
        """Return the results of a part by one of its judges; `own` says it is the request's.

        Only that judge may give grades and judge open-ended groups.
        """
        groups = part.asked if own else part.groups
        max_grade = self.identity.max_grade if own and self.identity is not None else 0
        scores, open_ended = verdicts.columns.scores, part.open_ended if own else ()
        return replace(
            results_of(verdicts, [(group.n_retrieved, group.n_expected) for group in groups]),
            gains=grades_of(scores, max_grade) if max_grade else np.zeros(len(scores)),
            max_grade=max_grade,
            judged_ids=part.judged_ids,
            open_ended=np.array(open_ended or [False] * len(groups), np.bool_),
        )

    async def whole(self, groups: Sequence[Group]) -> tuple[Evaluation, JudgedPart]:
        """Return the metrics of groups that are sent all at once, and their verdicts.

        Raises what judging and the metrics raise, with paths.
        """
        judged = await self.judge(await self.receive(groups))
        return await self.measure(judged.matches), judged

    async def measure(self, matches: Sequence[NegativeMatch] = ()) -> Evaluation:
        """Return the metrics of all parts, which must be judged; `matches` are reported with them.

        Raises InvalidField without any part, the first failure if nothing at all could be judged,
        and what the metrics raise.
        """
        need(bool(self._judged), "groups", "must hold at least one group")
        if self._failure is not None and not self._answered:
            raise self._failure
        if self._judge is None:
            self._settle(())
        self._id_fit.see(self._last_known)
        table = await run_computation(self._table)
        report = None
        if queries := self._with_negatives:
            report = NegativeReport(queries, len(self._hit), matches, self._negative_counts)
        identity = self.identity if self._needed else None
        query_ids = list(self._groups.places)
        return Evaluation(table, query_ids, identity, self._counts, report, self._usage)

    def _distinct(self, groups: Sequence[Group], *, continues: bool) -> Part:
        """Return the groups without duplicate results, and sample their document ids."""
        part = self._groups.add(groups, continues=continues)
        known: list[_Known] = []
        if any(group.by_id for group in part.groups):
            known = [
                (list(part.document_ids(i)), group.relevant_document_ids, group.grades)
                for i, group in enumerate(part.groups)
            ]
            part.judged_ids = JudgedIds.of(known)
        # The last group is sampled later, since the next part may continue it.
        if continues and known and self._last_known:
            begun = self._last_known[0][0]
            begun += known[0][0]
            known[0] = (begun, *known[0][1:])
            self._last_known = ()
        self._id_fit.see([*self._last_known, *known[:-1]])
        self._last_known = known[-1:]
        return part

    def _settle(self, groups: Sequence[Group]) -> None:
        """Choose the judges; `groups` show whether they compare the caller's vectors or spans.

        Raises what the catalog raises for a judge that can't run on this server.
        """
        judge = self.catalog.choose(self.spec, groups=groups)
        if groups:
            if self.caller.cost_tracker.max_cost is not None and not judge.priced:
                raise unpriced()
            judge.check_api_keys(self.caller.cache)
        for family in self._families:
            family.judge = self.catalog.choose(family.spec, groups=groups)
        self._judge = judge

    async def _verdicts(
        self,
        judge: Judge | None,
        groups: Sequence[Group],
        once: Once | None,
        fault_of: FaultOf | None,
    ) -> Verdicts:
        offsets = list(accumulate([group.n_contexts for group in groups], initial=0))
        columns = ScoreColumns(np.zeros(offsets[-1]))
        if judge is not None:

            async def work(caller: Caller) -> Verdicts:
                return await judge_batch(judge, groups, caller=caller)

            try:
                found = await (work(self.caller) if once is None else once(work))
            except errors.InvalidField:
                raise
            except Exception as error:
                if fault_of is None:
                    raise
                failure, fault = fault_of(error)
                self._failure = self._failure or failure
                columns.statuses = np.full(offsets[-1], int(Status.ERROR), np.uint8)
                columns.faults = tuple(replace(fault, index=i) for i in range(offsets[-1]))
            else:
                self._answered |= bool(offsets[-1])
                return found
        return Verdicts.decide(columns, offsets, 1.0)

    def _table(self) -> MetricTable:
        asked = [(self._own, self.options)] if self._own else []
        for family in self._families:
            signature = family.judge.identity.signature if family.judge else ""
            bound = [measure.judged_by(signature) for measure in family.measures]
            asked.append((bound, replace(self.options, matching=Matching.ANY)))
        begins = np.flatnonzero(~np.array(self._continued, np.bool_))
        judgings = [
            Judging(some, join(columns, begins, self._groups.n_dropped), how)
            for (some, how), columns in zip(asked, zip(*self._judged, strict=True), strict=True)
        ]
        table = compute_merged(judgings, self.measures)
        results = judgings[0].results
        if results.judged_ids is not None:
            fit = results.judged_ids.fit(results.n_retrieved, self._id_fit)
            table = replace(table, id_fit=fit)
        return with_intervals_and_slices(table, self.options, self._metadata)


def _can_be_judged(group: Group) -> bool:
    contexts = group.n_contexts or group.negatives or group.open_ended
    return group.brings != "texts" or bool(contexts)
