"""Traces: files of items with their judgements, from which metrics are computed without a judge.

    from judged.traces import Replay, Trace, record_verdicts

    trace = Trace()
    record_verdicts(trace, groups, client.judge(groups, "llm", include_details=True))
    trace.write("trace.jsonl")
    replay = Replay(Trace.read("trace.jsonl"))
    found = Evaluator(client).evaluate_groups(groups, ["ndcg@10"], replay)

Needs only the base install.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, TypeVar

from judged._batching.scoring import summarise
from judged._files import FileError, Record, json_line, read_records, replacing_text, writing
from judged._views import of_all, plain, word
from judged.errors import InvalidArgument
from judged.values import (
    AnswerItem,
    AnswerScore,
    DimensionScore,
    Flag,
    JudgeIdentity,
    QueryGroup,
    Rubric,
    RubricInfo,
    ScoredAnswers,
    Source,
    Status,
    Usage,
    Verdict,
    VerdictDetail,
    VerdictError,
    Verdicts,
    VerifiedClaim,
)

__all__ = [
    "Judgement",
    "Missing",
    "OtherRubric",
    "Replay",
    "ReplayError",
    "ScoreReplay",
    "Trace",
    "TraceFile",
    "record_scores",
    "record_verdicts",
]

Value = TypeVar("Value")

_SLACK = 1e-9
"""How far a passing score may be below the threshold, as on the server."""
_RUBRIC = re.compile(r"\|rubric:([^|@]+)@([^|]+)(?:\|sha:([0-9a-f]+))?")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_OF_VERDICTS = ("passed", "score", "agreement", "probability", "stage")
"""Fields that a judgement has only if its status is OK."""
_OF_OK = ("passed", "score")
"""Fields that it must have then."""
_OPTIONAL = ("probability", "stage", "max_grade", "votes", "breakdown")
"""Fields that are written only if they have a value."""


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The parts of a score; those that its rubric lacks are empty."""

    dimensions: Sequence[DimensionScore] = ()
    reported_overall: float | None = None
    claims: Sequence[VerifiedClaim] = ()
    warnings: Sequence[str] = ()

    @classmethod
    def of(cls, score: AnswerScore) -> Breakdown | None:
        """Return the parts of a score, None if it has none."""
        parts = alike(cls, score)
        lists = parts.dimensions, parts.claims, parts.warnings
        return parts if any(lists) or parts.reported_overall is not None else None


@dataclass(frozen=True, slots=True)
class Judgement:
    """A judge's result for an item. `passed` and `score` are None unless the status is OK.

    `samples` is the number of votes requested, 0 for judges that don't vote; `votes`, if known, are
    the single votes in order, None for one that failed or abstained. Judges that don't vote have no
    `agreement` either, judges without a calibration no `probability`, and only cascades have a
    `stage`.
    """

    judge: JudgeIdentity
    status: Status
    passed: bool | None = None
    score: float | None = None
    source: Source = Source.COMPUTED
    flags: Flag = Flag.NONE
    samples: int = 0
    agreement: float | None = None
    rationale: str = ""
    model: str = ""
    error: VerdictError | None = None
    breakdown: Breakdown | None = None
    probability: float | None = None
    stage: int | None = None
    votes: Sequence[bool | None] = ()

    @property
    def name(self) -> str:
        """The name of the judgement within its item, see `judgement_name`."""
        return judgement_name(self.judge)


def alike(kind: type[Value], value: object, /, **others: object) -> Value:
    """Return a `kind` with the fields that `value` has too, and `others`, which take precedence."""
    names = [part.name for part in fields(kind) if hasattr(value, part.name)]  # type: ignore[arg-type]  # a dataclass
    return kind(**{name: getattr(value, name) for name in names} | others)


def judgement_name(judge: JudgeIdentity) -> str:
    """Return the kind of a judge with its rubric, else its profile: "llm/retrieval_match"."""
    rubric = rubric_of(judge)
    part = judge.profile if rubric is None else rubric[0]
    return f"{judge.kind}/{part}" if part else judge.kind


