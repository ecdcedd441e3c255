# Generated from client/judged/evaluation/aio.py by proto/sync.py. Do not edit.
"""The synchronous functions of `judged.evaluation` that ask a server.

Evaluations of results, of retrievers, of recorded judgements and of answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

from judged._batching.judging import Progress
from judged._batching.parts import Record
from judged._inputs import as_metrics, need_kind
from judged._transport.primitives import on_thread
from judged.client import Client
from judged.evaluation.answer_comparison import (
    METRIC,
    RUBRIC,
    AnswerPairs,
    AnswerSimilarity,
    CandidateAnswer,
    ComparedAnswers,
    known_values,
    similarity_groups,
    similarity_of,
)
from judged.evaluation.answer_evaluation import (
    AnswerEvaluation,
    AnswerRun,
    Question,
    ScoreTrace,
    System,
)
from judged.evaluation.asking import OnProgress, check_circular, stage
from judged.evaluation.datasets.dataset import Dataset
from judged.evaluation.evaluation_run import (
    EvaluationRun,
    RecordedEvaluation,
    RecordedJudge,
    to_judge,
)
from judged.evaluation.labels import JudgeFunction, LocalJudge, own_metrics
from judged.evaluation.result import EvaluationResult
from judged.evaluation.retriever import Source
from judged.values import (
    Asking,
    CostEstimate,
    Evaluation,
    IntervalOptions,
    Judge,
    MetricOptions,
    QueryGroup,
    Rubric,
    ScoredAnswers,
    TextItem,
)


class Evaluator:
    """Evaluates over one client, which it neither opens nor closes."""

    def __init__(self, client: Client) -> None:
        need_kind(client, "client", Client, Client.__name__)
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
            *(source, dataset, metrics, judge, k, options, name, concurrency, resume),
            *(asking, system_models, progress),
        )
        client = self._client
        with closing(run):
            if run.asks_retriever:  # what is wrong is known before it is asked anything
                self.evaluate_groups(
                    *(run.nothing_found(), run.metrics, run.decides, run.options),
                    asking=asking,
                    timeout=timeout,
                )
            if run.models:
                check_circular(client.server_info(), run.judge, run.models, strict=strict)
            on_thread(run.retrieve)
            if run.asks_server:
                filled = client._filled(run.groups, run.judge, timeout)  # noqa: SLF001 - as it does
                run.groups = filled
            for groups, request_id in run.pieces():
                verdicts = client.judge(
                    *(groups, run.judge),
                    asking=run.asking,
                    request_id=request_id,
                    timeout=timeout,
                )
                run.take(verdicts)
            evaluation = self.evaluate_groups(
                *(run.groups, run.metrics, run.decides, run.options),
                asking=asking,
                timeout=timeout,
                progress=stage("judging", progress),
            )
            return run.result(evaluation)

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
        names = as_metrics(metrics)
        if not isinstance(judge, RecordedJudge):
            return self._client.evaluate(
                *(groups, names, judge, options),
                include_verdicts=bool(own_metrics(names)),
                asking=asking,
                record=record,
                timeout=timeout,
                progress=progress,
            )
        info = self._client.server_info(timeout=timeout)
        recorded = RecordedEvaluation(groups, names, options, judge, info.rubrics)
        table = self._client.compute_metrics(
            *(names, recorded.rankings, recorded.options),
            metadata=recorded.metadata,
            timeout=timeout,
        )
        return recorded.evaluation(table)

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


def evaluate_answers(
    items: Iterable[Question],
    system: System,
    rubrics: Iterable[Rubric | str],
    *,
    client: Client,
    resume: Path | str | None = None,
    concurrency: int = 4,
    asking: Asking | None = None,
    include_replies: bool = False,
    trace: ScoreTrace | None = None,
    system_models: str | Sequence[str] = (),
    strict: bool = False,
    timeout: float = 3600.0,
    progress: Progress | None = None,
) -> AnswerEvaluation:
    """Return what a system answered to questions, and the scores of its answers by rubrics.

    `system` is called with the query, and with `contexts=` when it has such a parameter; it returns
    text or an Answer, whose contexts, where it brings some, are those it is scored by. It may be a
    coroutine function, which then runs on an event loop of its own. At most `concurrency` questions
    are with it at once. An exception of the system is that question's failure.

    `resume` names a file that every answer is written to as it comes: a later run asks only what
    has no answer there, and within 10 minutes of an interruption pays for no score twice. `trace`,
    a `judged.traces.TraceFile`, keeps the scores as `judged score --trace` does, so that they can
    be had again without a model. `timeout` is about the scoring.
    `progress` is called with (done, in all), where each answer counts as one, and so does each
    score. `system_models`, and an attribute `system_model` of the system, name the language models
    that answer: where one of their family is to score, there is a warning, CircularJudging; with
    `strict`, InvalidArgument at `rubrics`.

    Raises InvalidArgument for questions or rubrics that are wrong, FileError for a file that
    belongs to other questions or can't be written, and what `Client.score_answers` raises: before
    the first question where the server can tell then, as of an unknown rubric or model.
    """
    run = AnswerRun(items, system, rubrics, resume, concurrency, progress)
    info = client.server_info()
    client.estimate_scores(run.unanswered, run.rubrics, asking=asking)
    run.check(info, asking, system_models, strict=strict)
    try:
        on_thread(run.ask)
    finally:
        run.stop()  # who left wants no more answers
    if run.answered:
        found = client.score_answers(
            *(run.answered, run.rubrics),
            include_replies=include_replies,
            asking=asking,
            request_id=run.request_id,
            timeout=timeout,
            progress=lambda *_: run.count(),
        )
        run.take(found, info, trace)
    return run.evaluation()


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


def answer_similarity(
    items: Sequence[TextItem],
    negatives: Sequence[Sequence[str]] = (),
    *,
    client: Client,
    judge: Judge | str = "semantic",
    interval: IntervalOptions | None = None,
    timeout: float | None = None,
) -> AnswerSimilarity:
    """Return how close answers are to their references; `negatives` has a list for each item.

    Raises InvalidArgument for an item without references, for another number of `negatives`, and
    where a comparison failed; else as `Client.judge` and `Client.compute_metrics` do.
    """
    verdicts = client.judge(similarity_groups(items, negatives), judge, timeout=timeout)
    found = similarity_of(items, verdicts)
    options = MetricOptions(per_query=True, interval=interval)
    values = known_values(found.metric.per_query)
    [mean] = client.compute_metrics([METRIC], values, options, timeout=timeout)
    return found.with_mean(mean)
