"""Metrics over judged groups of any number, with progress, through a stream.

The numbers are those of `Client.evaluate`, which does the same on the server, in one message and
without progress.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from inspect import isasyncgenfunction
from typing import Protocol, runtime_checkable

from judged._batching.rankings import Metadata
from judged._convert.groups import as_groups
from judged._inputs import WrongType, as_metrics, need_kind
from judged._transport.call import Deadline
from judged.client import Client
from judged.errors import InvalidArgument, JudgedError
from judged.evaluation._steps.certainty import certain_table
from judged.evaluation._steps.distinct import distinct_groups
from judged.evaluation._steps.families import Part, join_parts, refuse_families, split_metrics
from judged.evaluation._steps.measuring import Compute, measure
from judged.evaluation._steps.negatives import (
    negative_groups,
    report_negatives,
    verdicts_of,
    without_negatives,
)
from judged.evaluation._steps.retrieving import retrieve_all
from judged.evaluation._steps.streaming import Progress, StreamedJudging
from judged.evaluation.datasets.dataset import Dataset
from judged.evaluation.retriever import Retriever, RetrieverFunction
from judged.types import (
    Asking,
    CostEstimate,
    Evaluation,
    Judge,
    JudgedRanking,
    JudgedRankings,
    JudgeIdentity,
    MetricOptions,
    MetricTable,
    PerQueryValues,
    QueryGroup,
    RubricInfo,
    Verdicts,
)

Record = Callable[[Sequence[QueryGroup], Verdicts], object]
"""Is told the groups that were judged, with their verdicts."""
Measured = Callable[[frozenset[str] | None, MetricOptions], MetricTable]
"""Measures a part over some queries, None for all."""


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


class Evaluator:
    """Evaluates over one client, which it neither opens nor closes."""

    def __init__(self, client: Client) -> None:
        if not callable(judge := getattr(client, "judge_stream", None)) or isasyncgenfunction(
            judge
        ):
            raise WrongType.of_field("client", f"must be a Client, not {type(client).__name__}")
        self._client = client

    def evaluate(
        self,
        groups: Iterable[QueryGroup],
        metrics: Sequence[str],
        judge: Judge | RecordedJudge | str | None = None,
        options: MetricOptions = MetricOptions(),  # noqa: B008 - frozen
        *,
        asking: Asking | None = None,
        record: Record | None = None,
        timeout: float = 3600.0,
        progress: Progress | None = None,
    ) -> Evaluation:
        """Return the metrics of the groups, and the verdicts they rest on.

        Groups with relevant ids are matched by id; when all are, no judge is asked and the result
        names none. Metrics of the families `_exact` and `_similarity` ask their own judges; the one
        given is asked only if another metric or a negative reference needs it. A chunk that fails
        for good gives its contexts the status ERROR, which widens the bounds; a stream that breaks
        is resumed with what had no answer. `progress` is called with (contexts done, contexts in
        all). The offsets of the verdicts are those of the groups without their repeated results.

        A recorded judge, say a Replay of a trace, stands for one: then nobody is asked, and the
        families can't be. `record` is told the verdicts of the judge given, with details and those
        on negatives, before anything is measured. An error after the judging has the verdicts of
        the judge given as its `verdicts`.
        """
        deadline = Deadline(timeout)
        need_kind(options, "options", MetricOptions, "MetricOptions")
        given, metrics = as_groups(groups), as_metrics(metrics)
        distinct = distinct_groups(given, strict=options.strict_duplicates)
        options = replace(options, strict_duplicates=False)  # none is left
        parts = split_metrics(metrics)
        for part in parts:
            # One ranking that found nothing: a metric that is misspelt, or not defined for the
            # matching, is refused now instead of after an hour of judging.
            nothing = JudgedRankings([JudgedRanking("", 1, 0)], [])
            self._compute(part, deadline)(nothing, part.options(options))
        if isinstance(judge, RecordedJudge):
            refuse_families(parts)
        info = self._client.server_info(timeout=deadline.left())
        max_contexts = info.limits.max_contexts
        positive = without_negatives(distinct)
        own = positive if not parts[0].family else []
        negatives = negative_groups(distinct)
        families = [part for part in parts if part.family]
        work = [_Work(part.judge(positive), part.groups(positive)) for part in families]
        # Asked before the judging, so that a judge that can't run here is known at once.
        identities = [self._identity(some.judge, deadline) for some in work]
        found: list[Verdicts | None]
        if isinstance(judge, RecordedJudge):
            found = [judge.verdicts([*own, *negatives], info.rubrics)]
        else:
            work.insert(0, _Work(judge, [*own, *negatives]))
            found = self._judge(work, asking, deadline, progress, max_contexts, record)
        both, of_negatives = found[0], None
        verdicts = both
        if both is not None and negatives:
            verdicts = verdicts_of(both, 0, len(own)) if own else None
            of_negatives = verdicts_of(both, len(own), len(own) + len(negatives))
        columns: list[tuple[JudgeIdentity | None, Verdicts | None]] = []
        if own:
            columns.append((None, verdicts))
        columns += list(zip(identities, found[1:], strict=True))
        try:
            table = self._table(
                parts, columns, distinct, metrics, options, deadline, max_contexts=max_contexts
            )
        except JudgedError as error:
            error.verdicts = both
            raise
        dropped = sum(map(_n_retrieved, given)) - sum(map(_n_retrieved, distinct))
        return Evaluation(
            table=_with_duplicates(table, dropped),
            judge=None if both is None else both.judge,
            verdicts=verdicts,
            negatives=None
            if of_negatives is None
            else report_negatives(given, distinct, of_negatives),
            usage=None if both is None else both.usage,
        )

    def _table(
        self,
        parts: Sequence[Part],
        columns: Sequence[tuple[JudgeIdentity | None, Verdicts | None]],
        groups: Sequence[QueryGroup],
        metrics: Sequence[str],
        options: MetricOptions,
        deadline: Deadline,
        *,
        max_contexts: int,
    ) -> MetricTable:
        """Return the metrics of distinct groups, each part by the verdicts of its column."""
        measured = [
            self._measured(part, groups, *column, deadline, max_contexts)
            for part, column in zip(parts, columns, strict=True)
        ]

        def tabulate(only: frozenset[str] | None, asked: MetricOptions) -> MetricTable:
            some = measured if only is None else [_within(part, only) for part in measured]
            return join_parts(parts, some, asked)

        def merge(values: PerQueryValues, asked: MetricOptions, known: Metadata) -> MetricTable:
            return self._client.compute_metrics(
                metrics, values, asked, metadata=known, timeout=deadline.left()
            )

        return certain_table(tabulate, merge, groups, options)

    def estimate(
        self,
        groups: Iterable[QueryGroup],
        metrics: Sequence[str],
        judge: Judge | str | None = None,
        options: MetricOptions = MetricOptions(),  # noqa: B008 - frozen
        asking: Asking | None = None,
        *,
        timeout: float = 120.0,
    ) -> CostEstimate:
        """Return what `evaluate` would take of a language model at most; nothing is asked.

        Groups that are matched by id, and metrics that bring judges of their own, take nothing.
        """
        metrics = as_metrics(metrics)
        distinct = distinct_groups(as_groups(groups), strict=options.strict_duplicates)
        own = without_negatives(distinct) if not split_metrics(metrics)[0].family else []
        judged = [group for group in [*own, *negative_groups(distinct)] if _is_judged(group)]
        if not judged:
            return CostEstimate()
        return self._client.estimate(judged, judge, asking=asking, timeout=timeout)

    def _compute(self, part: Part, deadline: Deadline) -> Compute:
        def compute(rankings: JudgedRankings, asked: MetricOptions) -> MetricTable:
            left = deadline.left()
            try:
                return self._client.compute_metrics(part.names, rankings, asked, timeout=left)
            except InvalidArgument as error:
                raise part.original(error) from None

        return compute

    def _measured(
        self,
        part: Part,
        groups: Sequence[QueryGroup],
        identity: JudgeIdentity | None,
        verdicts: Verdicts | None,
        deadline: Deadline,
        max_contexts: int,
    ) -> Measured:
        """Return what measures a part, over some queries or all."""
        compute = self._compute(part, deadline)

        def measured(only: frozenset[str] | None, options: MetricOptions) -> MetricTable:
            asked = part.options(options)
            table = measure(compute, groups, verdicts, asked, max_contexts, only)
            return part.named(table, identity)

        return measured

    def _identity(self, judge: Judge | str | None, deadline: Deadline) -> JudgeIdentity:
        return self._client.judge([QueryGroup()], judge, timeout=deadline.left()).judge

    def _judge(
        self,
        work: Sequence[_Work],
        asking: Asking | None,
        deadline: Deadline,
        progress: Progress | None,
        max_contexts: int,
        record: Record | None,
    ) -> list[Verdicts | None]:
        """Return the verdicts of each; None where there is nothing to judge. Record the first."""
        total = sum(some.n_contexts for some in work)
        found: list[Verdicts | None] = []
        before = 0
        for some in work:
            tell = progress and _shifted(progress, before, total)
            details = record is not None and not found
            judging = StreamedJudging(
                self._client,
                some.judge,
                some.groups,
                deadline,
                tell,
                asking,
                include_details=details,
                budget=self._client._budget,  # noqa: SLF001 - of the same package
            )
            found.append(verdicts := judging.run(max_contexts))
            if record is not None and details and verdicts is not None:
                record(some.groups, verdicts)
            before += some.n_contexts
        return found

    def evaluate_retriever(
        self,
        retriever: Retriever | RetrieverFunction,
        dataset: Dataset,
        metrics: Sequence[str],
        k: int,
        judge: Judge | RecordedJudge | str | None = None,
        options: MetricOptions = MetricOptions(),  # noqa: B008 - frozen
        *,
        asking: Asking | None = None,
        record: Record | None = None,
        timeout: float = 3600.0,
        progress: Progress | None = None,
    ) -> Evaluation:
        """Return the metrics of what a retriever finds, k documents a query; see `evaluate`.

        A retriever is a function of a query and k, or has it as its method `retrieve`; it may be a
        coroutine function, and one whose first parameter is called `queries` gets them all at once.
        Documents below rank k are left out. An exception of the retriever is that query's failure:
        it has no part in any mean, and the result's `failures` tell it; if every query fails, the
        first failure is raised. `timeout` and `progress` are about the evaluation, not the
        retriever.
        """
        if not isinstance(dataset, Dataset):
            raise WrongType.of_field("dataset", f"must be a Dataset, not {type(dataset).__name__}")
        metrics = as_metrics(metrics)
        found = retrieve_all(retriever, dataset.queries, k)
        groups = dataset.to_groups(found.results)
        evaluation = self.evaluate(
            [group for group in groups if group.query_id not in found.failures],
            metrics,
            judge,
            options,
            asking=asking,
            record=record,
            timeout=timeout,
            progress=progress,
        )
        return replace(evaluation, failures=found.failures, warnings=tuple(found.warnings(metrics)))


@dataclass(frozen=True, slots=True)
class _Work:
    """Groups for a judge."""

    judge: Judge | str | None
    groups: Sequence[QueryGroup]

    @property
    def n_contexts(self) -> int:
        """The number of contexts to judge."""
        judged = (group for group in self.groups if not group.relevant_document_ids)
        return sum(group.n_expected * group.n_retrieved for group in judged)


def _is_judged(group: QueryGroup) -> bool:
    return not group.relevant_document_ids


def _within(measured: Measured, queries: frozenset[str]) -> Measured:
    """Return what measures a part over some of these queries, or all of them."""
    return lambda only, options: measured(queries if only is None else only, options)


def _shifted(progress: Progress, before: int, total: int) -> Progress:
    """Return progress on a part of the work, which tells of all of it."""
    return lambda done, _: progress(before + done, total)


def _n_retrieved(group: QueryGroup) -> int:
    return group.n_retrieved


def _with_duplicates(table: MetricTable, dropped: int) -> MetricTable:
    counts = replace(table.counts, duplicates=table.counts.duplicates + dropped)
    return replace(table, counts=counts)
