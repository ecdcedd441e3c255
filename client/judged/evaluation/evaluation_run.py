"""One evaluation from retrieving to its result; `aio` asks the server in between.

What a retriever finds, and what a judge decides of it, is kept in a file where one is named, so
that an evaluation that was interrupted goes on where it ended.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from judged._batching.chunks import against_negatives, distinct_group, most_contexts, packed
from judged._convert.groups import as_groups
from judged._convert.judges import Purse
from judged._inputs import as_metrics, kind_of, need_by_ids, need_kind, need_list, refuse_set
from judged.client import Client
from judged.errors import InvalidArgument, WrongType
from judged.evaluation.asking import Asker
from judged.evaluation.datasets.dataset import Dataset
from judged.evaluation.datasets.results import Results, Retrieved
from judged.evaluation.labels import own_metrics
from judged.evaluation.local_judge import LocalJudge, as_local
from judged.evaluation.progress import OnProgress, stage
from judged.evaluation.query_result import QueryResult
from judged.evaluation.recorded import RecordedEvaluation, RecordedJudge, of_groups
from judged.evaluation.result import EvaluationResult
from judged.evaluation.resuming import EvaluationLog, group_key
from judged.evaluation.retriever import (
    Retrieval,
    as_retrieved,
    checked_count,
    deepest_cutoff,
    retrieve_all,
)
from judged.evaluation.system import signature_of
from judged.evaluation.warnings import evaluation_warnings, join_warnings
from judged.values import (
    Asking,
    Evaluation,
    IntervalOptions,
    Judge,
    MetricOptions,
    QueryGroup,
    Status,
    Usage,
    Verdicts,
)
from judged.values.verdicts import join_verdicts


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
        if not isinstance(dataset, Dataset):
            rule = f"must be a Dataset, such as Dataset.load(path), not {kind_of(dataset)}"
            raise WrongType.of_field("dataset", rule)
        if not dataset.queries:
            raise InvalidArgument.of_field("dataset", "holds no queries")
        if concurrency is not None:
            checked_count(concurrency, "concurrency")
        if options is not None:
            need_kind(options, "options", MetricOptions, "MetricOptions")
        if progress is not None and not callable(progress):
            rule = f"must be a function, such as print, not {type(progress).__name__}"
            raise WrongType.of_field("progress", rule)
        self.metrics = as_metrics(metrics)
        given = options or MetricOptions(interval=IntervalOptions())
        self.options = replace(given, per_query=True)
        self._source, self._dataset, self._name = source, dataset, name
        self._concurrency, self._progress = concurrency, progress
        self._asking = asking
        self.judge = judge
        self.local: LocalJudge | None = None
        if not isinstance(judge, RecordedJudge | Judge | str) and judge is not None:
            self.local = as_local(judge)
            if self.local is None:
                rule = (
                    "must be a judge's name, a Judge, a function of a Context or an object with a "
                    "method judge"
                )
                raise WrongType.of_field("judge", f"{rule}, not {type(judge).__name__}")
            if _expects_spans(dataset):
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
    def server_judge(self) -> Judge | str | None:
        """The judge of the server; only where `asks_server`."""
        return cast("Judge | str | None", self.judge)

    @property
    def recorded_judge(self) -> RecordedJudge | Judge | str | None:
        """The judge of the server, or the recorded one; only where `asks_at_once`."""
        return cast("RecordedJudge | Judge | str | None", self.judge)

    @property
    def asks_server(self) -> bool:
        """Whether a judge of the server is to be asked."""
        return self.local is None and not isinstance(self.judge, RecordedJudge)

    @property
    def asks_retriever(self) -> bool:
        """Whether a retriever is to be asked, rather than results taken that are there."""
        return not isinstance(self._source, Mapping)

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
        if k is not None:
            return checked_count(k, "k")
        if isinstance(self._source, Mapping):
            return None
        if not self.metrics:
            rule = "must name at least one metric, for example ndcg@10"
            raise InvalidArgument.of_field("metrics", rule)
        deepest = deepest_cutoff(self.metrics)
        if deepest is None:
            uncut = next(name for name in self.metrics if deepest_cutoff([name]) is None)
            rule = (
                f"name how many documents to ask for, as in k=10 or {uncut}@10: a metric without "
                f"a cutoff, here {uncut}, sees all of them"
            )
            raise InvalidArgument.of_field("k", rule)
        return deepest

    def _about(self) -> dict[str, object]:
        """Return what a file to go on from must be about."""
        queries = [asdict(query) for query in self._dataset.queries]
        for query in queries:
            if not query["grades"]:
                del query["grades"]  # files of before there were any go on
        text = json.dumps(queries, ensure_ascii=False, sort_keys=True)
        judge: object = self.judge
        if self._identity is not None:
            judge = self._identity.signature
        elif isinstance(judge, Judge):
            judge = asdict(judge)
        elif isinstance(judge, RecordedJudge):
            judge = type(judge).__name__
        given = isinstance(self._source, Mapping)
        return {
            "dataset": hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest(),
            "retriever": "results" if given else signature_of(self._source),  # type: ignore[arg-type]
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
    def asks_at_once(self) -> bool:
        """Whether one call evaluates all groups: nothing is judged here or kept in a file."""
        recorded = isinstance(self.judge, RecordedJudge)
        return self.local is None and (self._log is None or recorded)

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
        sizes = {place: _contexts(self._to_judge[place]) for place in left}
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
    if isinstance(results, Results):
        whole = results
    else:
        by_query = need_by_ids(results, "results")
        whole = Results.of(
            {query_id: _ranking(ranked, query_id) for query_id, ranked in by_query.items()}
        )
    if k is None:
        return whole
    return replace(whole, by_query={query_id: ranked[:k] for query_id, ranked in whole.items()})


def _ranking(ranked: object, query_id: str) -> list[Retrieved]:
    field = f"results[{query_id!r}]"
    refuse_set(ranked, field)
    listed = need_list(ranked, field, "texts or Retrieved")
    return [as_retrieved(value, f"{field}[{rank}]") for rank, value in enumerate(listed)]


def _expects_spans(dataset: Dataset) -> bool:
    """Say whether spans are what is to be judged, as `Dataset.to_groups` decides."""
    return not any(query.expected_answers for query in dataset.queries) and any(
        query.expected_spans and not query.by_id for query in dataset.queries
    )


def _contexts(group: QueryGroup) -> int:
    return group.n_expected * group.n_retrieved


def to_judge(
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


def need_client(client: object, kind: type) -> None:
    """Raise WrongType for what is no client of a kind."""
    rule = "an AsyncClient; judged.evaluation has the same functions for a Client"
    if kind is Client:
        rule = "a Client; judged.evaluation.aio has the same functions for an AsyncClient"
    need_kind(client, "client", kind, rule)