def rubric_of(judge: JudgeIdentity) -> tuple[str, str, str] | None:
    """Return rubric, version and hash prefix from the signature, None if it names no rubric."""
    found = _RUBRIC.search(judge.signature)
    return None if found is None else (found[1], found[2], found[3] or "")


def write_judgement(judgement: Judgement) -> dict[str, Any]:
    """Return the JSON object of a judgement."""
    made = plain(judgement) | {"score": judgement.score}  # NaN stays: not written as null
    judge = made.pop("judge")
    judge["max_grade"] = judge["max_grade"] or None
    whole = {"judge": judge.pop("kind")} | judge | made
    return {
        name: value
        for name, value in whole.items()
        if name not in _OPTIONAL or value not in (None, [])
    }


def _names(kind: Any) -> set[str]:  # noqa: ANN401 - a dataclass
    return {part.name for part in fields(kind)}


_KNOWN = {
    # The first three are from earlier versions: not used now, or part of the signature.
    "": {"rubric", "rubric_version", "majority"} | _names(Judgement) | _names(JudgeIdentity),
    "error": _names(VerdictError),
    "breakdown": _names(Breakdown),
    "dimensions": _names(DimensionScore),
    "claims": _names(VerifiedClaim),
}
"""The known fields of a judgement, and of the objects in it by name."""


def read_judgement(record: Record, name: str) -> Judgement:
    """Return the judgement stored under a name. Raises FileError with line and key."""
    _check_parts(record, "")
    judge = record.read(JudgeIdentity, kind=record.text("judge"))
    judgement = record.read(Judgement, judge=judge)
    # These have defaults in memory only: without `samples` a vote would be read as no vote.
    for key in ("source", "samples", *(_OF_OK if judgement.status is Status.OK else ())):
        if record.get(key) is None:
            raise record.missing((key,))
    for problem in _contradictions(judgement, name):
        raise record.error(problem)
    return judgement


def _check_parts(record: Record, name: str) -> None:
    """Raise FileError for unknown fields, and for shares that are not from 0 to 1."""
    record.refuse_unknown(_KNOWN[name])
    for key in ("min_score", "score", "agreement", "probability", "weight"):
        record.share(key)
    for key in ("error", "breakdown"):
        if (inner := record.record(key)) is not None:
            _check_parts(inner, key)
    for key in ("dimensions", "claims"):
        for inner in record.records(key):
            _check_parts(inner, key)


def _contradictions(judgement: Judgement, name: str) -> Iterator[str]:
    """Yield contradictions within a judgement, or to the name that it is stored under."""
    judge, score, status = judgement.judge, judgement.score, judgement.status
    for key in ("scoring_key", "fingerprint"):
        if not _SHA256.fullmatch(getattr(judge, key)):
            yield f"has {key!r} that is not a SHA-256 in hex"
    if len(judgement.votes) not in {0, judgement.samples}:
        yield "has 'votes' of another number than 'samples'"
    for key in () if status is Status.OK else _OF_VERDICTS:
        if getattr(judgement, key) is not None:
            yield f"has {key!r}, but its status is {status.name}"
    if judgement.passed and (score or 0.0) + _SLACK < judge.min_score:
        yield f"has 'passed' true, but its score {score} is below its threshold {judge.min_score}"
    if judgement.name != name:
        yield f"has the signature of {judgement.name!r}"


FORMAT = "judged-trace"
VERSION = 1
NOT_CACHED = "NOT_CACHED"
_JUDGEMENTS = "judgements"
_NEXT = "correct it, or delete the line and judge its item again with --trace"
_ONE = ("query", "expected_text", "retrieved_text", "answer")
_MANY = ("references", "contexts", "other_answers", "sources_used")
"""Fields of items that are a text, and those that are lists of texts."""
_CONTEXT = ("query", "expected_text", "retrieved_text", "query_id")
_ANSWER = ("item_id", "query", "answer", *_MANY, "confidence")
_RARE = ("query_id", "other_answers", "sources_used", "confidence")
"""Fields written only if set: most items don't have them."""

