"""Evaluations of results, of retrievers, and of recorded judgements, over one client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from inspect import isasyncgenfunction, iscoroutinefunction
from pathlib import Path

from judged._batching.distinct import against_negatives, distinct_group
from judged._batching.estimates import fill_expected
from judged._batching.evaluate_stream import Progress, Record
from judged._convert.groups import as_groups
from judged._inputs import as_metrics, need_kind
from judged.aio import AsyncClient
from judged.client import Client
from judged.errors import WrongType
from judged.evaluation._steps.walking import OnThread, Step, Steps, await_steps, run_steps
from judged.evaluation.circular_judging import check_circular, models_of
from judged.evaluation.datasets.dataset import Dataset
from judged.evaluation.evaluation_run import EvaluationRun, Piece
from judged.evaluation.labels import own_metrics
from judged.evaluation.local_judge import JudgeFunction, LocalJudge
from judged.evaluation.progress import OnProgress, stage
from judged.evaluation.recorded import RecordedEvaluation, RecordedJudge
from judged.evaluation.result import EvaluationResult
from judged.evaluation.retriever import BatchRetriever, Found, Retriever, RetrieverFunction
from judged.values import (
    Asking,
    CostEstimate,
    Evaluation,
    Judge,
    MetricOptions,
    MetricTable,
    QueryGroup,
    ServerInfo,
)

Source = Retriever | BatchRetriever | RetrieverFunction | Mapping[str, Iterable[Found]]
"""A retriever, or the results of one by query id."""


class Evaluator:
    """Evaluates over one client, which it neither opens nor closes."""

    def __init__(self, client: Client) -> None:
        stream = getattr(client, "judge_stream", None)
        if not callable(stream) or isasyncgenfunction(stream):
            raise WrongType.of_field("client", f"must be a Client, not {type(client).__name__}")
        self._client = client

    def evaluate(
        self,
        source: Source,
        dataset: Dataset,
        metrics: Sequence[str],
        judge: Judge | LocalJudge | JudgeFunction | RecordedJudge | str | None = None,
        k: int | None = None,
        options: MetricOptions | None = None,
        *,
        name: str = "",
        concurrency: int | None = None,
        resume: Path | str | None = None,
        asking: Asking | None = None,
        system_models: str | Sequence[str] = (),
        strict: bool = False,
        timeout: float = 3600.0,
        progress: OnProgress | None = None,
    ) -> EvaluationResult:
        """Return the metrics of what a retriever finds, or found, for the queries of a data set.

        `source` is a retriever, or results by query id. A retriever is a function of a query and k,
        or has it as its method `retrieve`; it may be a coroutine function. One with
        `batch_retrieve(queries, k)`, or whose first parameter is called `queries`, gets all at
        once. It returns texts, `Retrieved` documents or mappings with doc_id, text and score, best
        first; `k` is by default the deepest cutoff of the metrics, and what is below rank k is left
        out. The server is asked first whether it takes the metrics, the judge and the options, so
        that no retriever runs in vain. An exception of the retriever is that query's failure: it
        has no part in any mean; if every query fails, the first failure is raised. `concurrency` is
        how many queries a retriever is asked at once: one by default, of a coroutine function four.

        `judge` is one of the server, by default the server's own, or a function of a Context that
        returns True, False or a score from 0 to 1, which runs here; see LocalJudge. `options` are
        by default an interval for every mean. `resume` names a file that all that was found and
        judged is written to as it comes: an evaluation that was interrupted goes on from there, and
        asks nothing twice. Raises FileError for a file of another evaluation, InvalidArgument for
        what is wrong, and what `Client.evaluate` raises. `timeout` is about the judging. `progress`
        is called with a Progress, as in `progress=print`.

        `system_models` are the language models that made what is judged; those that Results or an
        attribute `system_model` of the retriever name count too. Where one of them or of its family
        is to judge, there is a warning, CircularJudging; with `strict`, InvalidArgument before
        anything is asked.
        """
        run = EvaluationRun(
            *(source, dataset, metrics, judge, k, options),
            name=name,
            concurrency=concurrency,
            resume=resume,
            asking=asking,
            progress=progress,
        )
        models = models_of(source, system_models)
        check = _check(run, models, asking, timeout, strict=strict)
        return run_steps(self._client, _evaluate(run, check, asking, timeout, progress))

    def evaluate_groups(
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
        """Return the metrics of groups and the verdicts they rest on; see `Client.evaluate`.

        A recorded judge, say a Replay of a trace, stands for one: then nobody is asked, and the
        families can't be. Which model made the texts is not known here, as it is to `evaluate`:
        `check_circular` warns where it judges its own.
        """
        steps = _evaluate_groups(groups, metrics, judge, options, asking, record, timeout, progress)
        return run_steps(self._client, steps)

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
        """Return what judging groups would take of a language model at most; nothing is asked.

        Groups that are matched by id, and metrics that bring judges of their own, take nothing.
        """
        judged = _to_judge(groups, metrics, options)
        if not judged:
            return CostEstimate()
        return self._client.estimate(judged, judge, asking=asking, timeout=timeout)


class AsyncEvaluator:
    """The same over an AsyncClient: `Evaluator`'s names in the same order."""

    def __init__(self, client: AsyncClient) -> None:
        if not iscoroutinefunction(getattr(client, "evaluate", None)):
            rule = f"must be an AsyncClient, not {type(client).__name__}"
            raise WrongType.of_field("client", rule)
        self._client = client

    async def evaluate(
        self,
        source: Source,
        dataset: Dataset,
        metrics: Sequence[str],
        judge: Judge | LocalJudge | JudgeFunction | RecordedJudge | str | None = None,
        k: int | None = None,
        options: MetricOptions | None = None,
        *,
        name: str = "",
        concurrency: int | None = None,
        resume: Path | str | None = None,
        asking: Asking | None = None,
        system_models: str | Sequence[str] = (),
        strict: bool = False,
        timeout: float = 3600.0,  # noqa: ASYNC109 - sent to the server as the call's deadline
        progress: OnProgress | None = None,
    ) -> EvaluationResult:
        """Return the metrics of a retriever or of results; see `Evaluator.evaluate`.

        A retriever, and a judge that is a function, run on threads of their own.
        """
        run = EvaluationRun(
            *(source, dataset, metrics, judge, k, options),
            name=name,
            concurrency=concurrency,
            resume=resume,
            asking=asking,
            progress=progress,
        )
        models = models_of(source, system_models)
        check = _check(run, models, asking, timeout, strict=strict)
        steps = _evaluate(run, check, asking, timeout, progress)
        return await await_steps(self._client, steps)

    async def evaluate_groups(
        self,
        groups: Iterable[QueryGroup],
        metrics: Sequence[str],
        judge: Judge | RecordedJudge | str | None = None,
        options: MetricOptions = MetricOptions(),  # noqa: B008 - frozen
        *,
        asking: Asking | None = None,
        record: Record | None = None,
        timeout: float = 3600.0,  # noqa: ASYNC109 - sent to the server as the call's deadline
        progress: Progress | None = None,
    ) -> Evaluation:
        """Return the metrics of groups and their verdicts; see `Evaluator.evaluate_groups`."""
        steps = _evaluate_groups(groups, metrics, judge, options, asking, record, timeout, progress)
        return await await_steps(self._client, steps)

    async def estimate(
        self,
        groups: Iterable[QueryGroup],
        metrics: Sequence[str],
        judge: Judge | str | None = None,
        options: MetricOptions = MetricOptions(),  # noqa: B008 - frozen
        asking: Asking | None = None,
        *,
        timeout: float = 120.0,  # noqa: ASYNC109 - sent to the server as the call's deadline
    ) -> CostEstimate:
        """Return what judging would take of a language model; see `Evaluator.estimate`."""
        judged = _to_judge(groups, metrics, options)
        if not judged:
            return CostEstimate()
        return await self._client.estimate(judged, judge, asking=asking, timeout=timeout)


