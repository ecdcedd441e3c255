"""Judges without a server: local functions, recorded verdicts, and the log of an evaluation.

The log is a file of results and verdicts, from which an interrupted evaluation continues.
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
    """Returns recorded verdicts of groups."""

    def verdicts(
        self, groups: Sequence[QueryGroup], rubrics: Sequence[RubricInfo]
    ) -> Verdicts | None:
        """Return a verdict for each context; None when there is nothing to judge.

        `rubrics` are those of the server; a recorded rubric must be one of them.
        """
        ...


@dataclass(frozen=True, slots=True)
class _GroupVerdicts:
    """The verdicts of a group, with the `group_key` of the group."""

    group: str
    verdicts: Sequence[Verdict]


@dataclass(frozen=True, slots=True)
class _Call:
    """The verdicts of one call, and its usage."""

    judge: JudgeIdentity | None
    groups: Sequence[_GroupVerdicts] = ()
    usage: Usage | None = None


class EvaluationLog(ResumeFile[Query]):
    """The resume file of an evaluation: results and verdicts of earlier runs and of this one.

    A line has the results of a query, or the verdicts and usage of one call; its groups are stored
    by a hash of everything that their verdicts depend on. All verdicts of a file must be of one
    judge, because a result names only one, and what was asked for, such as the server's default,
    may be another judge the next time. Raises FileError for a file with verdicts of several.
    As a RecordedJudge, the log returns the verdicts that it has.
    """

    def __init__(self, path: Path | str | None, about: Mapping[str, object]) -> None:
        self.known_verdicts: dict[str, Sequence[Verdict]] = {}
        self.usage: Usage | None = None
        self.judge: JudgeIdentity | None = None
        self._calls = 0
        super().__init__(path, about)

    def take(self, record: Record) -> None:
        """Read a line of an earlier run."""
        if record.get("query_id") is not None:
            found = [result.read(Retrieved) for result in record.records("results")]
            self.known[record.text("query_id")] = Outcome(None, found)
        else:
            self._take(record.read(_Call))

    def append(self, outcome: Outcome[Query]) -> None:
        """Write the results of a query."""
        self.write({"query_id": outcome.item.query_id, "results": plain(outcome.result)})

    def request_id(self, groups: Sequence[QueryGroup], asking: Asking | None) -> str:
        """Return the request_id of the next call, for these groups.

        It stays the same after an interruption, until the call is answered. Asking again after a
        failed verdict is another call.
        """
        return derived_id(self.run, self._calls, list(map(group_key, groups)), repr(asking))

    def keep_verdicts(self, found: Verdicts) -> None:
        """Keep the verdicts and usage of a call, in one line that is written whole or not at all.

        Groups with a failed verdict are not written.
        """
        ends = zip(found.groups, pairwise(found.offsets), strict=True)
        groups = [_GroupVerdicts(group_key(group), found[a:b]) for group, (a, b) in ends]
        self._take(_Call(found.judge, groups, found.usage))
        kept = [g for g in groups if all(v.status is not Status.ERROR for v in g.verdicts)]
        self.write(plain(_Call(found.judge, kept, found.usage)))

    def verdicts(self, groups: Sequence[QueryGroup], _: Sequence[RubricInfo]) -> Verdicts | None:
        """Return the verdicts of groups in the log; None if nothing was judged."""
        if self.judge is None:
            return None
        found = [self.known_verdicts.get(group_key(group), ()) for group in groups]
        offsets = list(accumulate(map(len, found), initial=0))
        return Verdicts.of([v for of in found for v in of], offsets, self.judge, self.usage, groups)

    def _take(self, call: _Call) -> None:
        """Add the verdicts of a call. Raises FileError if the others are of another judge.

        A judge without a fingerprint is not taken for another one.
        """
        judge = call.judge
        # A call without verdicts has none that could mix with those of another judge.
        if judge is not None and call.groups:
            if self.judge is None or not self.judge.fingerprint:
                self.judge = judge
            if judge.fingerprint and judge != self.judge:
                # Two judges may have the same signature, so print fingerprints too.
                one, other = (
                    f"{each.signature} (fingerprint {each.fingerprint[:8]})"
                    for each in (self.judge, judge)
                )
                problem = f"has verdicts of the judge {one}, and others are of {other}; go back to "
                rest = "the first, name another file, or remove this one to start again"
                raise FileError(self.name, None, problem + rest)
        self._calls += 1
        self.known_verdicts |= {each.group: each.verdicts for each in call.groups}
        if call.usage is not None:
            self.usage = call.usage if self.usage is None else self.usage + call.usage


def group_key(group: QueryGroup) -> str:
    """Return the SHA-256 of everything but the judge that the verdicts of a group depend on."""
    return sha256_of(
        [group.query, plain(group.expected), plain(group.retrieved), plain(group.spans)]
    )


def to_judge(groups: Iterable[QueryGroup], *, own: bool = True) -> list[QueryGroup]:
    """Return the groups that the judge of an evaluation is asked about; those of negatives last.

    Without `own`, only those of negatives, as when all metrics have judges of their own.
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
    """Return the evaluation of groups by recorded verdicts, with metrics from ComputeMetrics.

    Raises InvalidArgument for metrics with a judge of their own, and for repeated results if
    `strict_duplicates` refuses them.
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
        replace(options, strict_duplicates=False),  # repeated results were removed above
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
    """Return groups as ComputeMetrics takes them; groups with relevant ids are matched by id."""
    # Only rubrics of language models may do without an expected text.
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
    """Return the results that match negatives; `ranks` are those of distinct results by group."""
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
    """Return the verdicts of the groups from `begin` up to but excluding `end`."""
    offsets = verdicts.offsets[begin : end + 1]
    each = verdicts[offsets[0] : offsets[-1]]
    moved = [offset - offsets[0] for offset in offsets]
    groups = verdicts.groups[begin:end]
    return Verdicts.of(each, moved, verdicts.judge, verdicts.usage, groups)


JudgeFunction = Callable[[Context], bool | float | None]
"""Returns whether a context is relevant, or a score from 0 to 1; None abstains."""


class JudgeObject(Protocol):
    """An object that judges contexts, as Evret's judges do."""

    def judge(self, context: Any, /) -> bool | float | None:  # noqa: ANN401 - Evret's has a class of its own
        """Return a verdict as a JudgeFunction does."""
        ...


