"""One evaluation from retrieving to its result, or of recorded verdicts; `aio` asks the server.

What a retriever finds, and what a judge decides of it, is kept in a file where one is named, so
that an evaluation that was interrupted goes on where it ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from judged._batching.chunks import (
    ASKING_KINDS,
    against_negatives,
    at_ranks,
    distinct_group,
    distinct_ranks,
    most_contexts,
    packed,
)
from judged._convert.groups import as_groups
from judged._convert.judges import Purse
from judged._files import FileError, Record
from judged._inputs import as_metrics, need_by_ids
from judged._transport.call import derived_id
from judged._views import plain
from judged.errors import InvalidArgument
from judged.evaluation.asking import Asker, OnProgress, signature_of, stage
from judged.evaluation.datasets.dataset import Dataset
from judged.evaluation.datasets.query import Query
from judged.evaluation.datasets.results import Results, Retrieved
from judged.evaluation.labels import own_metrics, refuse_families
from judged.evaluation.local_judge import as_local
from judged.evaluation.result import EvaluationResult, QueryResult
from judged.evaluation.resuming import ResumeFile, sha256_of
from judged.evaluation.retriever import Retrieval, cutoff_of, read_ranking, retrieve_all
from judged.evaluation.warnings import evaluation_warnings, join_warnings
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


class EvaluationLog(ResumeFile):
    """What earlier runs found and judged, and the place for what this one does.

    There are lines with what was retrieved for a query, and lines with what one call judged: the
    verdicts of its groups, each known by a hash of all that its verdicts rest on, and what they
    took. All verdicts of a file are of one judge: what was asked for, such as the server's default,
    may be another judge the next time, and a result names only one. Raises FileError for a file
    with verdicts of several.
    """

    def __init__(self, path: Path | str | None, about: Mapping[str, object]) -> None:
        self.retrieved: dict[str, Sequence[Retrieved]] = {}
        self.said: dict[str, Sequence[Verdict]] = {}
        self.usage: Usage | None = None
        self.judge: JudgeIdentity | None = None
        self._calls = 0
        super().__init__(path, about)

    def take(self, record: Record) -> None:
        """Take a line of an earlier run."""
        if record.get("query_id") is not None:
            found = [result.read(Retrieved) for result in record.records("results")]
            self.retrieved[record.text("query_id")] = found
            return
        usage, judge = record.record("usage"), record.record("judge")
        groups = record.records("groups")
        # A call all of whose verdicts failed left none that another judge's could be mixed with.
        if judge is not None and groups:
            identity = judge.read(JudgeIdentity)
            if (other := self._other_judge(identity)) is not None:
                raise record.error(
                    f"is of the judge {_named(identity)}, and the lines before it are of "
                    f"{_named(other)}; name another file, or remove this one to begin anew"
                )
        for group in groups:
            verdicts = [verdict.read(Verdict) for verdict in group.records("verdicts")]
            self.said[group.text("group")] = verdicts
        self._answered(None if usage is None else usage.read(Usage))

    def request_id(self, groups: Sequence[QueryGroup], asking: Asking | None) -> str:
        """Return the request_id of the next call, about some groups.

        It is the same after an interruption, until the call is answered: what is asked again after
        a failure is another call.
        """
        return derived_id(self.run, self._calls, list(map(group_key, groups)), repr(asking))

    def keep_retrieved(self, query: Query, found: Sequence[Retrieved]) -> None:
        """Write down what was retrieved for a query."""
        if self.is_file:
            self.write({"query_id": query.query_id, "results": plain(found)})

    def keep_verdicts(self, call: Verdicts) -> None:
        """Keep what a call judged, and what it took: in one line, which is there or not.

        Of groups that a verdict failed of nothing is written. Raises FileError, and writes nothing,
        where another judge gave the verdicts that are there.
        """
        if (other := self._other_judge(call.judge)) is not None:
            raise FileError(
                self.name,
                None,
                f"is of another judge, {_named(other)}, and now {_named(call.judge)} answers; go "
                "back to that judge, name another file, or remove this one to begin anew",
            )
        ends = pairwise(call.offsets)
        said = {group_key(g): call[a:b] for g, (a, b) in zip(call.groups, ends, strict=True)}
        self.said |= said
        self._answered(call.usage)
        if not self.is_file:
            return
        groups = [
            {"group": key, "verdicts": plain(verdicts)}
            for key, verdicts in said.items()
            if all(verdict.status is not Status.ERROR for verdict in verdicts)
        ]
        usage = None if call.usage is None else asdict(call.usage)
        self.write({"judge": plain(call.judge), "groups": groups, "usage": usage})

    def _answered(self, usage: Usage | None) -> None:
        self._calls += 1
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage

    def _other_judge(self, judge: JudgeIdentity) -> JudgeIdentity | None:
        """Return the judge of the verdicts so far where it is another one, else None.

        One without a fingerprint is not known to be another.
        """
        if self.judge is None or not self.judge.fingerprint:
            self.judge = judge
        return None if self.judge == judge or not judge.fingerprint else self.judge


def group_key(group: QueryGroup) -> str:
    """Return the SHA-256 of all that the verdicts of a group rest on, its judge aside."""
    return sha256_of(
        [group.query, plain(group.expected), plain(group.retrieved), plain(group.spans)]
    )


def _named(judge: JudgeIdentity) -> str:
    """Return what tells a judge from another one: signatures don't print all that a judge is."""
    return f"{judge.signature} (fingerprint {judge.fingerprint[:8]})"


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
        progress: OnProgress | None,
    ) -> None:
        if not dataset.queries:
            raise InvalidArgument.of_field("dataset", "holds no queries")
        if concurrency is not None and concurrency < 1:
            raise InvalidArgument.of_field("concurrency", "must be 1 or more")
        self.metrics = as_metrics(metrics)
        given = options or MetricOptions(interval=IntervalOptions())
        self.options = replace(given, per_query=True)
        self._source, self._dataset, self._name = source, dataset, name
        self._concurrency, self._progress, self._asking = concurrency, progress, asking
        recorded = isinstance(judge, RecordedJudge)
        self.judge = judge
        self.local = None if recorded else as_local(judge)
        self.asks_server = self.local is None and not recorded
        """Whether a judge of the server is to be asked."""
        self.asks_retriever = not isinstance(source, Mapping)
        """Whether a retriever is to be asked, rather than results taken that are there."""
        # Whether one call evaluates all groups: nothing is judged here or kept in a file.
        self.asks_at_once = recorded or (self.local is None and resume is None)
        if self.local is not None and any(g.spans is not None for g in dataset.to_groups({})):
            rule = (
                "a function judges texts, and the data set expects spans; name the judge span, "
                "or give its queries expected_answers"
            )
            raise InvalidArgument.of_field("judge", rule)
        # Once: a source file that is edited while this runs doesn't change the function.
        self._identity = None if self.local is None else self.local.identity
        kind = judge.kind if isinstance(judge, Judge) else judge
        self._by_spans = True if kind == "span" else None
        self._k = self._cutoff(k)
        if not self.asks_at_once:
            refuse_families(self.metrics)
        self._log = EvaluationLog(resume, {} if resume is None else self._about())
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

    def _cutoff(self, k: int | None) -> int | None:
        if k is not None and k < 1:
            raise InvalidArgument.of_field("k", "must be 1 or more")
        if k is not None or not self.asks_retriever:
            return k
        if not self.metrics:
            rule = "must name at least one metric, for example ndcg@10"
            raise InvalidArgument.of_field("metrics", rule)
        deepest = 0
        for name in self.metrics:
            if (cutoff := cutoff_of(name)) is None:
                rule = (
                    f"name how many documents to ask for, as in k=10 or {name}@10: a metric "
                    f"without a cutoff, here {name}, sees all of them"
                )
                raise InvalidArgument.of_field("k", rule)
            deepest = max(deepest, cutoff)
        return deepest

    def _about(self) -> dict[str, object]:
        """Return what a file to go on from must be about."""
        judge = self.judge
        if self._identity is not None:
            judge = self._identity.signature
        elif not self.asks_server:
            judge = type(judge).__name__
        source: Any = self._source
        return {
            "dataset": sha256_of(plain(self._dataset.queries)),
            "retriever": signature_of(source) if self.asks_retriever else "results",
            "k": self._k,
            "judge": plain(judge),
        }

    def retrieve(self) -> None:
        """Ask the retriever, or take the results that were given."""
        if isinstance(self._source, Mapping):
            results = _given(self._source, self._k)
            self._warnings += join_warnings(self._dataset, results)
            self._retrieval.results = dict(results)
        else:
            self._retrieval = retrieve_all(
                *(self._source, self._dataset.queries, self._k or 1),
                concurrency=self._concurrency,
                known=self._log.retrieved,
                kept=self._log.keep_retrieved,
                progress=stage("retrieving", self._progress),
                asker=self._asker,
            )
            if self._asker.stopped:
                return
            self._warnings += self._retrieval.warnings(self.metrics)
        groups = self._dataset.to_groups(self._retrieval.results, by_spans=self._by_spans)
        self.groups = [g for g in groups if g.query_id not in self._retrieval.failures]

    @property
    def asking(self) -> Asking | None:
        """How the next call asks models: with what is left of the limit on money."""
        usage = self._log.usage
        return Purse(self._asking, 0.0 if usage is None else usage.cost or 0.0).rest()

    def pieces(self, groups: Sequence[QueryGroup]) -> Iterator[tuple[Sequence[QueryGroup], str]]:
        """Yield what of the groups one call is to judge, in their order, and its request_id.

        After an interruption it is the same, so that the server answers as it would have answered.
        `take` the verdicts of each before the next.
        """
        left = {group_key(group): group for group in groups}
        sized = [
            (group, [group.n_expected * group.n_retrieved])
            for key, group in left.items()
            if key not in self._log.said and group.n_expected and group.n_retrieved
        ]
        told = stage("judging", self._progress)
        done, total = 0, sum(size for _, [size] in sized)
        most = 1 if self.local is not None else most_contexts(self.judge)
        for some in packed(sized, [most]):
            yield some, self._log.request_id(some, self.asking)
            done += sum(group.n_expected * group.n_retrieved for group in some)
            if told is not None:
                told(done, total)

    def take(self, verdicts: Verdicts) -> None:
        """Take and keep the verdicts of a piece.

        Raises FileError where they are of another judge than those that were taken or kept before.
        """
        self._log.keep_verdicts(replace(verdicts, judge=self._identity or verdicts.judge))

    def verdicts(self, groups: Sequence[QueryGroup]) -> Verdicts | None:
        """Return all verdicts that were taken; None when there was nothing to judge."""
        log = self._log
        if log.judge is None:
            return None
        said = [log.said.get(group_key(group), ()) for group in groups]
        offsets = list(accumulate(map(len, said), initial=0))
        return Verdicts.of([v for of in said for v in of], offsets, log.judge, log.usage, groups)

    def result(self, evaluation: Evaluation) -> EvaluationResult:
        """Return the result, given the evaluation of the groups."""
        found, usage = self._retrieval, evaluation.usage
        if usage is not None:  # two runs over the same data have the same result
            usage = replace(usage, latency_s=0.0)
        groups = {group.query_id: (place, group) for place, group in enumerate(self.groups)}
        queries = []
        for query in self._dataset.queries:
            name = query.query_id
            place, group = groups.get(name, (0, None))
            of = (query, group, place, found.results.get(name, ()), evaluation.verdicts)
            queries.append(QueryResult.of(*of, found.failures.get(name)))
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
        """Ask the retriever no more, and close the file to go on from."""
        self._asker.stop()
        self._log.close()


