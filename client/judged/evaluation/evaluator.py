"""The Evaluator: a retriever or its results over a data set, from asking to the result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from judged._batching.judging import Progress, most_contexts, packed
from judged._batching.parts import Record
from judged._convert import CostLimit
from judged._inputs import as_metrics
from judged._views import plain
from judged.client import Client
from judged.errors import InvalidArgument, WrongType
from judged.evaluation.asking import (
    OnProgress,
    Retrieval,
    Source,
    check_circular,
    cutoff_of,
    models_of,
    read_ranking,
    retrieve_all,
    sha256_of,
    signature_of,
    stage,
)
from judged.evaluation.datasets.dataset import Dataset
from judged.evaluation.datasets.query import Results
from judged.evaluation.labels import own_metrics, refuse_families
from judged.evaluation.recorded import (
    AnyJudge,
    EvaluationLog,
    LocalJudge,
    RecordedJudge,
    as_judge,
    evaluate_recorded,
    group_key,
    to_judge,
)
from judged.evaluation.result import (
    EvaluationResult,
    evaluation_warnings,
    join_warnings,
    query_result,
)
from judged.values import (
    Asking,
    CostEstimate,
    Evaluation,
    IntervalOptions,
    Judge,
    MetricOptions,
    QueryGroup,
)


class Evaluator:
    """Evaluates over one client, which it neither opens nor closes."""

    def __init__(self, client: Client) -> None:
        if not isinstance(client, Client):  # an AsyncClient would only fail after all retrieving
            raise WrongType.of_field("client", f"must be Client, not {type(client).__name__}")
        self._client = client

    def evaluate(
        self,
        source: Source,
        dataset: Dataset,
        metrics: Sequence[str],
        judge: AnyJudge = None,
        k: int | None = None,
        options: MetricOptions | None = None,
        *,
        name: str = "",
        concurrency: int | None = None,
        resume: Path | str | None = None,
        asking: Asking | None = None,
        system_models: str | Sequence[str] = (),
        timeout: float = 3600.0,
        progress: OnProgress | None = None,
    ) -> EvaluationResult:
        """Return the metrics of what a retriever finds, or found, for the queries of a data set.

        `source` is a retriever, or results by query id. A retriever is a function of a query and k,
        or has it as its method `retrieve`; it may be a coroutine function. One with a method
        `batch_retrieve(queries, k)` gets all at once. It returns texts, `Retrieved` documents or
        mappings with doc_id, text and score, best first; `k` is by default the deepest cutoff of
        the metrics, and what is below rank k is left out. The server is asked first whether it
        takes the metrics, the judge and the options, so that no retriever runs in vain. An
        exception of the retriever is that query's failure: it has no part in any mean; if every
        query fails, the first failure is raised. `concurrency` is how many queries a retriever is
        asked at once: one by default, of a coroutine function four.

        `judge` is one of the server, by default the server's own, a RecordedJudge, a function of a
        Context or an object with a method `judge`, as Evret's: a LocalJudge. `options` are by
        default an interval for every mean. `resume` names a file that all that was found and judged
        is written to as it comes: an evaluation that was interrupted goes on from there, and asks
        nothing twice. Raises FileError for a file of another evaluation, InvalidArgument for
        what is wrong, and what `Client.evaluate` raises. `timeout` is about the judging. `progress`
        is called with a Progress, as in `progress=print`.

        `system_models` are the language models that made what is judged; those that Results or an
        attribute `system_model` of the retriever name count too. Where one of them or of its family
        is to judge, there is a warning, CircularJudging, before anything is asked.
        """
        if not dataset.queries:
            raise InvalidArgument.of_field("dataset", "holds no queries")
        for field, number in (("concurrency", concurrency), ("k", k)):
            if number is not None and number < 1:
                raise InvalidArgument.of_field(field, "must be 1 or more")
        metrics, judge = as_metrics(metrics), as_judge(judge)
        options = replace(options or MetricOptions(interval=IntervalOptions()), per_query=True)
        given = isinstance(source, Mapping)
        by_spans = True if (judge.kind if isinstance(judge, Judge) else judge) == "span" else None
        k = _deepest(metrics) if k is None and not given else k
        log = _log_of(resume, source, dataset, metrics, judge, k)
        if not given:  # what is wrong is known before it is asked anything
            nothing = _nothing_found(dataset, by_spans=by_spans)
            self.evaluate_groups(nothing, metrics, judge, options, asking=asking, timeout=timeout)
        models = models_of(source, system_models)
        if models and not isinstance(judge, RecordedJudge):
            check_circular(self._client.server_info(), judge, models)
        if isinstance(source, Mapping):
            results = _given(source, k)
            warnings = [*join_warnings(dataset, results)]
            found = Retrieval(0, dict(results))
        else:
            found = retrieve_all(
                source,
                dataset.queries,
                k or 1,
                concurrency=concurrency,
                log=log,
                progress=stage("retrieving", progress),
            )
            warnings = [*found.warnings(metrics)]
        groups: Sequence[QueryGroup] = [
            group
            for group in dataset.to_groups(found.results, by_spans=by_spans)
            if group.query_id not in found.failures
        ]
        if not isinstance(judge, RecordedJudge):
            groups = self._client._filled(groups, judge, timeout)  # noqa: SLF001 - as it does
        if isinstance(judge, LocalJudge) or (
            resume is not None and not isinstance(judge, RecordedJudge)
        ):
            self._judge(groups, judge, log, asking, timeout, stage("judging", progress))
            judge = log
        evaluation = self.evaluate_groups(
            groups,
            metrics,
            judge,
            options,
            asking=asking,
            timeout=timeout,
            progress=stage("judging", progress),
        )
        return _result(dataset, found, groups, evaluation, warnings, name, k)

    def _judge(
        self,
        groups: Sequence[QueryGroup],
        judge: Judge | LocalJudge | str | None,
        log: EvaluationLog,
        asking: Asking | None,
        timeout: float,
        told: Progress | None,
    ) -> None:
        """Judge what the log has no verdicts of, and keep them there, call by call.

        After an interruption the calls are the same, so that the server answers as it would have
        answered. Each asks with what is left of the limit on money.
        """
        left = {
            key: (group, [group.n_expected * group.n_retrieved])
            for group in to_judge(groups)
            if (key := group_key(group)) not in log.said
        }
        done, total = 0, sum(size for _, [size] in left.values())
        for some in packed(
            (each for each in left.values() if any(each[1])),
            [1 if isinstance(judge, LocalJudge) else most_contexts(judge)],
        ):
            spent = 0.0 if log.usage is None else log.usage.cost or 0.0
            rest = CostLimit(asking, spent).rest()
            request_id = log.request_id(some, rest)
            if isinstance(judge, LocalJudge):
                found = judge.verdicts(some)
            else:
                found = self._client.judge(
                    some, judge, asking=rest, request_id=request_id, timeout=timeout
                )
            log.keep_verdicts(found)
            done += len(found)
            if told is not None:
                told(done, total)

    def evaluate_groups(
        self,
        groups: Iterable[QueryGroup],
        metrics: Sequence[str],
        judge: AnyJudge = None,
        options: MetricOptions = MetricOptions(),  # noqa: B008 - frozen
        *,
        asking: Asking | None = None,
        record: Record | None = None,
        timeout: float = 3600.0,
        progress: Progress | None = None,
    ) -> Evaluation:
        """Return the metrics of groups and the verdicts they rest on; see `Client.evaluate`.

        A recorded judge, say a Replay of a trace, or a function stands for one: then the server's
        are not asked, and the families can't be. Which model made the texts is not known here, as
        it is to `evaluate`: `check_circular` warns where it judges its own.
        """
        names, judge = as_metrics(metrics), as_judge(judge)
        if not isinstance(judge, RecordedJudge):
            return self._client.evaluate(
                groups,
                names,
                judge,
                options,
                include_verdicts=bool(own_metrics(names)),
                asking=asking,
                record=record,
                timeout=timeout,
                progress=progress,
            )
        return evaluate_recorded(self._client, groups, names, options, judge, timeout)

    def estimate(
        self,
        groups: Iterable[QueryGroup],
        metrics: Sequence[str],
        judge: Judge | str | None = None,
        asking: Asking | None = None,
        *,
        timeout: float = 120.0,
    ) -> CostEstimate:
        """Return what judging groups would take of a language model at most; nothing is asked.

        Groups that are matched by id, and metrics that bring judges of their own, take nothing.
        """
        asked = to_judge(groups, own=bool(own_metrics(as_metrics(metrics))))
        judged = [group for group in asked if not group.by_id]
        if not judged:
            return CostEstimate()
        return self._client.estimate(judged, judge, asking=asking, timeout=timeout)


def _log_of(
    path: Path | str | None,
    source: Any,  # noqa: ANN401 - what Evaluator.evaluate takes
    dataset: Dataset,
    metrics: Sequence[str],
    judge: Judge | RecordedJudge | str | None,
    k: int | None,
) -> EvaluationLog:
    """Return the file to go on from, which must be about the same evaluation."""
    if path is None:
        return EvaluationLog(None, {})
    recorded = isinstance(judge, RecordedJudge)
    if not recorded:
        refuse_families(metrics)
    named = type(judge).__name__ if recorded else plain(judge)
    about = {
        "dataset": sha256_of(plain(dataset.queries)),
        "retriever": "results" if isinstance(source, Mapping) else signature_of(source),
        "k": k,
        "judge": plain(judge.identity) if isinstance(judge, LocalJudge) else named,
    }
    return EvaluationLog(path, about)


def _nothing_found(dataset: Dataset, *, by_spans: bool | None) -> list[QueryGroup]:
    """Return the first group of every kind, with no results: what to ask the server first.

    What makes a kind is whether there are ids of relevant documents, and negatives.
    """
    groups = dataset.to_groups({}, by_spans=by_spans)
    return list({(g.by_id, bool(g.negatives)): g for g in reversed(groups)}.values())


def _deepest(metrics: Sequence[str]) -> int:
    """Return the deepest cutoff of metrics. Raises InvalidArgument where one has none."""
    cutoffs = [cutoff_of(name) for name in metrics]
    if not all(cutoffs):
        name = metrics[[*map(bool, cutoffs)].index(False)]
        rule = f"name how many documents to ask for, as in k=10 or {name}@10: {name} sees all"
        raise InvalidArgument.of_field("k", rule)
    return max((cutoff or 0 for cutoff in cutoffs), default=1)  # the server refuses no metrics


def _result(
    dataset: Dataset,
    found: Retrieval,
    groups: Sequence[QueryGroup],
    evaluation: Evaluation,
    warnings: Sequence[str],
    name: str,
    k: int | None,
) -> EvaluationResult:
    """Return the result of the evaluation of groups."""
    usage = evaluation.usage
    if usage is not None:  # two runs over the same data have the same result
        usage = replace(usage, latency_s=0.0)
    places = {group.query_id: place for place, group in enumerate(groups)}
    queries = []
    for query in dataset.queries:
        query_id, place = query.query_id, places.get(query.query_id)
        group = None if place is None else groups[place]
        of = (group, place or 0, found.results.get(query_id, ()), evaluation.verdicts)
        queries.append(query_result(query, *of, found.failures.get(query_id)))
    return EvaluationResult(
        table=evaluation.table,
        queries=queries,
        judge=evaluation.judge,
        negatives=evaluation.negatives,
        usage=usage,
        warnings=[*warnings, *evaluation_warnings(evaluation, groups)],
        name=name,
        k=k,
    )


def _given(results: Mapping[str, Any], k: int | None) -> Results:
    """Return results that were given, no more than k of a query."""
    whole = results
    if not isinstance(whole, Results):
        whole = Results.of(
            {name: read_ranking(ranked, f"results[{name!r}]") for name, ranked in results.items()}
        )
    return replace(whole, by_query={query_id: ranked[:k] for query_id, ranked in whole.items()})