Key = tuple[object, ...]
"""Identifies an item by its texts; an answer also by its id and confidence."""


@dataclass(slots=True)
class Item:
    """A context or an answer, as a line of the file has it, with its judgements by name."""

    fields: Mapping[str, Any]
    key: Key
    judgements: dict[str, Judgement] = field(default_factory=dict)

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Item:
        """Return an item with these fields; `query_id` is not part of the key."""
        kept = {n: v for n, v in fields.items() if n not in _RARE or v not in ("", [], (), None)}
        texts = [kept.get(name, "") for name in (*_ONE, *_MANY)]
        key = (tuple(each) if isinstance(each, list) else each for each in texts)
        return cls(kept, (kept.get("item_id"), kept.get("confidence"), *key))


@dataclass(slots=True)
class Trace:
    """Items by key, each with its judgements."""

    name: str = "the trace"
    items: dict[Key, Item] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path | str) -> Trace:
        """Return the trace in a file. Raises FileError, which names file, line and key."""
        trace = cls(str(path))
        line_of: dict[Key, int | None] = {}
        lines = read_records(path, "is empty; a trace begins with a header")
        header = next(lines)
        header.check_format(FORMAT, VERSION, "--trace of judged judge, evaluate and score")
        header.refuse_unknown({"format", "version", "created_by"})
        for line in lines:
            item = trace._read_item(line)
            again = "has the item of line {} again; delete one of the lines"
            line.refuse_again(line_of, item.key, again)
            trace.items[item.key] = item
        return trace

    def _read_item(self, line: Record) -> Item:
        try:
            item = Item.of(_read_fields(line))
            judgements = line.inner(line.get(_JUDGEMENTS), _JUDGEMENTS)
            for name, value in judgements.fields.items():
                record = line.inner(value, f"{_JUDGEMENTS}[{name!r}]")
                item.judgements[name] = read_judgement(record, name)
        except FileError as error:
            raise FileError(error.name, error.line, f"{error.problem}; {_NEXT}") from None
        return item

    def __len__(self) -> int:
        return len(self.items)

    def names(self) -> list[str]:
        """Return the names of all judgements, in the order of first use."""
        return list(dict.fromkeys(name for item in self.items.values() for name in item.judgements))

    def put(self, item: Item, judgement: Judgement) -> None:
        """Add a judgement, replacing an earlier one of the same name.

        A failure does not replace an earlier result of the same judge.
        """
        found = self.items.setdefault(item.key, item)
        earlier = found.judgements.get(judgement.name)
        if (
            earlier is None
            or judgement.status is not Status.ERROR
            or earlier.judge.scoring_key != judgement.judge.scoring_key
        ):
            found.judgements[judgement.name] = judgement

    def write(self, path: Path | str) -> None:
        """Write the trace to a file atomically. Raises FileError."""
        with writing(path), replacing_text(path) as file:
            file.writelines(self._lines())

    def _lines(self) -> Iterator[str]:
        yield json_line({"format": FORMAT, "version": VERSION})
        for item in self.items.values():
            judgements = {name: write_judgement(one) for name, one in item.judgements.items()}
            yield json_line({**item.fields, _JUDGEMENTS: judgements})


def _read_fields(record: Record) -> dict[str, Any]:
    """Return the fields of a line's item. Raises FileError."""
    known = _ANSWER if record.get("item_id") is not None else _CONTEXT
    record.refuse_unknown({_JUDGEMENTS, *known})
    found: dict[str, Any] = {}
    for name in known:
        if name in _ONE:
            found[name] = record.text(name)
        elif name in _MANY:
            found[name] = record.texts(name)
    if known is _CONTEXT:
        return {**found, "query_id": record.optional_identifier("query_id")}
    item_id, confidence = record.identifier("item_id"), record.optional_number("confidence")
    return {"item_id": item_id, **found, "confidence": confidence}


