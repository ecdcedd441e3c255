"""One evaluation from retrieving to its result, or of recorded verdicts; `aio` asks the server.

What a retriever finds, and what a judge decides of it, is kept in a file where one is named, so
that an evaluation that was interrupted goes on where it ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from judged._batching.judging import (
    ASKING_KINDS,
    against_negatives,
    at_ranks,
    distinct_group,
    distinct_ranks,
    fold,
    most_contexts,
    packed,
)
from judged._convert import Purse
from judged._files import FileError, Record
from judged._inputs import as_metrics, need_by_ids
from judged._transport.call import derived_id
from judged._views import plain
from judged.errors import InvalidArgument
from judged.evaluation.asking import (
    Asker,
    OnProgress,
    Outcome,
    models_of,
    sha256_of,
    signature_of,
    stage,
)
from judged.evaluation.datasets.dataset import Dataset
from judged.evaluation.datasets.results import Results, Retrieved
from judged.evaluation.labels import as_local, refuse_families
from judged.evaluation.result import (
    EvaluationResult,
    evaluation_warnings,
    join_warnings,
    names_of,
    query_result,
)
from judged.evaluation.retriever import (
    Retrieval,
    RetrievedLog,
    cutoff_of,
    read_ranking,
    retrieve_all,
)
from judged.values import (
    Asking,
    Evaluation,
    IntervalOptions,
    Judge,
    JudgedRanking,
    JudgedRankings,
    JudgeIdentity,
    MetricOptions,
    MetricTable,
    NegativeMatch,
    NegativeReport,
    QueryGroup,
    RubricInfo,
    Status,
    Usage,
    Verdict,
    VerdictCounts,
    Verdicts,
)


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


@dataclass(frozen=True, slots=True)
class _Said:
    """The verdicts of a group, which is known by its key."""

    group: str
    verdicts: Sequence[Verdict]


@dataclass(frozen=True, slots=True)
class _Call:
    """What one call judged, and what it took."""

    judge: JudgeIdentity | None
    groups: Sequence[_Said] = ()
    usage: Usage | None = None


class EvaluationLog(RetrievedLog):
    """What earlier runs found and judged, and the place for what this one does.

    There are lines with what was retrieved for a query, and lines with what one call judged: the
    verdicts of its groups, each known by a hash of all that its verdicts rest on, and what they
    took. All verdicts of a file are of one judge: what was asked for, such as the server's default,
    may be another judge the next time, and a result names only one. Raises FileError for a file
    with verdicts of several. It stands for the judge of all that it has verdicts of.
    """

    def __init__(self, path: Path | str | None, about: Mapping[str, object]) -> None:
        self.said: dict[str, Sequence[Verdict]] = {}
        self.usage: Usage | None = None
        self.judge: JudgeIdentity | None = None
        self._calls = 0
        super().__init__(path, about)

    def take(self, record: Record) -> None:
        """Take a line of an earlier run."""
        if record.get("query_id") is not None:
            found = [result.read(Retrieved) for result in record.records("results")]
            self.known[record.text("query_id")] = Outcome(None, found)
        elif other := self._take(record.read(_Call)):
            problem = f"is of the judge {other[1]}, and the lines before it are of {other[0]}"
            raise record.error(f"{problem}; name another file, or remove this one to begin anew")

    def request_id(self, groups: Sequence[QueryGroup], asking: Asking | None) -> str:
        """Return the request_id of the next call, about some groups.

        It is the same after an interruption, until the call is answered: what is asked again after
        a failure is another call.
        """
        return derived_id(self.run, self._calls, list(map(group_key, groups)), repr(asking))

    def keep_verdicts(self, found: Verdicts) -> None:
        """Keep what a call judged, and what it took: in one line, which is there or not.

        Of groups that a verdict failed of nothing is written. Raises FileError, and writes nothing,
        where another judge gave the verdicts that are there.
        """
        ends = zip(found.groups, pairwise(found.offsets), strict=True)
        said = [_Said(group_key(group), found[start:end]) for group, (start, end) in ends]
        if other := self._take(_Call(found.judge, said, found.usage)):
            problem = f"is of another judge, {other[0]}, and now {other[1]} answers; go back to "
            rest = "that judge, name another file, or remove this one to begin anew"
            raise FileError(self.name, None, problem + rest)
        kept = [s for s in said if all(v.status is not Status.ERROR for v in s.verdicts)]
        self.write(plain(_Call(found.judge, kept, found.usage)))

    def verdicts(self, groups: Sequence[QueryGroup], _: Sequence[RubricInfo]) -> Verdicts | None:
        """Return the verdicts of groups that were judged; None when there was nothing to judge."""
        if self.judge is None:
            return None
        said = [self.said.get(group_key(group), ()) for group in groups]
        offsets = list(accumulate(map(len, said), initial=0))
        return Verdicts.of([v for of in said for v in of], offsets, self.judge, self.usage, groups)

    def _take(self, call: _Call) -> Sequence[str]:
        """Take what a call said; where the judge so far is another one return what tells them.

        One without a fingerprint is not known to be another.
        """
        judge = call.judge
        # A call all of whose verdicts failed left none that another judge's could be mixed with.
        if judge is not None and call.groups:
            if self.judge is None or not self.judge.fingerprint:
                self.judge = judge
            if judge.fingerprint and judge != self.judge:
                # Signatures don't print all that a judge is.
                both = (self.judge, judge)
                return [f"{each.signature} (fingerprint {each.fingerprint[:8]})" for each in both]
        self._calls += 1
        self.said |= {said.group: said.verdicts for said in call.groups}
        if call.usage is not None:
            self.usage = call.usage if self.usage is None else self.usage + call.usage
        return ()


def group_key(group: QueryGroup) -> str:
    """Return the SHA-256 of all that the verdicts of a group rest on, its judge aside."""
    return sha256_of(
        [group.query, plain(group.expected), plain(group.retrieved), plain(group.spans)]
    )


class EvaluationRun:
    """The state of one evaluation. Raises as `Evaluator.evaluate` does; close it when done."""

    def __init__(
        self,
        source: object,
        dataset: Dataset,
        metrics: Sequence[str],
        judge: Any,  # noqa: ANN401 - a judge of any kind
        k: int | None,
        options: MetricOptions | None,
        name: str,
        concurrency: int | None,
        resume: Path | str | None,
        asking: Asking | None,
        system_models: str | Sequence[str],
        progress: OnProgress | None,
    ) -> None:
        if not dataset.queries:
            raise InvalidArgument.of_field("dataset", "holds no queries")
        for field, number in (("concurrency", concurrency), ("k", k)):
            if number is not None and number < 1:
                raise InvalidArgument.of_field(field, "must be 1 or more")
        self.metrics = as_metrics(metrics)
        given = options or MetricOptions(interval=IntervalOptions())
        self.options = replace(given, per_query=True)
        self._source, self._dataset, self._name = source, dataset, name
        self._concurrency, self._progress, self._asking = concurrency, progress, asking
        recorded = isinstance(judge, RecordedJudge)
        self.judge = judge
        self._local = None if recorded else as_local(judge)
        self.asks_server = self._local is None and not recorded
        """Whether a judge of the server is to be asked."""
        self.models = models_of(source, system_models) if self.asks_server else []
        """The language models that made what it is asked about."""
        self.asks_retriever = not isinstance(source, Mapping)
        """Whether a retriever is to be asked, rather than results taken that are there."""
        # Whether verdicts are kept in the log, rather than all groups evaluated by one call.
        self._keeps = self._local is not None or (resume is not None and not recorded)
        if self._local is not None and any(g.spans is not None for g in dataset.to_groups({})):
            rule = (
                "a function judges texts, and the data set expects spans; name the judge span, "
                "or give its queries expected_answers"
            )
            raise InvalidArgument.of_field("judge", rule)
        # Once: a source file that is edited while this runs doesn't change the function.
        self._identity = None if self._local is None else self._local.identity
        kind = judge.kind if isinstance(judge, Judge) else judge
        self._by_spans = True if kind == "span" else None
        self._k = self._deepest() if k is None and self.asks_retriever else k
        if self._keeps:
            refuse_families(self.metrics)
        self._log = EvaluationLog(resume, {} if resume is None else self._about())
        self.decides: Any = judge if self._local is None else self._log
        """The judge that the evaluation is by."""
        self._asker: Asker[Any] = Asker()
        self._warnings: list[str] = []
        self._retrieval = Retrieval(self._k or 0)
        self.groups: Sequence[QueryGroup] = ()

    def nothing_found(self) -> list[QueryGroup]:
        """Return the first group of every kind, with no results: what to ask the server first.

        What makes a kind is whether there are ids of relevant documents, and negatives.
        """
        groups = self._dataset.to_groups({}, by_spans=self._by_spans)
        return list({(g.by_id, bool(g.negatives)): g for g in reversed(groups)}.values())

    def _deepest(self) -> int:
        """Return the deepest cutoff of the metrics. Raises InvalidArgument where one has none."""
        if not self.metrics:
            rule = "must name at least one metric, for example ndcg@10"
            raise InvalidArgument.of_field("metrics", rule)
        cutoffs = {name: cutoff_of(name) or 0 for name in self.metrics}
        for name, cutoff in cutoffs.items():
            if not cutoff:
                rule = (
                    f"name how many documents to ask for, as in k=10 or {name}@10: a metric "
                    f"without a cutoff, here {name}, sees all of them"
                )
                raise InvalidArgument.of_field("k", rule)
        return max(cutoffs.values())

    def _about(self) -> dict[str, object]:
        """Return what a file to go on from must be about."""
        judge = self.judge if self.asks_server else type(self.judge).__name__
        source: Any = self._source
        return {
            "dataset": sha256_of(plain(self._dataset.queries)),
            "retriever": signature_of(source) if self.asks_retriever else "results",
            "k": self._k,
            "judge": plain(judge) if self._identity is None else self._identity.signature,
        }

    def retrieve(self) -> None:
        """Ask the retriever, or take the results that were given; a judge of ours judges them."""
        if isinstance(self._source, Mapping):
            results = _given(self._source, self._k)
            self._warnings += join_warnings(self._dataset, results)
            self._retrieval.results = dict(results)
        else:
            self._retrieval = retrieve_all(
                *(self._source, self._dataset.queries, self._k or 1),
                concurrency=self._concurrency,
                log=self._log,
                progress=stage("retrieving", self._progress),
                asker=self._asker,
            )
            self._warnings += self._retrieval.warnings(self.metrics)
        groups = self._dataset.to_groups(self._retrieval.results, by_spans=self._by_spans)
        self.groups = [g for g in groups if g.query_id not in self._retrieval.failures]
        if self._local is not None:
            for piece, _ in self.pieces():
                if self._asker.stopped:
                    return
                self.take(self._local.judge(piece))

    @property
    def asking(self) -> Asking | None:
        """How the next call asks models: with what is left of the limit on money."""
        usage = self._log.usage
        return Purse(self._asking, 0.0 if usage is None else usage.cost or 0.0).rest()

    def pieces(self) -> Iterator[tuple[Sequence[QueryGroup], str]]:
        """Yield what of the groups one call is to judge, in their order, and its request_id.

        After an interruption it is the same, so that the server answers as it would have answered.
        `take` the verdicts of each before the next. Nothing where one call evaluates all groups.
        """
        if not self._keeps:
            return
        sized = {
            key: (group, [group.n_expected * group.n_retrieved])
            for group in to_judge(self.groups)
            if (key := group_key(group)) not in self._log.said
        }
        told = stage("judging", self._progress)
        done, total = 0, sum(size for _, [size] in sized.values())
        most = 1 if self._local is not None else most_contexts(self.judge)
        for some in packed((each for each in sized.values() if any(each[1])), [most]):
            yield some, self._log.request_id(some, self.asking)
            done += sum(group.n_expected * group.n_retrieved for group in some)
            if told is not None:
                told(done, total)
        self.decides = self._log

    def take(self, verdicts: Verdicts) -> None:
        """Take and keep the verdicts of a piece.

        Raises FileError where they are of another judge than those that were taken or kept before.
        """
        self._log.keep_verdicts(replace(verdicts, judge=self._identity or verdicts.judge))

    def result(self, evaluation: Evaluation) -> EvaluationResult:
        """Return the result, given the evaluation of the groups."""
        found, usage = self._retrieval, evaluation.usage
        if usage is not None:  # two runs over the same data have the same result
            usage = replace(usage, latency_s=0.0)
        places = {group.query_id: place for place, group in enumerate(self.groups)}
        queries = []
        for query in self._dataset.queries:
            name, place = query.query_id, places.get(query.query_id)
            group = None if place is None else self.groups[place]
            of = (group, place or 0, found.results.get(name, ()), evaluation.verdicts)
            queries.append(query_result(query, *of, found.failures.get(name)))
        return EvaluationResult(
            table=evaluation.table,
            queries=queries,
            judge=evaluation.judge,
            negatives=evaluation.negatives,
            usage=usage,
            warnings=[*self._warnings, *evaluation_warnings(evaluation, self.groups)],
            name=self._name,
            k=self._k,
        )

    def close(self) -> None:
        """Ask the retriever no more."""
        self._asker.stop()


def _given(results: Mapping[str, object], k: int | None) -> Results:
    """Return results that were given, no more than k of a query."""
    whole = results
    if not isinstance(whole, Results):
        by_query = need_by_ids(results, "results")
        whole = Results.of(
            {name: read_ranking(ranked, f"results[{name!r}]") for name, ranked in by_query.items()}
        )
    return replace(whole, by_query={query_id: ranked[:k] for query_id, ranked in whole.items()})


def to_judge(groups: Iterable[QueryGroup], *, own: bool = True) -> list[QueryGroup]:
    """Return what the judge of an evaluation is asked about; negatives are behind all groups.

    Without `own` they alone are, as where all metrics bring judges of their own.
    """
    distinct = [distinct_group(group) for group in fold(groups)]
    asked = [replace(group, negatives=()) for group in distinct if own]
    return [*asked, *against_negatives(distinct)]


class RecordedEvaluation:
    """The evaluation of groups by recorded verdicts; ComputeMetrics measures them."""

    def __init__(
        self,
        groups: Iterable[QueryGroup],
        metrics: Sequence[str],
        options: MetricOptions,
        judge: RecordedJudge,
        rubrics: Sequence[RubricInfo],
    ) -> None:
        """Raise InvalidArgument for no groups, and for what a record can't stand for.

        That are metrics that bring a judge of their own, and repeated results where those are
        refused.
        """
        refuse_families(metrics)
        self._given = fold(groups)
        if not self._given:
            raise InvalidArgument.of_field("groups", "must hold at least one group")
        self._ranks = [
            distinct_ranks(group, f"groups[{i}]", strict=options.strict_duplicates)
            for i, group in enumerate(self._given)
        ]
        self._distinct = list(map(at_ranks, self._given, self._ranks))
        self.options = replace(options, strict_duplicates=False)  # none is left
        """The options to measure with."""
        found, n = judge.verdicts(to_judge(self._distinct), rubrics), len(self._given)
        self._verdicts = None if found is None else _of_groups(found, 0, n)
        self._on_negatives = None
        if found is not None and len(found.offsets) > n + 1:
            self._on_negatives = _of_groups(found, n, len(found.offsets) - 1)

    @property
    def metadata(self) -> Mapping[str, Mapping[str, str]]:
        """What is known of the queries, where slices are asked for."""
        groups = self._given if self.options.slice_by else ()
        return {group.query_id: group.metadata for group in groups if group.metadata}

    @property
    def rankings(self) -> JudgedRankings:
        """The groups as ComputeMetrics takes them: those with relevant ids matched by id."""
        verdicts = self._verdicts
        # Their rubrics need not show what was expected; all other judges compare with it.
        asks = verdicts is not None and verdicts.judge.kind in ASKING_KINDS
        rankings = [
            JudgedRanking(
                group.query_id,
                0 if group.by_id else group.n_expected,
                group.n_retrieved,
                names_of(group) if group.by_id else (),
                group.relevant_document_ids,
                group.grades,
                open_ended=asks and group.open_ended,
            )
            for group in self._distinct
        ]
        if verdicts is None:
            return JudgedRankings(rankings, [])
        top = verdicts.judge.max_grade
        return JudgedRankings(
            *(rankings, verdicts.relevant, verdicts.status),
            source=verdicts.source,
            score=verdicts.score if top else (),
            max_grade=top,
        )

    def evaluation(self, table: MetricTable) -> Evaluation:
        """Return the evaluation, given what ComputeMetrics made of the rankings."""
        verdicts, counts = self._verdicts, table.counts
        dropped = sum(g.n_retrieved for g in self._given) - sum(map(len, self._ranks))
        counts = replace(
            counts,
            duplicates=counts.duplicates + dropped,
            verdicts=VerdictCounts.of(verdicts),
        )
        return Evaluation(
            table=replace(table, counts=counts),
            judge=None if verdicts is None else verdicts.judge,
            verdicts=verdicts,
            negatives=None if self._on_negatives is None else self._report(self._on_negatives),
            usage=None if verdicts is None else verdicts.usage,
        )

    def _report(self, verdicts: Verdicts) -> NegativeReport:
        pairs = zip(self._distinct, self._ranks, strict=True)
        asked = [(group, ranks) for group, ranks in pairs if group.negatives]
        matches = [
            NegativeMatch(
                *(group.query_id, ranks[rank], negative),
                *(names_of(group)[rank], verdicts.score[place]),
            )
            for (group, ranks), (start, end) in zip(asked, pairwise(verdicts.offsets), strict=True)
            for place in range(start, end)
            if verdicts.relevant[place]
            for rank, negative in [divmod(place - start, len(group.negatives))]
        ]
        hit = len({match.query_id for match in matches})
        return NegativeReport(len(asked), hit, matches, VerdictCounts.of(verdicts))


def _of_groups(verdicts: Verdicts, begin: int, end: int) -> Verdicts:
    """Return the verdicts of the groups from `begin` up to, not including, `end`."""
    offsets = verdicts.offsets[begin : end + 1]
    each = verdicts[offsets[0] : offsets[-1]]
    moved = [offset - offsets[0] for offset in offsets]
    groups = verdicts.groups[begin:end]
    return Verdicts.of(each, moved, verdicts.judge, verdicts.usage, groups)