def _given(results: Mapping[str, object], k: int | None) -> Results:
    """Return results that were given, no more than k of a query."""
    whole = results
    if not isinstance(whole, Results):
        by_query = need_by_ids(results, "results")
        whole = Results.of(
            {name: read_ranking(ranked, f"results[{name!r}]") for name, ranked in by_query.items()}
        )
    return replace(whole, by_query={query_id: ranked[:k] for query_id, ranked in whole.items()})


def to_judge(groups: Iterable[QueryGroup], metrics: Sequence[str]) -> list[QueryGroup]:
    """Return what the judge of an evaluation would be asked about."""
    distinct = [distinct_group(group) for group in as_groups(groups)]
    asked: list[QueryGroup] = []
    if own_metrics(as_metrics(metrics)):
        plain = (replace(group, negatives=()) for group in distinct)
        asked = [group for group in plain if not group.by_id]
    return [*asked, *against_negatives(distinct)]


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


class RecordedEvaluation:
    """The evaluation of groups by recorded verdicts; ComputeMetrics measures them."""

    def __init__(
        self, groups: Iterable[QueryGroup], metrics: Sequence[str], options: MetricOptions
    ) -> None:
        """Raise InvalidArgument for no groups, and for what a record can't stand for.

        That are metrics that bring a judge of their own, and repeated results where those are
        refused.
        """
        refuse_families(metrics)
        self.metrics = metrics
        self._given = as_groups(groups)
        if not self._given:
            raise InvalidArgument.of_field("groups", "must hold at least one group")
        self._ranks = [
            distinct_ranks(group, f"groups[{i}]", strict=options.strict_duplicates)
            for i, group in enumerate(self._given)
        ]
        self._distinct = list(map(at_ranks, self._given, self._ranks))
        self.options = replace(options, strict_duplicates=False)  # none is left
        """The options to measure with."""
        own = [replace(group, negatives=()) for group in self._distinct]
        self.to_judge = [*own, *against_negatives(self._distinct)]
        """The groups that verdicts are needed of; those of negatives are behind the others."""
        self._verdicts: Verdicts | None = None
        self._on_negatives: Verdicts | None = None

    def take_verdicts(self, verdicts: Verdicts | None) -> None:
        """Take the verdicts of `to_judge`; None when there was nothing to judge."""
        n = len(self._distinct)
        self._verdicts = verdicts
        if verdicts is not None and len(verdicts.offsets) > n + 1:
            self._verdicts = _of_groups(verdicts, 0, n)
            self._on_negatives = _of_groups(verdicts, n, len(verdicts.offsets) - 1)

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
                _names_of(group) if group.by_id else (),
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
        verdicts = self._verdicts
        n_given = sum(group.n_retrieved for group in self._given)
        dropped = n_given - sum(group.n_retrieved for group in self._distinct)
        counts = replace(
            table.counts,
            duplicates=table.counts.duplicates + dropped,
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
        matches: list[NegativeMatch] = []
        queries = hit = 0
        for group, ranks in zip(self._distinct, self._ranks, strict=True):
            if not group.negatives:
                continue
            start, end = verdicts.offsets[queries : queries + 2]
            queries += 1
            found = [
                NegativeMatch(group.query_id, ranks[rank], negative, _names_of(group)[rank], score)
                for place in range(start, end)
                if verdicts.relevant[place]
                for rank, negative in [divmod(place - start, len(group.negatives))]
                for score in [verdicts.score[place]]
            ]
            hit += bool(found)
            matches += found
        return NegativeReport(queries, hit, matches, VerdictCounts.of(verdicts))


def _names_of(group: QueryGroup) -> Sequence[str]:
    return group.document_ids or [f"retrieved_{rank}" for rank in range(group.n_retrieved)]


def _of_groups(verdicts: Verdicts, begin: int, end: int) -> Verdicts:
    """Return the verdicts of the groups from `begin` up to, not including, `end`."""
    offsets = verdicts.offsets[begin : end + 1]
    each = verdicts[offsets[0] : offsets[-1]]
    moved = [offset - offsets[0] for offset in offsets]
    groups = verdicts.groups[begin:end]
    return Verdicts.of(each, moved, verdicts.judge, verdicts.usage, groups)
