"""The Evaluator: measures a retriever, or its results, on a data set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from judged._batching.judging import Progress, most_contexts, packed
from judged._batching.parts import Record
from judged._convert import CostLimit
from judged._inputs import need_list, refuse_below
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
from judged.evaluation.datasets.query import Results, join_warnings
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
        if not isinstance(client, Client):  # an AsyncClient would fail only after the retrieval
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
        """Run a retriever on a data set, or take its results, and return their metrics.

        `source` is a retriever, or results by query id. A retriever is a function of a query and k,
        or an object with such a method `retrieve`; it may be a coroutine function. One with a
        method `batch_retrieve(queries, k)` gets all queries at once. It returns texts, `Retrieved`
        documents or mappings with doc_id, text and score, best first. `k` is by default the deepest
        cutoff of the metrics; results below rank k are left out. Metrics, judge and options are
        first checked by the server, so that no retriever runs in vain. If the retriever raises, the
        query failed and is in no mean; if every query fails, the first failure is raised.
        `concurrency` is the number of queries to ask at once: by default one, or four for a
        coroutine function.

        `judge` is a judge of the server (by default, the server's default), a RecordedJudge, or a
        function of a Context or an object with a method `judge`, as Evret's: a LocalJudge. The
        default `options` give every mean an interval. `resume` names a file that results and
        verdicts are written to as they arrive: an interrupted evaluation continues from it and asks
        nothing twice. Raises FileError for a file of another evaluation, InvalidArgument, and what
        `Client.evaluate` raises. `timeout` applies to the judging. `progress` is called with a
        Progress, as in `progress=print`.

        `system_models` are the language models that made the judged texts, besides those named by
        Results or an attribute `system_model` of the retriever. If a model of their family is to
        judge, CircularJudging is warned before anything is asked.
        """
        if not dataset.queries:
            raise InvalidArgument.of_field("dataset", "holds no queries")
        refuse_below(1, concurrency=concurrency, k=k)
        metrics, judge = need_list(metrics, "metrics", "names"), as_judge(judge)
        options = replace(options or MetricOptions(interval=IntervalOptions()), per_query=True)
        given = isinstance(source, Mapping)
        by_spans = True if (judge.kind if isinstance(judge, Judge) else judge) == "span" else None
        if not given:  # find errors before the retriever runs
            nothing = _nothing_found(dataset, by_spans=by_spans)
            self.evaluate_groups(nothing, metrics, judge, options, asking=asking, timeout=timeout)
        k = _deepest(metrics) if k is None and not given else k
        log = _log_of(resume, source, dataset, metrics, judge, k)
        models = models_of(source, system_models)
        if models and not isinstance(judge, RecordedJudge):
            check_circular(self._client.server_info(), judge, models)
        if isinstance(source, Mapping):
            results = _given(source, k)
            warnings = [*join_warnings(dataset.queries, results), *results.warnings]
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
            groups = self._client._filled(groups, judge, timeout)  # noqa: SLF001 - our own class
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
        progress: Progress | None,
    ) -> None:
        """Judge the groups without verdicts in the log, and add these to it after each call.

        After an interruption the calls are the same, so that the server can answer from its caches.
        Each call may cost what is left of the limit.
        """
        left = {
            key: (group, [group.n_expected * group.n_retrieved])
            for group in to_judge(groups)
            if (key := group_key(group)) not in log.known_verdicts
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
            if progress is not None:
                progress(done, total)

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
        """Return the metrics of groups and the verdicts behind them; see `Client.evaluate`.

        With a function or a recorded judge, such as a Replay of a trace, no judge of the server is
        asked, and metrics of the families are refused. Unlike in `evaluate`, the models that made
        the texts are not known; call `check_circular` to be warned if one judges its own.
        """
        names, judge = need_list(metrics, "metrics", "names"), as_judge(judge)
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
        """Return the most that judging groups would use of a language model; no model is asked.

        Groups that are matched by id, and metrics with judges of their own, use nothing.
        """
        own = own_metrics(need_list(metrics, "metrics", "names"))
        asked = to_judge(groups, own=bool(own))
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
    """Open the file to resume from. Raises FileError for a file of another evaluation."""
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
    """Return one group without results of every kind, to check a call before retrieving.

    The kinds differ in whether there are ids of relevant documents, and negatives.
    """
    groups = dataset.to_groups({}, by_spans=by_spans)
    return list({(g.by_id, bool(g.negatives)): g for g in reversed(groups)}.values())


def _deepest(metrics: Sequence[str]) -> int:
    """Return the deepest cutoff of metrics. Raises InvalidArgument if one has none."""
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
    """Return the caller's results, at most k per query."""
    whole = results
    if not isinstance(whole, Results):
        whole = Results.of(
            {name: read_ranking(ranked, f"results[{name!r}]") for name, ranked in results.items()}
        )
    return replace(whole, by_query={query_id: ranked[:k] for query_id, ranked in whole.items()})