def _check(
    run: EvaluationRun,
    system_models: Sequence[str],
    asking: Asking | None,
    timeout: float,
    *,
    strict: bool,
) -> Steps[None]:
    """Yield the steps that tell what is wrong before a retriever is asked anything.

    The server is asked for the same metrics, by the same judge if it is one of its own, of queries
    that nothing was found for: so it judges nothing. Then whether a system's own model is to judge
    it.
    """
    if run.asks_retriever:
        groups = run.nothing_found()
        if not (run.asks_server and run.asks_at_once):
            nothing = RecordedEvaluation(groups, run.metrics, run.options)
            yield from _measure(nothing, run.metrics, timeout)
        if run.asks_server:
            yield lambda client: client.evaluate(
                *(groups, run.metrics, run.judge, run.options),  # type: ignore[arg-type]
                asking=asking,
                timeout=timeout,
            )
    if system_models and run.asks_server:
        info: ServerInfo = yield lambda client: client.server_info()
        check_circular(info, run.judge, system_models, strict=strict)  # type: ignore[arg-type]


def _evaluate(
    run: EvaluationRun,
    check: Steps[None],
    asking: Asking | None,
    timeout: float,
    progress: OnProgress | None,
) -> Steps[EvaluationResult]:
    """Yield the steps of `Evaluator.evaluate`."""
    with closing(run):
        yield from check
        yield OnThread(run.retrieve)
        open_ended = any(not group.expected and group.open_ended for group in run.groups)
        if open_ended and run.asks_server and not run.asks_at_once:
            probe = [QueryGroup(retrieved=["text"])]
            needed: CostEstimate = yield lambda client: client.estimate(probe, run.judge)  # type: ignore[arg-type]
            if needed.contexts:  # the judge needs no expected text
                run.groups = [fill_expected(group) for group in run.groups]
        if run.asks_at_once:
            evaluation = yield from _evaluate_groups(
                *(run.groups, run.metrics, run.judge, run.options),  # type: ignore[arg-type]
                asking,
                None,
                timeout,
                stage("judging", progress),
            )
        else:
            for piece in run.pieces():
                verdicts = yield _judge(run, piece, timeout)
                run.take(piece, verdicts)
            evaluation = yield from _measure(run.recorded(), run.metrics, timeout)
        return run.result(evaluation)