def contexts_of(groups: Sequence[QueryGroup]) -> Iterator[Item]:
    """Yield the contexts of groups in the order of their verdicts.

    Groups matched by document id have none. Raises InvalidArgument for groups with spans or
    embeddings, which a trace can't hold.
    """
    for index, group in enumerate(groups):
        if group.by_id:
            continue
        holds = "spans" if group.spans is not None else "embeddings"
        if group.spans is not None or group.embeddings is not None:
            raise InvalidArgument.of_field(
                f"groups[{index}].{holds}",
                "can't be kept in a trace, which holds judgements of texts; leave the trace out",
            )
        for retrieved in group.retrieved:
            for expected in group.expected:
                texts = (group.query, expected, retrieved, group.query_id)
                yield Item.of(dict(zip(_CONTEXT, texts, strict=True)))


def answer_of(item: AnswerItem) -> Item:
    """Return an answer as an item of a trace."""
    others = [item.other_answer] if item.other_answer else []  # a list only in files
    given = ((name, getattr(item, name, others)) for name in _ANSWER)
    return Item.of({n: list(v) if n in _MANY else v for n, v in given})


def record_verdicts(trace: Trace, groups: Sequence[QueryGroup], verdicts: Verdicts) -> None:
    """Add the verdicts of groups to a trace, with their details if they have any.

    Verdicts that were missing in the verdict cache, so that no judge was asked, are left out.
    """
    for context, verdict in zip(contexts_of(groups), verdicts, strict=True):
        if not _not_cached(verdict.error):
            trace.put(context, _of_verdict(verdict, verdicts))


def record_scores(trace: Trace, items: Sequence[AnswerItem], scores: Sequence[AnswerScore]) -> None:
    """Add the scores of items to a trace, except those that no judge gave."""
    known = {item.item_id: answer_of(item) for item in items}
    for score in scores:
        if score.judge is not None and not _not_cached(score.error):
            trace.put(known[score.item_id], _of_score(score))


def _not_cached(error: VerdictError | None) -> bool:
    return error is not None and error.reason == NOT_CACHED


def _of_verdict(verdict: Verdict, verdicts: Verdicts) -> Judgement:
    detail = verdict.detail
    asked = () if detail is None else detail.samples
    samples = len(asked) if verdicts.agreement else 0
    votes = [bool(each.relevant) if each.status is Status.OK else None for each in asked]
    return alike(
        Judgement,
        verdict,
        judge=verdicts.judge,
        passed=verdict.relevant,
        samples=samples,
        rationale="" if detail is None else detail.rationale,
        model="" if detail is None else detail.model,
        votes=tuple(votes) if samples > 1 else (),
    )


def _of_score(score: AnswerScore) -> Judgement:
    return alike(
        Judgement,
        score,
        source=score.source or Source.COMPUTED,
        rationale=score.reasoning,
        breakdown=Breakdown.of(score),
        probability=None,  # comes from a calibration, which is not part of the judge
    )


class TraceFile:
    """A trace file that judgements are added to, as with `--trace`.

    `trace` is the content of the file. Pass this to `evaluate_answers`, or add verdicts yourself.
    """

    def __init__(self, path: Path | str) -> None:
        """Read the file, if there is one. Raises FileError if it is not a trace."""
        self._path = Path(path)
        self.trace = Trace.read(path) if self._path.exists() else Trace(str(path))

    def keep_verdicts(self, groups: Sequence[QueryGroup], verdicts: Verdicts) -> None:
        """Add the verdicts of groups to the file; request details to keep rationales too.

        Raises FileError if it can't be written.
        """
        record_verdicts(self.trace, groups, verdicts)
        self.trace.write(self._path)

    def keep_scores(self, items: Sequence[AnswerItem], scores: Sequence[AnswerScore]) -> None:
        """Add the scores of items to the file. Raises FileError if it can't be written."""
        record_scores(self.trace, items, scores)
        self.trace.write(self._path)


