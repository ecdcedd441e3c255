"""The synchronous client: one method a call of the service. `aio` has the same on asyncio."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Self

import grpc

from judged import errors
from judged._batching import calls
from judged._batching.batch import Batch
from judged._batching.calls import Call, Calls, Result, Walk, Whole
from judged._batching.chunks import fold
from judged._batching.estimates import estimate_judging, estimate_scoring, expected_filled
from judged._batching.evaluate_stream import EvaluateStream, Progress, Record
from judged._batching.judge_stream import JudgeStream
from judged._batching.metric_parts import Given, Parts
from judged._batching.rankings import Metadata
from judged._batching.score_stream import Threads
from judged._batching.scoring import Scoring
from judged._convert.judges import write_judge
from judged._transport.call import CallOptions
from judged._transport.connection import Connection
from judged._transport.options import COMPUTING_S, JUDGING_S, STREAM_S, BaseClient, read_options
from judged._transport.streams import run_stream
from judged.credentials import Credentials
from judged.values import (
    AnswerItem,
    AnswerScore,
    Asking,
    CalibrateOptions,
    Calibration,
    CascadeFrontier,
    CascadeOptions,
    ComparedRuns,
    CompareOptions,
    Context,
    CostEstimate,
    Evaluation,
    IntervalOptions,
    Judge,
    JudgedChunk,
    LabelledScores,
    MeasuredAgreement,
    MetricOptions,
    MetricTable,
    PairedComparison,
    PerQueryValues,
    QueryGroup,
    RatingTable,
    Relevance,
    Rubric,
    RunRelevance,
    ScoredAnswers,
    ServerInfo,
    StagedLabels,
    SystemRanking,
    SystemScores,
    TenantUsage,
    TextItem,
    TextMetricTable,
    Verdicts,
)


class Client(BaseClient[Connection]):
    """A connection to one judge daemon. Safe to share between threads; close it when done."""

    def __init__(
        self,
        target: str | None = None,
        *,
        credentials: Credentials | None = None,
        channel: grpc.Channel | None = None,
        timeout: float | None = None,
        max_retries: int | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        """Connect to `target` ("HOST:PORT", "unix:PATH"), else JUDGED_TARGET, else the default.

        A name of several addresses has its calls go to each in turn. `credentials` are a Token or
        Tls. `channel` takes the place of a connection of our own; it is not closed. The other
        options are those of `with_options`. Raises InvalidArgument for what can't be used.
        """
        given = read_options(timeout=timeout, max_retries=max_retries, metadata=metadata)
        connection = Connection(target, credentials=credentials, channel=channel)
        super().__init__(connection, CallOptions(**given))  # type: ignore[arg-type]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. Calls under way end with ClientUnusable, and so do later ones."""
        self._connection.close()

    def judge(
        self,
        items: Iterable[QueryGroup] | Iterable[Context],
        judge: Judge | str | None = None,
        *,
        include_details: bool = False,
        asking: Asking | None = None,
        request_id: str = "",
        timeout: float | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> Verdicts:
        """Return one verdict for each context, in order, however many there are.

        Large batches travel in chunks, several at once. A chunk that fails for good gives its
        contexts the status ERROR; the call raises when the request is wrong or nothing was
        answered. `progress` is called with (contexts done, contexts in all). `include_details` asks
        how a language model came to each verdict, `asking` says how models are asked. A call that
        is made again within 10 minutes with the same `request_id` (a UUID of version 4) and all
        else the same gets the replies to the first, those under way included. Which model made the
        texts is not known here: `judged.evaluation.check_circular` warns where it judges its own.
        """
        groups = self._call_each(expected_filled(fold(items), judge), timeout)
        batch = Batch(groups, progress, asking, judge, request_id)
        requests = batch.requests(write_judge(judge), include_details=include_details)
        deadline, send = self._deadline(timeout, JUDGING_S), self._connection.judging.BatchJudge
        with closing(self._connection.send_all(send, requests, deadline, batch.ahead)) as sent:
            for chunk, answer in sent:
                try:
                    reply = answer.finish()
                except errors.JudgedError as error:
                    batch.failed(chunk, error)
                else:
                    batch.answered(chunk, reply)
        return batch.verdicts()

    def judge_stream(
        self,
        chunks: Iterable[Sequence[QueryGroup]],
        judge: Judge | str | None = None,
        *,
        include_details: bool = False,
        asking: Asking | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> Generator[JudgedChunk, None, None]:
        """Yield every chunk's verdicts as they finish, in any order; ids count chunks from 0.

        A stream that breaks is sent again with what has no answer, while `timeout` lasts, under one
        `request_id` (a UUID of version 4, drawn where none is given): models answer nothing twice.
        """
        stream = JudgeStream(
            *(chunks, judge, asking, self._deadline(timeout, STREAM_S), self._connection.budget),
            include_details=include_details,
            request_id=request_id,
        )
        yield from run_stream(self._connection, lambda to: to.judging.StreamJudge, stream)

    def evaluate(
        self,
        groups: Iterable[QueryGroup],
        metrics: Sequence[str],
        judge: Judge | str | None = None,
        options: MetricOptions = MetricOptions(),  # noqa: B008 - frozen
        *,
        include_verdicts: bool = False,
        include_details: bool = False,
        asking: Asking | None = None,
        record: Record | None = None,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> Evaluation:
        """Return metrics of groups that the server judges on the way, however many there are.

        Groups with relevant ids are matched by id; when all are, no judge is asked and the result
        names none. Metrics of the families `_exact` and `_similarity` ask their own judges; the one
        given is asked only if another metric, a negative reference, or `include_verdicts` needs it.
        Contexts that could not be judged have the status ERROR, which widens the bounds; the call
        raises when the request is wrong or nothing was judged, and its error then has the verdicts
        that are there as `verdicts`. A stream that breaks is sent again while `timeout` lasts. For
        that, groups that can be read only once are kept in memory.

        `progress` is called with (contexts done, contexts in all). `record` is told the groups as
        they were judged, those of negatives behind the others, and their verdicts with details. The
        offsets of the verdicts are those of the groups without their repeated results.
        """
        if isinstance(groups, Sequence):
            groups = self._call_each(expected_filled(groups, judge), timeout)
        stream = EvaluateStream(
            *(groups, metrics, judge, options, asking),
            *(self._deadline(timeout, STREAM_S), self._connection.budget),
            include_verdicts=include_verdicts,
            include_details=include_details,
            record=record,
            progress=progress,
        )
        for _ in run_stream(self._connection, lambda to: to.judging.StreamEvaluate, stream):
            pass  # the stream keeps what it is told
        return stream.evaluation()

    def compute_metrics(
        self,
        metrics: Sequence[str],
        relevance: Relevance,
        options: MetricOptions = MetricOptions(),  # noqa: B008 - frozen
        *,
        metadata: Metadata | None = None,
        human_values: PerQueryValues | None = None,
        timeout: float | None = None,
    ) -> MetricTable:
        """Return metrics of rankings whose relevance is known, however many topics there are.

        `metadata` maps query ids to what is known of the query, for `slice_by`.
        `human_values` are what people's labels make of some of the queries, drawn at random: every
        mean then also comes corrected. Labels of judged rankings belong into these instead.
        """
        parts = Parts(metrics, Given(relevance, metadata or {}, human_values), options)
        deadline = self._deadline(timeout, COMPUTING_S)
        send = self._connection.judging.ComputeMetrics
        with closing(self._connection.send_all(send, parts.requests(), deadline)) as sent:
            for part, reply in sent:
                with parts.about(part):
                    parts.answered(reply.finish())
        if (whole := parts.whole()) is None:
            return parts.table()
        part, request = whole
        with parts.about(part):
            return parts.table(self._connection.call(send, request, deadline))

    def compare_runs(
        self,
        metrics: Sequence[str],
        runs: Mapping[str, RunRelevance],
        options: MetricOptions = MetricOptions(),  # noqa: B008 - frozen
        comparison: CompareOptions = CompareOptions(),  # noqa: B008 - frozen
        *,
        qrels: Mapping[str, Mapping[str, int]] | None = None,
        timeout: float | None = None,
    ) -> ComparedRuns:
        """Return whether runs on the same queries differ, each later one against the first.

        `runs` maps the name of a run to what it brings, all of them the same kind; `qrels` judges
        those that bring documents. Everything travels in one message: measure what is larger with
        `compute_metrics` and compare the values.
        """
        return self._call(calls.compare_runs(metrics, runs, qrels, options, comparison), timeout)

    def compute_text_metrics(
        self,
        metrics: Sequence[str],
        items: Iterable[TextItem],
        *,
        per_item: bool = False,
        interval: IntervalOptions | None = None,
        timeout: float | None = None,
    ) -> TextMetricTable:
        """Return bleu, rouge1, rouge2, rougeL, token_f1 or exact_match of texts and references."""
        steps = calls.text_metrics(metrics, items, per_item=per_item, interval=interval)
        return self._call_each(steps, timeout)

    def measure_agreement(
        self,
        ratings: RatingTable | None = None,
        systems: SystemScores | None = None,
        interval: IntervalOptions | None = None,
        *,
        timeout: float | None = None,
    ) -> MeasuredAgreement:
        """Return how far raters agree on items, or two judges on the order of systems, or both."""
        return self._call(calls.measure_agreement(ratings, systems, interval), timeout)

    def calibrate(
        self,
        items: LabelledScores,
        options: CalibrateOptions = CalibrateOptions(),  # noqa: B008 - frozen
        interval: IntervalOptions | None = None,
        *,
        timeout: float | None = None,
    ) -> Calibration:
        """Return a judge's worth: its quality, thresholds, cascade bounds, corrected prevalence."""
        return self._call(calls.calibrate(items, options, interval), timeout)

    def calibrate_cascade(
        self,
        items: StagedLabels,
        options: CascadeOptions = CascadeOptions(),  # noqa: B008 - frozen
        *,
        timeout: float | None = None,
    ) -> CascadeFrontier:
        """Return the cascades of judges that labels find worth having, and the one proposed."""
        return self._call(calls.calibrate_cascade(items, options), timeout)

    def rank_systems(
        self,
        comparisons: Sequence[PairedComparison],
        interval: IntervalOptions | None = None,
        *,
        timeout: float | None = None,
    ) -> SystemRanking:
        """Return systems in the order of paired comparisons: Bradley-Terry with Davidson's ties."""
        return self._call(calls.rank_systems(comparisons, interval), timeout)

    def score_answers(
        self,
        items: Iterable[AnswerItem],
        rubrics: Iterable[Rubric | str],
        *,
        include_replies: bool = False,
        asking: Asking | None = None,
        request_id: str = "",
        timeout: float | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> ScoredAnswers:
        """Return the score of every item by every rubric, in this order, however many there are.

        Large inputs travel in parts, several at once. Scores that never came have the status ERROR;
        the call raises when the request is wrong or nothing was answered. `progress` is called with
        (scores done, scores in all). `include_replies` asks for the models' replies. For 10 minutes
        no score is paid twice under one `request_id` (a UUID of version 4).
        """
        scoring = Scoring(
            items, rubrics, asking, progress, request_id, include_replies=include_replies
        )
        for _ in self._scores(scoring, timeout):
            pass  # the parts keep them
        return scoring.whole()

    def stream_scores(
        self,
        items: Iterable[AnswerItem],
        rubrics: Iterable[Rubric | str],
        *,
        include_replies: bool = False,
        asking: Asking | None = None,
        timeout: float | None = None,
    ) -> Generator[AnswerScore, None, None]:
        """Yield every score as soon as it is there, in any order; see score_answers.

        Those that never came are last, as errors. To leave early ends what is still asked.
        """
        scoring = Scoring(items, rubrics, asking, include_replies=include_replies)
        return self._scores(scoring, timeout)

    def estimate(
        self,
        items: Iterable[QueryGroup] | Iterable[Context],
        judge: Judge | str | None = None,
        *,
        asking: Asking | None = None,
        timeout: float | None = None,
    ) -> CostEstimate:
        """Return what `judge` would take of calls, tokens and money at most; nothing is asked."""
        return self._call_each(estimate_judging(items, judge, asking), timeout)

    def estimate_scores(
        self,
        items: Iterable[AnswerItem],
        rubrics: Iterable[Rubric | str],
        *,
        asking: Asking | None = None,
        timeout: float | None = None,
    ) -> CostEstimate:
        """Return what `score_answers` would take of calls, tokens and money at most."""
        return self._call_each(estimate_scoring(items, rubrics, asking), timeout)

    def server_info(self, *, timeout: float | None = None) -> ServerInfo:
        """Return the server's version, limits, judges, models and metrics."""
        return self._call(calls.server_info(), timeout)

    def usage(self, days: int = 31, *, timeout: float | None = None) -> TenantUsage:
        """Return what your tenant asked of language models in so many days (1 to 366, in UTC).

        Today is among them. It also has what is left of the tenant's budgets. Nobody can ask for
        another tenant's.
        """
        return self._call(calls.usage(days), timeout)

    def _call(self, call: Call[Result], timeout: float | None) -> Result:
        send = call.method(self._connection)
        deadline = self._deadline(timeout, call.usual_s)
        return call.read(self._connection.call(send, call.request, deadline))

    def _call_each(self, steps: Calls[Result, Whole], timeout: float | None) -> Whole:
        """Return the result of calls that are made one after the other, in one deadline."""
        deadline = self._deadline(timeout, COMPUTING_S)
        walk = Walk(steps)
        while (call := walk.step) is not None:
            send = call.method(self._connection)
            try:
                reply = self._connection.call(send, call.request, deadline)
            except errors.JudgedError as error:
                walk.failed(error)
            else:
                walk.answered(call.read(reply))
        return walk.whole

    def _scores(
        self, scoring: Scoring, timeout: float | None
    ) -> Generator[AnswerScore, None, None]:
        send = self._connection.judging.ScoreAnswers
        deadline = self._deadline(timeout, STREAM_S)
        return Threads(send, deadline, self._connection.budget, self.target).run(scoring)
