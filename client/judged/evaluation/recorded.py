"""Judges without a server: functions of the caller, whose texts stay here, and recorded verdicts.

An evaluation keeps what was found and judged in a file, from which it goes on.
"""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
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
)
from judged._files import FileError, Record
from judged._transport.call import derived_id
from judged._views import plain
from judged.client import Client
from judged.errors import InvalidArgument, WrongType
from judged.evaluation.asking import Outcome, ResumeFile, sha256_of
from judged.evaluation.datasets.query import Query, Retrieved
from judged.evaluation.labels import refuse_families
from judged.evaluation.result import names_of
from judged.values import (
    Asking,
    Context,
    Evaluation,
    Flag,
    Judge,
    JudgedRanking,
    JudgedRankings,
    JudgeIdentity,
    MetricOptions,
    NegativeMatch,
    NegativeReport,
    QueryGroup,
    RubricInfo,
    Source,
    Status,
    Usage,
    Verdict,
    VerdictCounts,
    VerdictError,
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


class EvaluationLog(ResumeFile[Query]):
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

    def append(self, outcome: Outcome[Query]) -> None:
        """Write down what was retrieved for a query."""
        self.write({"query_id": outcome.item.query_id, "results": plain(outcome.result)})

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


JudgeFunction = Callable[[Context], bool | float | None]
"""Says of a context whether it is relevant, or how much from 0 to 1; None abstains."""


class JudgeObject(Protocol):
    """An object that judges contexts, as Evret's judges do."""

    def judge(self, context: Any, /) -> bool | float | None:  # noqa: ANN401 - Evret's has a class of its own
        """Return what a JudgeFunction does."""
        ...


_INVALID_ARGUMENT, _INTERNAL = 3, 13


@dataclass(frozen=True)
class LocalJudge:
    """A function, or an object with a method `judge`, that judges contexts here.

    A score counts as relevant from `min_score` on. With `max_grade` the function returns grades
    from 0 to max_grade, which are the gains of metrics that weigh them; the score is the grade
    divided by max_grade.

    Its signature has the function's name and a hash of its source, and of what an object holds in
    plain values, so that numbers of a changed judge are not taken for those of the old one; set
    `version` where what it decides by lies elsewhere, in a model or a file. An exception is the
    error of its context alone.
    """

    function: JudgeFunction | JudgeObject
    name: str = ""
    version: str = ""
    min_score: float = 0.5
    max_grade: int = 0

    @cached_property
    def identity(self) -> JudgeIdentity:
        """What results name the judge by: as it is first asked, however its file is edited."""
        function, kind = self.function, type(self.function)
        module = getattr(function, "__module__", kind.__module__)
        name = self.name or f"{module}.{getattr(function, '__qualname__', kind.__qualname__)}"
        grades = [str(self.max_grade)] if self.max_grade else []
        made_of = "\n".join([name, self.version, _source_of(function), *grades])
        key = hashlib.sha256(made_of.encode()).hexdigest()
        version = [f"version:{self.version}"] if self.version else []
        parts = [*version, *(f"max_grade:{top}" for top in grades), f"min_score:{self.min_score:g}"]
        signature = "|".join(["local", name, f"sha:{key[:8]}", *parts])
        fingerprint = hashlib.sha256(f"{key}\n{self.min_score!r}".encode()).hexdigest()
        return JudgeIdentity(
            "local", name, self.min_score, signature, key, fingerprint, self.max_grade
        )

    def verdicts(self, groups: Sequence[QueryGroup], _: Sequence[RubricInfo] = ()) -> Verdicts:
        """Return a verdict for each context of groups, retrieved-major."""
        if any(group.spans is not None for group in groups):
            rule = (
                "a function judges texts, and the data set expects spans; name the judge span, "
                "or give its queries expected_answers"
            )
            raise InvalidArgument.of_field("judge", rule)
        verdicts = [
            self._ask(Context(group.query, expected, retrieved))
            for group in groups
            for retrieved in group.retrieved
            for expected in group.expected
        ]
        sizes = (len(group.expected) * len(group.retrieved) for group in groups)
        offsets = list(accumulate(sizes, initial=0))
        return Verdicts.of(verdicts, offsets, self.identity, groups=groups)

    def _ask(self, context: Context) -> Verdict:
        try:
            judges = self.function if callable(self.function) else self.function.judge
            said = judges(context)
        except Exception as error:  # noqa: BLE001 - it is that context's error
            return _missing(_INTERNAL, "JUDGE_FAILED", f"{type(error).__name__}: {error}")
        if said is None:
            return _missing(0, Status.ABSTAINED.name, "the judge returned None")
        top = self.max_grade or 1
        try:
            score = float(said) / top
        except (TypeError, ValueError, OverflowError):
            score = math.nan
        if 0 <= score <= 1:
            relevant = score + 1e-9 >= self.min_score
            return Verdict(Status.OK, relevant, score, Source.COMPUTED, Flag.NONE, None)
        rule = f"the judge returned {said!r}; return True, False, None or a score from 0 to {top}"
        if score > 1 and not self.max_grade:
            rule += "; for grades name the highest, LocalJudge(..., max_grade=3)"
        return _missing(_INVALID_ARGUMENT, "INVALID_SCORE", rule)


def _missing(code: int, reason: str, message: str) -> Verdict:
    status = Status.ERROR if code else Status.ABSTAINED
    error = VerdictError(code, reason, message, retryable=False)
    return Verdict(status, None, None, Source.COMPUTED, Flag.NONE, error)


AnyJudge = Judge | RecordedJudge | JudgeFunction | JudgeObject | str | None


def as_judge(judge: AnyJudge) -> Judge | RecordedJudge | str | None:
    """Return a judge with a function or an object as the LocalJudge that it is.

    Raises WrongType for what is no judge.
    """
    if judge is None or isinstance(judge, Judge | str | RecordedJudge):
        return judge
    if callable(judge) or callable(getattr(judge, "judge", None)):
        return LocalJudge(judge)
    rule = (
        "must be a judge's name, a Judge, a function of a Context or an object with a method judge"
    )
    raise WrongType.of_field("judge", f"{rule}, not {type(judge).__name__}")


def _source_of(function: JudgeFunction | JudgeObject) -> str:
    """Return the source of a function, or of an object's class and the plain values it holds.

    "" where there is no source.
    """
    for part in (function, type(function)):
        try:
            source = inspect.getsource(part)  # type: ignore[arg-type]  # it raises TypeError
        except (TypeError, OSError):
            continue
        held = {} if part is function else getattr(function, "__dict__", {})
        plain = {name: v for name, v in held.items() if isinstance(v, str | int | float | None)}
        return source + "".join(f"\n{name}={plain[name]!r}" for name in sorted(plain))
    return ""