KIND = "answers"


class ReplayError(Exception):
    """A trace can't replace a judge. The message says why."""


@dataclass(eq=False)
class Missing(ReplayError):
    """A trace lacks `missing` of `total` judgements of the name `name`.

    `judge` is the judge that made the others, None if there are no others. `first` is the first
    item without a judgement: the path of a text in groups, or an item of answers.
    """

    missing: int
    total: int
    name: str
    judge: JudgeIdentity | None
    first: str

    def __post_init__(self) -> None:
        super().__init__(
            f"{of_all(self.missing, self.total, 'judgement', 'judgements')} by {self.name} "
            f"{word(self.missing, 'is', 'are')} missing, first that of {self.first}; judge these "
            "items, add the results with record_verdicts or record_scores, and replay the trace "
            "again"
        )


class OtherRubric(ReplayError):
    """The judgements were made with another rubric than the server's. The message names both."""

    def __init__(self, rubrics: str) -> None:
        super().__init__(f"the judgements were made by {rubrics}")


def _traced(
    trace: Trace,
    items: Sequence[Item],
    name: str,
    rubrics: Sequence[RubricInfo],
    threshold: float | None,
    paths: Sequence[str],
) -> list[Judgement]:
    """Return the judgement of each item.

    `rubrics` are those of the server, `paths` the items' names in messages. Raises OtherRubric,
    Missing, and ReplayError for judgements of several judges or with another threshold.
    """
    kept = trace.items
    found = [kept[i.key].judgements.get(name) if i.key in kept else None for i in items]
    known = [one for one in found if one is not None]
    judges = list({one.judge.fingerprint: one.judge for one in known}.values())
    for judge in judges:
        _check_rubric(judge, rubrics)
    if len(judges) > 1:
        raise ReplayError(
            f"the judgements by {name} are those of several judges, {judges[0].signature} and "
            f"{judges[1].signature}"
        )
    if missing := len(found) - len(known):
        first = paths[found.index(None)]
        raise Missing(missing, len(found), name, judges[0] if judges else None, first)
    if threshold is not None and judges and threshold != judges[0].min_score:
        raise ReplayError(
            f"the judgements by {name} were made with the min_score {judges[0].min_score:g}; "
            "for another one judge again"
        )
    return known


@dataclass(slots=True)
class Replay:
    """Replaces a judge: returns the verdicts of a trace.

    `judgements` names those to use, "" if the trace has one kind only. `min_score`, if set, must be
    the threshold that they were made with. A failure is replayed as a failure.
    """

    trace: Trace
    judgements: str = ""
    min_score: float | None = None
    with_details: bool = False

    def verdicts(
        self, groups: Sequence[QueryGroup], rubrics: Sequence[RubricInfo]
    ) -> Verdicts | None:
        """Return the verdict of every context; None if there is nothing to judge.

        `rubrics` are those of the server. Raises OtherRubric if the trace has another version of
        one, Missing, and ReplayError if judgements don't fit together.
        """
        items = list(contexts_of(groups))
        if not items:
            return None
        paths = [
            f"groups[{number}].retrieved[{place}]"
            for number, group in enumerate(groups)
            for place in range(0 if group.by_id else group.n_retrieved)
            for _ in group.expected
        ]
        found = _traced(self.trace, items, self._name(), rubrics, self.min_score, paths)
        sizes = (0 if group.by_id else group.n_expected * group.n_retrieved for group in groups)
        offsets = list(accumulate(sizes, initial=0))
        judge = found[0].judge
        return Verdicts.of(list(map(self._verdict, found)), offsets, judge, groups=groups)

    def all_verdicts(self, groups: Sequence[QueryGroup], rubrics: Sequence[RubricInfo]) -> Verdicts:
        """Return `verdicts`. Raises ReplayError also if there is nothing to judge."""
        found = self.verdicts(groups, rubrics)
        if found is None:
            raise ReplayError("there is nothing to judge")
        return found

    def _name(self) -> str:
        """Return the name of the judgements to use. Raises ReplayError if it is ambiguous."""
        trace = self.trace
        if self.judgements:
            return self.judgements
        names = [name for name in trace.names() if not name.startswith(f"{KIND}/")]
        if not names:
            scores = ", only scores of answers" if trace.names() else ""
            raise ReplayError(f"{trace.name} has no judgements of contexts{scores}")
        if len(names) > 1:
            raise ReplayError(
                f"{trace.name} has judgements by {', '.join(names)}; name those to take, by "
                "judgements= or --trace-judge NAME"
            )
        return names[0]

    def _verdict(self, judgement: Judgement) -> Verdict:
        detail = None
        if self.with_details and (judgement.rationale or judgement.model):
            detail = VerdictDetail(judgement.rationale, (), Usage(), judgement.model, "")
        return alike(
            Verdict, judgement, relevant=judgement.passed, source=Source.REPLAY, detail=detail
        )