_INVALID_ARGUMENT, _INTERNAL = 3, 13


@dataclass(frozen=True)
class LocalJudge:
    """A function, or an object with a method `judge`, that judges contexts in this process.

    A score of `min_score` or more counts as relevant. With `max_grade`, the function returns grades
    from 0 to max_grade, which are the gains of metrics that weigh them; the score is the grade
    divided by max_grade.

    The signature has the function's name and a hash of its source and of an object's plain
    attributes, so that a changed judge has another signature. Set `version` if its decisions depend
    on anything else, such as a model or a file. An exception is the error of its context only.
    """

    function: JudgeFunction | JudgeObject
    name: str = ""
    version: str = ""
    min_score: float = 0.5
    max_grade: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.min_score <= 1:
            rule = f"must be from 0 to 1, not {self.min_score}; for grades, divide by max_grade"
            raise InvalidArgument.of_field("min_score", rule)

    @cached_property
    def identity(self) -> JudgeIdentity:
        """The judge's identity in results; computed once, so that later edits don't change it."""
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
            answer = judges(context)
        except Exception as error:  # noqa: BLE001 - recorded as the context's error
            return _missing(_INTERNAL, "JUDGE_FAILED", f"{type(error).__name__}: {error}")
        if answer is None:
            return _missing(0, Status.ABSTAINED.name, "the judge returned None")
        top = self.max_grade or 1
        try:
            score = float(answer) / top
        except (TypeError, ValueError, OverflowError):
            score = math.nan
        if 0 <= score <= 1:
            relevant = score + 1e-9 >= self.min_score
            return Verdict(Status.OK, relevant, score, Source.COMPUTED, Flag.NONE, None)
        rule = f"the judge returned {answer!r}; return True, False, None or a score from 0 to {top}"
        if score > 1 and not self.max_grade:
            rule += "; for grades name the highest, LocalJudge(..., max_grade=3)"
        return _missing(_INVALID_ARGUMENT, "INVALID_SCORE", rule)


def _missing(code: int, reason: str, message: str) -> Verdict:
    status = Status.ERROR if code else Status.ABSTAINED
    error = VerdictError(code, reason, message, retryable=False)
    return Verdict(status, None, None, Source.COMPUTED, Flag.NONE, error)


AnyJudge = Judge | RecordedJudge | JudgeFunction | JudgeObject | str | None


def as_judge(judge: AnyJudge) -> Judge | RecordedJudge | str | None:
    """Return a judge, with functions and objects wrapped in a LocalJudge.

    Raises WrongType for any other value.
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
    """Return the source of a function, or of an object's class with its plain attributes.

    "" if there is no source.
    """
    for part in (function, type(function)):
        try:
            source = inspect.getsource(part)  # type: ignore[arg-type]  # it raises TypeError
        except (TypeError, OSError):
            continue
        own = {} if part is function else getattr(function, "__dict__", {})
        plain = {name: v for name, v in own.items() if isinstance(v, str | int | float | None)}
        return source + "".join(f"\n{name}={plain[name]!r}" for name in sorted(plain))
    return ""
