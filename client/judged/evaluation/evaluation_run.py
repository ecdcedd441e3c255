"""One evaluation from retrieving to its result, or of recorded verdicts; `aio` asks the server.

What a retriever finds, and what a judge decides of it, is kept in a file where one is named, so
that an evaluation that was interrupted goes on where it ended.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
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
from judged._inputs import as_metrics, need_by_ids
from judged.errors import InvalidArgument
from judged.evaluation.asking import Asker, OnProgress, stage
from judged.evaluation.datasets.dataset import Dataset
from judged.evaluation.datasets.results import Results
from judged.evaluation.labels import own_metrics, refuse_families
from judged.evaluation.local_judge import as_local
from judged.evaluation.query_result import QueryResult
from judged.evaluation.result import EvaluationResult
from judged.evaluation.resuming import EvaluationLog, group_key
from judged.evaluation.retriever import Retrieval, cutoff_of, read_ranking, retrieve_all
from judged.evaluation.system import signature_of
from judged.evaluation.warnings import evaluation_warnings, join_warnings
from judged.values import (
    Asking,
    Evaluation,
    IntervalOptions,
    Judge,
    JudgedRanking,
    JudgedRankings,
    MetricOptions,
    MetricTable,
    NegativeMatch,
    NegativeReport,
    QueryGroup,
    RubricInfo,
    Status,
    Usage,
    VerdictCounts,
    Verdicts,
)
from judged.values.verdicts import join_verdicts, pick_verdicts


@dataclass(frozen=True, slots=True)
class Piece:
    """Some groups that are judged by one call, and their places among all.

    `request_id` is that of the call: after an interruption the same, so that the server answers it
    as it would have been answered. "" where nothing is kept.
    """

    places: Sequence[int]
    groups: Sequence[QueryGroup]
    request_id: str = ""


class EvaluationRun:
    """The state of one evaluation. Raises as `Evaluator.evaluate` does; close it when done."""

    def __init__(
        self,
        source: object,
        dataset: Dataset,
        metrics: Sequence[str],
        judge: object,
        k: int | None,
        options: MetricOptions | None,
        *,
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
        self._concurrency, self._progress = concurrency, progress
        self._asking = asking
        self.judge: Any = judge
        self._recorded_judge = isinstance(judge, RecordedJudge)
        self.local = None if self._recorded_judge else as_local(judge)
        expects_spans = any(group.spans is not None for group in dataset.to_groups({}))
        if self.local is not None and expects_spans:
            rule = (
                "a function judges texts, and the data set expects spans; name the judge span, "
                "or give its queries expected_answers"
            )
            raise InvalidArgument.of_field("judge", rule)
        # Once: a source file that is edited while this runs doesn't change the function.
        self._identity = None if self.local is None else self.local.identity
        self._k = self._cutoff(k)
        self._log = None if resume is None else EvaluationLog(resume, self._about())
        self._asker: Asker[Any] = Asker()
        self.warnings: list[str] = []
        self._retrieval = Retrieval(self._k or 0)
        self.groups: list[QueryGroup] = []
        self._recorded: RecordedEvaluation | None = None
        self._to_judge: list[QueryGroup] = []
        self._parts: dict[int, Verdicts] = {}
        self._usage: Usage | None = None

    @property
    def asks_server(self) -> bool:
        """Whether a judge of the server is to be asked."""
        return self.local is None and not self._recorded_judge

    @property
    def asks_retriever(self) -> bool:
        """Whether a retriever is to be asked, rather than results taken that are there."""
        return not isinstance(self._source, Mapping)

    @property
    def asks_at_once(self) -> bool:
        """Whether one call evaluates all groups: nothing is judged here or kept in a file."""
        return self._recorded_judge or (self.local is None and self._log is None)

    def nothing_found(self) -> list[QueryGroup]:
        """Return the first group of every kind, with no results.

        What makes a kind is whether there are ids of relevant documents, and negatives.
        """
        first: dict[tuple[bool, bool], QueryGroup] = {}
        for group in self._dataset.to_groups({}, by_spans=self._by_spans):
            kind = group.by_id, bool(group.negatives)
            first.setdefault(kind, group)
        return list(first.values())

    @property
    def _by_spans(self) -> bool | None:
        kind = self.judge.kind if isinstance(self.judge, Judge) else self.judge
        return True if kind == "span" else None

    def _cutoff(self, k: int | None) -> int | None:
        if k is not None and k < 1:
            raise InvalidArgument.of_field("k", "must be 1 or more")
        if k is not None or not self.asks_retriever:
            return k
        if not self.metrics:
            rule = "must name at least one metric, for example ndcg@10"
            raise InvalidArgument.of_field("metrics", rule)
        cutoffs = {name: cutoff_of(name) for name in self.metrics}
        for name, cutoff in cutoffs.items():
            if cutoff is None:
                rule = (
                    f"name how many documents to ask for, as in k=10 or {name}@10: a metric "
                    f"without a cutoff, here {name}, sees all of them"
                )
                raise InvalidArgument.of_field("k", rule)
        return max(filter(None, cutoffs.values()), default=0)

    def _about(self) -> dict[str, object]:
        """Return what a file to go on from must be about."""
        queries = [asdict(query) for query in self._dataset.queries]
        text = json.dumps(queries, ensure_ascii=False, sort_keys=True)
        judge: object = self.judge
        if self._identity is not None:
            judge = self._identity.signature
        elif isinstance(judge, Judge):
            judge = asdict(judge)
        elif isinstance(judge, RecordedJudge):
            judge = type(judge).__name__
        asked = signature_of(self._source) if self.asks_retriever else "results"  # type: ignore[arg-type]
        return {
            "dataset": hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest(),
            "retriever": asked,
            "k": self._k,
            "judge": judge,
        }

    def retrieve(self) -> None:
        """Ask the retriever, or take the results that were given."""
        if isinstance(self._source, Mapping):
            results = _given(self._source, self._k)
            self.warnings += join_warnings(self._dataset, results)
            self._retrieval = Retrieval(self._k or 0, results=dict(results))
        else:
            log = self._log
            self._retrieval = retrieve_all(
                self._source,
                self._dataset.queries,
                self._k or 1,
                concurrency=self._concurrency,
                known=None if log is None else log.retrieved,
                kept=None if log is None else log.keep_retrieved,
                progress=stage("retrieving", self._progress),
                asker=self._asker,
            )
            if self._asker.stopped:
                return
            self.warnings += self._retrieval.warnings(self.metrics)
        groups = self._dataset.to_groups(self._retrieval.results, by_spans=self._by_spans)
        self.groups = [g for g in groups if g.query_id not in self._retrieval.failures]

    @property
    def asking(self) -> Asking | None:
        """How the next call asks models: with what is left of the limit on money."""
        usage = self._usage
        return Purse(self._asking, 0.0 if usage is None else usage.cost or 0.0).rest()

    def pieces(self) -> Iterator[Piece]:
        """Yield what has to be judged, in the order of the data set; `take` each one's verdicts."""
        self._recorded = RecordedEvaluation(self.groups, self.metrics, self.options)
        self._to_judge = self._recorded.to_judge
        known = {} if self._log is None else self._log.verdicts
        if self._log is not None:
            self._usage = self._log.usage
        left: list[int] = []
        for place, group in enumerate(self._to_judge):
            kept = known.get(group_key(group)) if known else None
            if kept is not None:
                self._parts[place] = kept
            elif group.n_expected and group.n_retrieved:
                left.append(place)
        told = stage("judging", self._progress)
        sizes = {
            place: (group := self._to_judge[place]).n_expected * group.n_retrieved for place in left
        }
        done, total = 0, sum(sizes.values())
        judge = self.judge if isinstance(self.judge, Judge | str) else None
        most = 1 if self.local is not None else most_contexts(judge)
        for places in packed(((place, [sizes[place]]) for place in left), [most]):
            groups = [self._to_judge[place] for place in places]
            request_id = "" if self._log is None else self._log.request_id(groups, self.asking)
            yield Piece(places, groups, request_id)
            done += sum(sizes[place] for place in places)
            if told is not None:
                told(done, total)

    def take(self, piece: Piece, verdicts: Verdicts) -> None:
        """Take the verdicts of a piece, and keep those of groups that none is missing of.

        Raises FileError where they are of another judge than those that were taken or kept before.
        """
        if self._identity is not None:
            verdicts = replace(verdicts, judge=self._identity)
        parts = []
        for index, place in enumerate(piece.places):
            part = of_groups(verdicts, index, index + 1)
            self._parts[place] = replace(part, usage=None, groups=())
            parts.append((self._to_judge[place], self._parts[place]))
        if verdicts.usage is not None:
            self._usage = verdicts.usage if self._usage is None else self._usage + verdicts.usage
        if self._log is not None:
            whole = [(group, part) for group, part in parts if Status.ERROR not in part.status]
            self._log.keep_verdicts(whole, verdicts.judge, verdicts.usage)

    def recorded(self) -> RecordedEvaluation:
        """Return the evaluation by the verdicts that were taken."""
        if self._recorded is None:
            raise RuntimeError("nothing was judged yet")
        if self._parts:
            judge = next(iter(self._parts.values())).judge
            none = Verdicts([], [], [], [], [], [0, 0], {}, judge)
            parts = [self._parts.get(place, none) for place in range(len(self._to_judge))]
            joined = join_verdicts(parts, [False] * len(parts), self._to_judge)
            self._recorded.take_verdicts(replace(joined, usage=self._usage))
        return self._recorded

    def result(self, evaluation: Evaluation) -> EvaluationResult:
        """Return the result, given the evaluation of the groups."""
        found, usage = self._retrieval, evaluation.usage
        if usage is not None:  # two runs over the same data have the same result
            usage = replace(usage, latency_s=0.0)
        places = {group.query_id: place for place, group in enumerate(self.groups)}
        queries = []
        for query in self._dataset.queries:
            name = query.query_id
            place = places.get(name)
            group = None if place is None else self.groups[place]
            of = (query, group, place or 0, found.results.get(name, ()), evaluation.verdicts)
            queries.append(QueryResult.of(*of, found.failures.get(name)))
        return EvaluationResult(
            table=evaluation.table,
            queries=queries,
            judge=evaluation.judge,
            negatives=evaluation.negatives,
            usage=usage,
            warnings=[*self.warnings, *evaluation_warnings(evaluation, self.groups)],
            name=self._name,
            k=self._k,
        )

    def close(self) -> None:
        """Ask the retriever no more, and close the file to go on from."""
        self._asker.stop()
        if self._log is not None:
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
        pairs = zip(self._given, self._ranks, strict=True)
        self._distinct = [at_ranks(group, ranks) for group, ranks in pairs]
        self.options = replace(options, strict_duplicates=False)  # none is left
        """The options to measure with."""
        self._verdicts: Verdicts | None = None
        self._on_negatives: Verdicts | None = None

    @property
    def to_judge(self) -> list[QueryGroup]:
        """The groups that verdicts are needed of; those of negatives are behind the others."""
        own = [replace(group, negatives=()) for group in self._distinct]
        return [*own, *against_negatives(self._distinct)]

    def take_verdicts(self, verdicts: Verdicts | None) -> None:
        """Take the verdicts of `to_judge`; None when there was nothing to judge."""
        n = len(self._distinct)
        self._verdicts = verdicts
        if verdicts is not None and len(verdicts.offsets) > n + 1:
            self._verdicts = of_groups(verdicts, 0, n)
            self._on_negatives = of_groups(verdicts, n, len(verdicts.offsets) - 1)

    @property
    def metadata(self) -> Mapping[str, Mapping[str, str]]:
        """What is known of the queries, where slices are asked for."""
        if not self.options.slice_by:
            return {}
        return {group.query_id: group.metadata for group in self._given if group.metadata}

    @property
    def rankings(self) -> JudgedRankings:
        """The groups as ComputeMetrics takes them: those with relevant ids matched by id."""
        verdicts = self._verdicts
        # Their rubrics need not show what was expected; all other judges compare with it.
        asks = verdicts is not None and verdicts.judge.kind in ASKING_KINDS
        rankings = [self._ranking(group, asks=asks) for group in self._distinct]
        if verdicts is None:
            return JudgedRankings(rankings, [])
        grades = {"score": verdicts.score, "max_grade": verdicts.judge.max_grade}
        return JudgedRankings(
            *(rankings, verdicts.relevant, verdicts.status),
            source=verdicts.source,
            **(grades if verdicts.judge.max_grade else {}),  # type: ignore[arg-type]
        )

    def _ranking(self, group: QueryGroup, *, asks: bool) -> JudgedRanking:
        n = group.n_retrieved
        if not group.by_id:
            ended = asks and group.open_ended
            return JudgedRanking(group.query_id, group.n_expected, n, open_ended=ended)
        found = group.document_ids or [f"retrieved_{rank}" for rank in range(n)]
        return JudgedRanking(group.query_id, 0, n, found, group.relevant_document_ids, group.grades)

    def evaluation(self, table: MetricTable) -> Evaluation:
        """Return the evaluation, given what ComputeMetrics made of the rankings."""
        n_given = sum(group.n_retrieved for group in self._given)
        dropped = n_given - sum(group.n_retrieved for group in self._distinct)
        counts = replace(
            table.counts,
            duplicates=table.counts.duplicates + dropped,
            verdicts=VerdictCounts.of(self._verdicts),
        )
        verdicts = self._verdicts
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
            places = [place for place in range(start, end) if verdicts.relevant[place]]
            hit += bool(places)
            for place in places:
                rank, negative = divmod(place - start, len(group.negatives))
                name = group.document_ids[rank] if group.document_ids else f"retrieved_{rank}"
                score = verdicts.score[place]
                found = NegativeMatch(group.query_id, ranks[rank], negative, name, score)
                matches.append(found)
        return NegativeReport(queries, hit, matches, VerdictCounts.of(verdicts))


def of_groups(verdicts: Verdicts, begin: int, end: int) -> Verdicts:
    """Return the verdicts of the groups from `begin` up to, not including, `end`."""
    first, last = verdicts.offsets[begin], verdicts.offsets[end]
    offsets = [offset - first for offset in verdicts.offsets[begin : end + 1]]
    return pick_verdicts(verdicts, range(first, last), offsets, verdicts.groups[begin:end])