def _judge(run: EvaluationRun, piece: Piece, timeout: float) -> Step:
    if run.local is not None:
        return OnThread(partial(run.local.judge, piece.groups))
    return lambda client: client.judge(
        piece.groups,
        run.judge,  # type: ignore[arg-type]  # no function, or it would be local
        asking=run.asking,
        request_id=piece.request_id,
        timeout=timeout,
    )


def _evaluate_groups(
    groups: Iterable[QueryGroup],
    metrics: Sequence[str],
    judge: Judge | RecordedJudge | str | None,
    options: MetricOptions,
    asking: Asking | None,
    record: Record | None,
    timeout: float,
    progress: Progress | None,
) -> Steps[Evaluation]:
    """Yield the steps of `Evaluator.evaluate_groups`."""
    names = as_metrics(metrics)
    if not isinstance(judge, RecordedJudge):
        evaluation: Evaluation = yield lambda client: client.evaluate(
            *(groups, names, judge, options),
            include_verdicts=bool(own_metrics(names)),
            asking=asking,
            record=record,
            timeout=timeout,
            progress=progress,
        )
        return evaluation
    recorded = RecordedEvaluation(groups, names, options)
    info: ServerInfo = yield lambda client: client.server_info(timeout=timeout)
    recorded.take(judge, info.rubrics)
    return (yield from _measure(recorded, names, timeout))


def _measure(
    recorded: RecordedEvaluation, metrics: Sequence[str], timeout: float
) -> Steps[Evaluation]:
    table: MetricTable = yield lambda client: client.compute_metrics(
        metrics,
        recorded.rankings,
        recorded.options,
        metadata=recorded.metadata,
        timeout=timeout,
    )
    return recorded.evaluation(table)


def _to_judge(
    groups: Iterable[QueryGroup], metrics: Sequence[str], options: MetricOptions
) -> list[QueryGroup]:
    """Return what the judge of an evaluation would be asked about."""
    need_kind(options, "options", MetricOptions, "MetricOptions")
    distinct = [distinct_group(group) for group in as_groups(groups)]
    asked: list[QueryGroup] = []
    if own_metrics(as_metrics(metrics)):
        plain = (replace(group, negatives=()) for group in distinct)
        asked = [group for group in plain if not group.by_id]
    return [*asked, *against_negatives(distinct)]
