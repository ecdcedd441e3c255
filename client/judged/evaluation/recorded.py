"""Evaluations by recorded verdicts, and the file that one keeps what was found and judged in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Protocol, runtime_checkable

from judged._batching.judging import (
    ASKING_KINDS,
    against_negatives,
    at_ranks,
    distinct_group,
    distinct_ranks,
    fold,
)
from judged._files import FileError, Record
from judged._transport.call import derived_id
from judged._views import plain
from judged.client import Client
from judged.evaluation.asking import Outcome, sha256_of
from judged.evaluation.datasets.results import Retrieved
from judged.evaluation.labels import refuse_families
from judged.evaluation.result import names_of
from judged.evaluation.retriever import RetrievedLog
from judged.values import (
    Asking,
    Evaluation,
    JudgedRanking,
    JudgedRankings,
    JudgeIdentity,
    MetricOptions,
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
        else:
            self._take(record.read(_Call))

    def request_id(self, groups: Sequence[QueryGroup], asking: Asking | None) -> str:
        """Return the request_id of the next call, about some groups.

        It is the same after an interruption, until the call is answered: what is asked again after
        a failure is another call.
        """
        return derived_id(self.run, self._calls, list(map(group_key, groups)), repr(asking))

    def keep_verdicts(self, found: Verdicts) -> None:
        """Keep what a call judged, and what it took: in one line, which is there or not.

        Of groups that a verdict failed of nothing is written.
        """
        ends = zip(found.groups, pairwise(found.offsets), strict=True)
        said = [_Said(group_key(group), found[start:end]) for group, (start, end) in ends]
        self._take(_Call(found.judge, said, found.usage))
        kept = [s for s in said if all(v.status is not Status.ERROR for v in s.verdicts)]
        self.write(plain(_Call(found.judge, kept, found.usage)))

    def verdicts(self, groups: Sequence[QueryGroup], _: Sequence[RubricInfo]) -> Verdicts | None:
        """Return the verdicts of groups that were judged; None when there was nothing to judge."""
        if self.judge is None:
            return None
        said = [self.said.get(group_key(group), ()) for group in groups]
        offsets = list(accumulate(map(len, said), initial=0))
        return Verdicts.of([v for of in said for v in of], offsets, self.judge, self.usage, groups)

    def _take(self, call: _Call) -> None:
        """Take what a call said. Raises FileError where another judge said the others.

        One without a fingerprint is not known to be another.
        """
        judge = call.judge
        # A call all of whose verdicts failed left none that another judge's could be mixed with.
        if judge is not None and call.groups:
            if self.judge is None or not self.judge.fingerprint:
                self.judge = judge
            if judge.fingerprint and judge != self.judge:
                # Signatures don't print all that a judge is.
                one, other = (
                    f"{each.signature} (fingerprint {each.fingerprint[:8]})"
                    for each in (self.judge, judge)
                )
                problem = f"has verdicts of the judge {one}, and others are of {other}; go back to "
                rest = "the first, name another file, or remove this one to begin anew"
                raise FileError(self.name, None, problem + rest)
        self._calls += 1
        self.said |= {said.group: said.verdicts for said in call.groups}
        if call.usage is not None:
            self.usage = call.usage if self.usage is None else self.usage + call.usage


def group_key(group: QueryGroup) -> str:
    """Return the SHA-256 of all that the verdicts of a group rest on, its judge aside."""
    return sha256_of(
        [group.query, plain(group.expected), plain(group.retrieved), plain(group.spans)]
    )


def to_judge(groups: Iterable[QueryGroup], *, own: bool = True) -> list[QueryGroup]:
    """Return what the judge of an evaluation is asked about; negatives are behind all groups.

    Without `own` they alone are, as where all metrics bring judges of their own.
    """
    distinct = [distinct_group(group) for group in fold(groups)]
    asked = [replace(group, negatives=()) for group in distinct if own]
    return [*asked, *against_negatives(distinct)]


def evaluate_recorded(
    client: Client,
    groups: Iterable[QueryGroup],
    metrics: Sequence[str],
    options: MetricOptions,
    judge: RecordedJudge,
    timeout: float,
) -> Evaluation:
    """Return the evaluation of groups by recorded verdicts; ComputeMetrics measures them.

    Raises InvalidArgument for what a record can't stand for: metrics that bring a judge of their
    own, and repeated results where those are refused.
    """
    refuse_families(metrics)
    given = fold(groups)
    ranks = [
        distinct_ranks(group, f"groups[{i}]", strict=options.strict_duplicates)
        for i, group in enumerate(given)
    ]
    distinct = list(map(at_ranks, given, ranks))
    found = judge.verdicts(to_judge(distinct), client.server_info(timeout=timeout).rubrics)
    verdicts = None if found is None else _of_groups(found, 0, len(given))
    negatives = None
    if found is not None and len(found.offsets) > len(given) + 1:
        negatives = _negatives(
            distinct, ranks, _of_groups(found, len(given), len(found.offsets) - 1)
        )
    table = client.compute_metrics(
        metrics,
        _rankings(distinct, verdicts),
        replace(options, strict_duplicates=False),  # none is left
        metadata={g.query_id: g.metadata for g in given if g.metadata and options.slice_by},
        timeout=timeout,
    )
    dropped = sum(g.n_retrieved for g in given) - sum(map(len, ranks))
    counts = replace(
        table.counts,
        duplicates=table.counts.duplicates + dropped,
        verdicts=VerdictCounts.of(verdicts),
    )
    return Evaluation(
        table=replace(table, counts=counts),
        judge=None if verdicts is None else verdicts.judge,
        verdicts=verdicts,
        negatives=negatives,
        usage=None if verdicts is None else verdicts.usage,
    )


def _rankings(groups: Sequence[QueryGroup], verdicts: Verdicts | None) -> JudgedRankings:
    """Return groups as ComputeMetrics takes them: those with relevant ids matched by id."""
    # The rubrics of these need not show what was expected; all other judges compare with it.
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
        for group in groups
    ]
    if verdicts is None:
        return JudgedRankings(rankings, [])
    top = verdicts.judge.max_grade
    return JudgedRankings(
        rankings,
        verdicts.relevant,
        verdicts.status,
        source=verdicts.source,
        score=verdicts.score if top else (),
        max_grade=top,
    )


def _negatives(
    groups: Sequence[QueryGroup], ranks: Sequence[Sequence[int]], verdicts: Verdicts
) -> NegativeReport:
    """Return which results match negatives; `ranks` are those of the groups' distinct results."""
    asked = [each for each in zip(groups, ranks, strict=True) if each[0].negatives]
    matches = [
        NegativeMatch(
            group.query_id,
            of[rank],
            negative,
            names_of(group)[rank],
            verdicts.score[place],
        )
        for (group, of), (start, end) in zip(asked, pairwise(verdicts.offsets), strict=True)
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
