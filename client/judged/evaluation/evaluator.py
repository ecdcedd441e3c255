"""Metrics over judged groups of any number, with progress, through a stream.

Owns the order of the steps: check, drop repeats, judge, match by id, measure. The numbers are those
of `Client.evaluate`, which does the same on the server, in one message and without progress.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from judged._call import Deadline
from judged.client import Client
from judged.evaluation._distinct import distinct_groups
from judged.evaluation._measuring import measure
from judged.evaluation._streaming import Progress, StreamedJudging
from judged.evaluation.dataset import Dataset
from judged.evaluation.results import Results
from judged.evaluation.retriever import Retriever
from judged.types import (
    Evaluation,
    Judge,
    JudgedRanking,
    JudgedRankings,
    MetricOptions,
    MetricTable,
    QueryGroup,
)


class Evaluator:
    """Evaluates over one client, which it neither opens nor closes."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def evaluate(
        self,
        groups: Iterable[QueryGroup],
        metrics: Sequence[str],
        judge: Judge | str | None = None,
        options: MetricOptions = MetricOptions(),  # noqa: B008 - frozen
        *,
        timeout: float = 3600.0,
        progress: Progress | None = None,
    ) -> Evaluation:
        """Return the metrics of the groups, and the verdicts they rest on.

        Groups with relevant ids are matched by id; when all are, no judge is asked and the result
        names none. A chunk that fails for good gives its contexts the status ERROR, which widens
        the bounds; a stream that breaks is resumed with what had no answer. `progress` is called
        with (contexts done, contexts in all). The offsets of the verdicts are those of the groups
        without their repeated results.
        """
        deadline = Deadline(timeout)
        given = list(groups)
        distinct = distinct_groups(given, strict=options.strict_duplicates)

        def compute(rankings: JudgedRankings, asked: MetricOptions) -> MetricTable:
            left = deadline.left()
            return self._client.compute_metrics(metrics, rankings, asked, timeout=left)

        # One ranking that found nothing: a metric that is misspelt, or not defined for the
        # matching, is refused now instead of after an hour of judging.
        compute(JudgedRankings([JudgedRanking("", 1, 0)], []), options)
        max_contexts = self._client.server_info(timeout=deadline.left()).limits.max_contexts
        verdicts = StreamedJudging(self._client, judge, distinct, deadline, progress).run(
            max_contexts
        )
        table = measure(compute, distinct, verdicts, options, max_contexts)
        dropped = sum(map(_n_retrieved, given)) - sum(map(_n_retrieved, distinct))
        return Evaluation(
            table=_with_duplicates(table, dropped),
            judge=None if verdicts is None else verdicts.judge,
            verdicts=verdicts,
        )

    def evaluate_retriever(
        self,
        retriever: Retriever,
        dataset: Dataset,
        metrics: Sequence[str],
        k: int,
        judge: Judge | str | None = None,
        options: MetricOptions = MetricOptions(),  # noqa: B008 - frozen
        *,
        timeout: float = 3600.0,
        progress: Progress | None = None,
    ) -> Evaluation:
        """Return the metrics of what a retriever finds, k documents a query; see `evaluate`.

        `timeout` and `progress` are about the evaluation, not the retriever.
        """
        found = Results.of(
            {query.query_id: retriever.retrieve(query.text, k) for query in dataset.queries}
        )
        return self.evaluate(
            dataset.to_groups(found), metrics, judge, options, timeout=timeout, progress=progress
        )


def _n_retrieved(group: QueryGroup) -> int:
    return group.n_retrieved


def _with_duplicates(table: MetricTable, dropped: int) -> MetricTable:
    counts = replace(table.counts, duplicates=table.counts.duplicates + dropped)
    return replace(table, counts=counts)