@dataclass(slots=True)
class ScoreReplay:
    """Returns the scores of a trace.

    Scores keep the parameters and weights that they were made with, so requested rubrics must not
    set any.
    """

    trace: Trace

    def scores(
        self, items: Sequence[AnswerItem], rubrics: Sequence[Rubric], known: Sequence[RubricInfo]
    ) -> ScoredAnswers:
        """Return the score of every item by every rubric, in this order.

        If a rubric sets a threshold, its scores must have been made with it. `known` are the
        rubrics of the server. Raises OtherRubric if the trace has another version of one, Missing,
        and ReplayError if judgements don't fit together.
        """
        answers = [answer_of(item) for item in items]
        ids = [f"item {item.item_id!r}" for item in items]
        columns, summaries = [], []
        for rubric in rubrics:
            _check_version(rubric, known)
            if rubric.parameters or rubric.weights:
                raise ReplayError(
                    f"parameters or weights were asked for {rubric.id}, but a trace has scores as "
                    "they were made; ask for none"
                )
            name = f"{KIND}/{rubric.id}"
            found = _traced(self.trace, answers, name, known, rubric.min_score, ids)
            rows = zip(items, found, strict=True)
            columns.append([_score(item.item_id, rubric.id, one) for item, one in rows])
            summaries.append(summarise(rubric.id, columns[-1]))
        return ScoredAnswers(list(chain(*zip(*columns, strict=True))), summaries, Usage())


def _score(item_id: str, rubric: str, judgement: Judgement) -> AnswerScore:
    parts = judgement.breakdown or Breakdown()
    return alike(
        AnswerScore,
        judgement,
        item_id=item_id,
        rubric=rubric,
        min_score=judgement.judge.min_score,
        reasoning=judgement.rationale,
        source=Source.REPLAY,
        **{part.name: getattr(parts, part.name) for part in fields(parts)},
    )


def _check_rubric(judge: JudgeIdentity, rubrics: Sequence[RubricInfo]) -> None:
    """Raise OtherRubric if the server does not have the judge's rubric."""
    used = rubric_of(judge)
    if used is None:
        return
    rubric, version, sha256 = used
    known = {info.rubric: info for info in rubrics}.get(rubric)
    if known is None:
        raise OtherRubric(f"rubric {rubric}@{version}, which this server lacks")
    if known.version != version or not known.sha256.startswith(sha256):
        has = f"{rubric}@{known.version} with the hash {known.sha256[:8]}"
        raise OtherRubric(
            f"rubric {rubric}@{version} with the hash {sha256}, and this server has {has}"
        )


def _check_version(rubric: Rubric, known: Sequence[RubricInfo]) -> None:
    """Raise OtherRubric if the requested version is not the server's."""
    _, pinned, version = rubric.rubric.partition("@")
    has = {info.rubric: info.version for info in known}.get(rubric.id, version)
    if pinned and version != has:
        raise OtherRubric(f"rubric {rubric.id}@{has}, not {rubric.rubric}, which was asked for")
