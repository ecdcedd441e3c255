"""The options of commands that ask judges, the judge that they make, and traces in its place.

Whether a value is allowed is the server's to say. Of a member or stage, the names weight and
min_score are its own; every other is a parameter of its judge. Without a judge verdicts come from a
trace, then from the server's verdict cache, and from nothing else; the order of the two is in
`judged.traces.replay`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from judged import (
    AnswerItem,
    Asking,
    CacheMode,
    Calibrator,
    InvalidArgument,
    Judge,
    PanelMember,
    QueryGroup,
    Rubric,
    ScoredAnswers,
    Verdicts,
)
from judged._batching.chunks import ASKING_KINDS
from judged._views import of_all, plural, word
from judged.cli.frame import Command, flag, flag_of, many, opt
from judged.cli.inputs import Name
from judged.cli.output import NOT_FOUND, Exit, Output, Places, Problem, say
from judged.cli.server import Connection, JudgingCommand
from judged.evaluation.circular_judging import circular_remarks, judging_models
from judged.traces import (
    Missing,
    OtherRubric,
    Replay,
    ReplayError,
    ScoreReplay,
    Trace,
    TraceFile,
)
from judged.traces.trace import NOT_CACHED
from judged.values import Scalar, ServerInfo, load_cascade

LLM, PANEL, CASCADE, NONE = "llm", "panel", "cascade", "none"
REPLAYED = "--judge none"
_MODEL = "judge_model judge_samples judge_temperature judge_max_tokens"
_KEYLESS = re.compile(r"language model .* can't be asked: .*")
"""What the server adds when the model's key is missing: what to do about that."""


class TextsKept(StrEnum):
    """What of the texts a trace keeps."""

    FULL = "full"
    HASH = "hash"


@dataclass(kw_only=True)
class MaxCost(Command):
    """A command that language models cost something."""

    max_cost: float | None = opt(
        "X",
        "Most that language models may cost, in the currency of the server; what could exceed it "
        "is not asked.",
    )


@dataclass(kw_only=True)
class Spending(MaxCost):
    """A command that may ask models anew, or tell what that would take."""

    judge_refresh: bool = flag("Ask the model anew, and keep its replies in place of older ones.")
    estimate: bool = flag("Judge nothing: print how many calls, tokens and money it would take.")


@dataclass(kw_only=True)
class AskingOptions(Spending):
    """Whether models are asked at all, and for how much."""

    cache_only: bool = flag("Ask no model; exit with 2 if a reply is not in the server's cache.")

    def settle(self) -> None:
        """Refuse to ask anew and not at all."""
        super().settle()
        if self.judge_refresh and self.cache_only:
            both = {"judge_refresh", "cache_only"}
            if len(both & self.typed) != 1:
                raise Problem(
                    "--judge-refresh and --cache-only exclude each other; say one of them"
                )
            self.leave_out(" ".join(both))

    def how_asked(self) -> Asking | None:
        """Return how to ask the judge, None for the defaults."""
        if not (self.judge_refresh or self.cache_only):
            return None if self.max_cost is None else Asking(max_cost=self.max_cost)
        return Asking(CacheMode.REFRESH if self.judge_refresh else CacheMode.ONLY, self.max_cost)


@dataclass(kw_only=True)
class ModelOptions(JudgingCommand):
    """Which language model judges, and how it is asked."""

    judge_model: str | None = opt("NAME", "Language model of --judge llm, see `judged judges`.")
    judge_samples: int | None = opt(
        "N", "Votes on each context; by default 1 at temperature 0 and 3 above."
    )
    judge_temperature: float | None = opt("T", "Chance in the model's words; 0 by default.")
    judge_max_tokens: int | None = opt("N", "Longest reply of the model.")
    param: Sequence[str] = many("K=V", "Parameter of the judge; may be repeated.")

    def parameters(self) -> list[str]:
        """Return the parameters of all flags, as `--param` takes them. Raises Problem."""
        values = {name: getattr(self, name) for name in _MODEL.split()}
        given = {
            name.removeprefix("judge_"): f"{value}"
            for name, value in values.items()
            if value is not None
        }
        for text in self.param:
            name, equals, _ = text.partition("=")
            if not name or not equals:
                raise Problem(f"--param {text}: write it as name=value")
            if name in given:
                raise Problem(f"--param {name}: is given by {_flag_of(name)} already")
        return [*(f"{name}={value}" for name, value in given.items()), *self.param]

    def places(self) -> Places:
        """Return what the fields of the judge are known as."""

        def parameter(name: str) -> str:
            typed = getattr(self, f"judge_{name}", None) is not None
            return _flag_of(name) if typed else f"--param {name}"

        def model(message: str) -> str:
            named = self.judge_model is not None and repr(self.judge_model) in message
            return f"--judge-model {self.judge_model}" if named else ""

        of_parameters = r'(?:judge|rubrics\[\d+\])\.parameters\["(.*)"\]'
        return {of_parameters: parameter, NOT_FOUND: model}


def _flag_of(parameter: str) -> str:
    return flag_of(f"judge_{parameter}")


@dataclass(kw_only=True)
class TraceOptions(Command):
    """The file that judgements are kept in, or taken from in place of a judge."""

    trace: str | None = opt(
        "FILE",
        "Keep the judgements in this file, beside those it has; with --judge none, take them from "
        "it.",
        writes=True,
    )
    trace_texts: TextsKept | None = opt(
        None, "What --trace keeps of the texts; in full by default."
    )
    no_judge: bool = flag("As --judge none: judgements come from --trace and the verdict cache.")

    @property
    def replays(self) -> bool:
        """Whether no judge is to run."""
        return self.no_judge or getattr(self, "judge", None) == NONE

    def settle(self) -> None:
        """Refuse what does not go with a judge, or without one."""
        super().settle()
        judge = getattr(self, "judge", None)
        if self.no_judge and judge not in {None, NONE}:
            if {"judge", "no_judge"} <= self.typed:
                raise Problem(f"--no-judge and --judge {judge} exclude each other; say one of them")
            self.leave_out("no_judge" if "judge" in self.typed else "judge")
        if self.trace is None or self.replays:
            self.leave_out("trace_texts", "is for a --trace that is written; leave it out")
        if self.trace is None or not self.replays:
            self.leave_out("trace_judge", f"is for {REPLAYED} with --trace; leave it out")
        if self.replays:
            self.leave_out(
                "estimate max_cost", f"no model is asked with {REPLAYED}; leave one of them out"
            )


@dataclass(kw_only=True)
class NamedTrace(TraceOptions):
    """A trace of which some judgements are taken."""

    trace_judge: str | None = opt(
        "NAME",
        "Which judgements of a trace --judge none takes, as llm/retrieval_match; needed when it "
        "has several.",
    )


@dataclass(kw_only=True)
class JudgeOptions(ModelOptions):
    """What a judge is made of."""

    judge: str | None = opt("KIND", "Judge, see `judged judges`.")
    profile: str | None = opt("P", "Variant of the judge; its first one by default.")
    member: Sequence[str] = many(
        "KIND[/PROFILE][:K=V,...]",
        "Judge of --judge panel, as in semantic:min_score=0.7,weight=2; repeat it for each.",
    )

    @property
    def kind(self) -> str | None:
        """The kind of judge."""
        return self.judge

    def settle(self) -> None:
        """Refuse options of other judges."""
        if "judge" in self.typed and self.judge != self.elsewhere.get("judge"):
            self.leave_out("profile param member")
        super().settle()
        if not self.replays and self.kind != LLM:
            self.leave_out(_MODEL, f"is for --judge {LLM}; say that too, or leave it out")
        if self.replays or self.kind not in ASKING_KINDS:
            self.leave_out(
                "judge_refresh cache_only",
                f"is for --judge {LLM}, --judge {PANEL} and --judge {CASCADE}; say one of them "
                "too, or leave it out",
            )
        if self.replays:
            why = f"is for a judge, and {REPLAYED} runs none; leave it out"
            self.leave_out("profile member stage calibration", why)
        for option, kind in (("member", PANEL), ("stage", CASCADE)):
            if self.kind != kind:
                self.leave_out(option, f"is for --judge {kind}; say that too, or leave it out")

    def spec(self, info: ServerInfo, min_score: float | None) -> Judge:
        """Return the judge that the options ask for. Raises Problem."""
        judge = read_judge(info, self.kind, self.profile, min_score, self.parameters())
        return replace(judge, members=[read_member(info, "--member", each) for each in self.member])

    def places(self) -> Places:
        """Return what the fields of the judge, and of its members, are known as."""
        typed = [("--member", each) for each in self.member]
        typed += [("--stage", each) for each in getattr(self, "stage", ())]
        return {**super().places(), **places_of_members(typed)}


@dataclass(kw_only=True)
class CascadeOptions(JudgeOptions):
    """What any judge is made of, cascades and calibrations included."""

    stage: Sequence[str] = many(
        "KIND[/PROFILE][:K=V,...]",
        "Judge of --judge cascade, in order, as in answer_equivalence:calibration=my.json; repeat "
        "it for each.",
    )
    cascade: str | None = opt(
        "FILE", "Judge by the cascade of this file, which `judged frontier -o` wrote."
    )
    calibration: str | None = opt(
        "FILE|NAME",
        "Give each verdict a probability, by a file of `judged calibrate -o` or by the name of a "
        "calibration that the server has; its threshold holds unless --min-score is given.",
    )

    @property
    def kind(self) -> str | None:
        """The kind of judge; a cascade where --cascade names a file."""
        return self.judge if self.cascade is None else CASCADE

    def settle(self) -> None:
        """Refuse a cascade from a file beside another judge."""
        if self.cascade is not None and (self.judge not in {None, CASCADE} or self.stage):
            what = "--stage" if self.stage else f"--judge {self.judge}"
            raise Problem(f"--cascade and {what} exclude each other: the file names the judges")
        super().settle()

    def spec(self, info: ServerInfo, min_score: float | None) -> Judge:
        """Return the judge that the options ask for. Raises Problem."""
        judge = super().spec(info, min_score)
        if self.cascade is not None:
            try:
                kept = load_cascade(self.cascade)
            except OSError as error:
                raise Problem(f"--cascade {self.cascade}: {error.strerror}") from None
            except InvalidArgument as error:
                raise Problem(f"--cascade: {error.message}") from None
            judge = replace(kept, parameters={**kept.parameters, **judge.parameters})
        for text in self.stage:
            plain, files = without_key(text, "calibration")
            member = read_member(info, "--stage", plain)
            for file in files:
                read = read_calibration(info, file, f"--stage {text}: calibration")
                member = replace(member, judge=replace(judge_of(member), calibration=read))
            judge = replace(judge, members=[*judge.members, member])
        if self.calibration is None:
            return judge
        return replace(judge, calibration=read_calibration(info, self.calibration))


def places_of_members(typed: Sequence[tuple[str, str]]) -> Places:
    """Return what the members of a judge are known as, each by its flag and what was typed."""

    def member(place: str, name: str | None) -> str:
        flag, text = typed[int(place)] if int(place) < len(typed) else ("--cascade", "")
        return f"{flag} {text}{f': {name}' if name else ''}".rstrip()

    def missing(message: str) -> str:
        kinds = ((f"{flag} {text}", re.split("[:/]", text)[0]) for flag, text in typed)
        return next((name for name, kind in kinds if repr(kind) in message), "")

    field = r'(?:judge\.)?members\[(\d+)\](?:\.judge)?(?:\.(?:parameters\[")?(\w+).*)?'
    found: Places = {field: member}
    if typed:
        found = {**found, r"judge\.members": typed[0][0], NOT_FOUND: missing}
    return found


def places_of_judge(flag: str) -> Places:
    """Return what the fields of a judge are known as that one flag names."""

    def field(name: str | None) -> str:
        return f"{flag}: {name}" if name else flag

    plain = {"judge.kind": flag, "judge.profile": flag, NOT_FOUND: flag}
    return {**plain, r'judge\.(?:parameters\[")?(\w+).*': field}


def read_judge(
    info: ServerInfo,
    kind: str | None,
    profile: str | None,
    min_score: float | None,
    parameters: Sequence[str],
) -> Judge:
    """Return a judge; a value of a parameter has the type of its default. Raises Problem."""
    names = [text.partition("=")[0] for text in parameters]
    for name in names:
        if names.count(name) > 1:
            raise Problem(f"--param {name}: is given twice")
    asked = kind or info.default_judge
    offered = (j for j in info.judges if j.kind == asked and profile in {None, "", j.profile})
    defaults = {p.name: p.default_value for each in [*offered][:1] for p in each.parameters}
    values = {
        name: _typed(defaults.get(name), text.partition("=")[2])
        for name, text in zip(names, parameters, strict=True)
    }
    if not kind and not profile and not values and asked in ASKING_KINDS:
        kind = asked  # named, it travels in chunks small enough to lose
    return Judge(kind=kind or "", profile=profile or "", min_score=min_score, parameters=values)


def _typed(default: Scalar | None, text: str) -> Scalar:
    """Return a value in the type of the default, else as it is, for the server to refuse."""
    if isinstance(default, bool):
        return {"true": True, "false": False}.get(text.lower(), text)
    if isinstance(default, int | float):
        try:
            number = int(text) if isinstance(default, int) else float(text)
        except ValueError:
            return text
        return number if math.isfinite(number) and abs(number) < 2**63 else text
    return text


def without_key(text: str, key: str) -> tuple[str, list[str]]:
    """Return a stage without one of its keys, and the values that it had."""
    name, _, given = text.partition(":")
    parts = given.split(",")
    values = [part.partition("=")[2] for part in parts if part.startswith(f"{key}=")]
    others = ",".join(part for part in parts if not part.startswith(f"{key}="))
    return f"{name}:{others}".rstrip(":"), values


def judge_of(member: PanelMember) -> Judge:
    """Return the judge of a member, which may be its kind alone."""
    return Judge(member.judge) if isinstance(member.judge, str) else member.judge


def read_member(info: ServerInfo, flag: str, text: str) -> PanelMember:
    """Return a member or stage as it is typed. Raises Problem."""
    name, _, given = text.partition(":")
    kind, _, profile = name.partition("/")
    if not kind:
        raise Problem(f"{flag} {text}: begin with the kind of a judge, as in semantic:weight=2")
    own: dict[str, float] = {}
    parameters = []
    for part in filter(None, given.split(",")):
        key, _, value = part.partition("=")
        if key in {"weight", "min_score"}:
            own[key] = read_amount(f"{flag} {text}", key, value)
        else:
            parameters.append(part)
    judge = read_judge(info, kind, profile or None, own.get("min_score"), parameters)
    return PanelMember(judge, own.get("weight"))


def read_amount(place: str, key: str, text: str) -> float:
    """Return the finite number that a key of a member has. Raises Problem."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise Problem(f"{place}: {key} must be a number")
    return number


def read_calibration(info: ServerInfo, given: str, flag: str = "--calibration") -> Calibrator | str:
    """Return the calibration of a file, else the name of one. Raises Problem."""
    path = Path(given)
    if path.is_file():
        try:
            return Calibrator.load(path)
        except OSError as error:
            raise Problem(f"{flag} {given}: {error.strerror}") from None
        except InvalidArgument as error:
            raise Problem(f"{flag}: {error.message.removeprefix('calibration: ')}") from None
    if given in info.calibrations:
        return given
    known = ", ".join(info.calibrations) or "none"
    raise Problem(
        f"{flag} {given}: there is no such file, and the server has no calibration of that name; "
        f"it has {known}"
    )


def refuse_other(kind: str | None) -> None:
    """Raise Problem for a judge that no line of texts can be given to."""
    if kind == "span":
        raise Problem(
            "--judge span: compares places in files, and lines hold texts; use judged evaluate "
            "with 'expected_spans', or another judge"
        )


def refuse_uncached(found: Verdicts | ScoredAnswers | None) -> None:
    """Raise Problem with the next step where something is missing because it was not cached."""
    errors = () if found is None else found.errors.values()
    missing = [error.message for error in errors if error.reason == NOT_CACHED]
    if found is None or not missing:
        return
    keyless = _KEYLESS.search(missing[0])
    first = f"{keyless[0]}; then " if keyless else ""
    raise Problem(
        f"--cache-only: {of_all(len(missing), len(found), 'verdict', 'verdicts')} not in the "
        f"server's cache; {first}run the same command once without --cache-only, with the same "
        "model, rubric and texts, to fill it"
    )


def tell_circular(
    out: Output, systems: Iterable[str], info: ServerInfo, judges: Iterable[Judge | Rubric]
) -> None:
    """Warn where a model of a system is one that judges, or of its family.

    A strict command ends there with 1, before anything is asked.
    """
    for remark in circular_remarks(systems, judging_models(info, judges)):
        out.warn(remark)
        if out.strict:
            say("nothing was asked, because of --strict")
            raise Exit(1)


_ONCE = f"run this command once with a judge in place of {REPLAYED}"
_CACHED = Asking(cache=CacheMode.ONLY)
_CHOOSES = {"judgements": "--trace-judge NAME", "min_score": "--min-score"}
"""The flags for the fields of a replay."""


def kept_trace(options: TraceOptions, out: Output) -> TraceFile | None:
    """Return the trace to write, None when none is. Raises FileError for a file that is none."""
    if options.trace is None or options.replays:
        return None
    kept = TraceFile(options.trace, hashed=options.trace_texts is TextsKept.HASH)
    out.warn(*kept.trace.warnings)
    return kept


def tell_kept(kept: TraceFile) -> None:
    """Say what a trace has now."""
    say(f"trace {kept.trace.name}: {plural(len(kept.trace), 'item', 'items')}")


def _read_trace(options: TraceOptions, out: Output) -> Trace | None:
    """Return the trace to take judgements from, None without one. Raises FileError, Problem."""
    if options.trace is None:
        return None
    if not Path(options.trace).exists():
        raise Problem(f"--trace {options.trace}: there is no such file; to write it, {_ONCE}")
    trace = Trace.read(options.trace)
    out.warn(*trace.warnings)
    return trace


def open_replay(
    options: TraceOptions,
    out: Output,
    server: Connection,
    parameters: Sequence[str],
    min_score: float | None,
    *,
    details: bool = False,
    timeout: float,
) -> Replay:
    """Return what stands for the judge: the trace, and the verdict cache if flags tell whose.

    `parameters` are those of the judge `llm`, as `--param` takes them. Raises Problem, FileError.
    """
    if options.trace is None and not parameters:
        raise Problem(
            f"{REPLAYED}: say where the judgements come from: --trace FILE, or --judge-model NAME "
            "for the server's verdict cache"
        )
    trace = _read_trace(options, out)
    replay = Replay(trace, _choice(options, trace, parameters), min_score, with_details=details)
    if parameters:
        spec = read_judge(server.info, LLM, None, min_score, parameters)

        def cached(groups: Sequence[QueryGroup], threshold: float | None) -> Verdicts:
            return server.client.judge(
                *(groups, replace(spec, min_score=threshold)),
                asking=_CACHED,
                include_details=details,
                timeout=timeout,
            )

        replay.cached = cached
    return replay


def _choice(options: TraceOptions, trace: Trace | None, parameters: Sequence[str]) -> str:
    """Return the judgements to take; "" leaves it to the trace, which then has one kind only."""
    named: str = getattr(options, "trace_judge", None) or ""
    if trace is None:
        return named
    if named:
        if named not in (names := trace.names()):
            known = ", ".join(names) or "none"
            raise Problem(f"--trace-judge {named}: {trace.name} has judgements by {known}")
        return named
    given = dict(text.partition("=")[::2] for text in parameters)
    asked = f"{LLM}/{given.get('rubric', 'retrieval_match')}"
    names = trace.context_names()
    return asked if parameters and (asked in names or not names) else ""


def open_score_replay(
    options: TraceOptions,
    out: Output,
    server: Connection,
    *,
    from_cache: bool,
    details: bool,
    timeout: float,
) -> ScoreReplay:
    """Return what stands for the model of a scoring: the trace, and the verdict cache.

    The cache is asked when there is no trace, or `from_cache`. Raises Problem, FileError.
    """
    replay = ScoreReplay(_read_trace(options, out))
    if from_cache or options.trace is None:

        def cached(items: Sequence[AnswerItem], rubrics: Sequence[Rubric]) -> ScoredAnswers:
            return server.client.score_answers(
                items, rubrics, include_replies=details, asking=_CACHED, timeout=timeout
            )

        replay.cached = cached
    return replay


@contextmanager
def replayed(
    options: TraceOptions, out: Output, replay: Replay | ScoreReplay, name: Name | None = None
) -> Iterator[None]:
    """Turn what a replay lacks into problems that say how to get it; warn of what differs."""
    try:
        yield
    except Missing as error:
        first = error.first if name is None else name(error)
        judge = "" if error.judge is None else f": {error.judge.signature}"
        raise Problem(
            f"{REPLAYED}: {of_all(error.missing, error.total, 'judgement', 'judgements')} by "
            f"{error.name} {word(error.missing, 'is', 'are')} not in "
            f"{_searched(options, replay)}, first that of {first}; to get "
            f"{word(error.missing, 'it', 'them')}, {_ONCE}{judge}"
        ) from None
    except ReplayError as error:
        if error.field:
            raise Problem(f"{REPLAYED}: {error}, by {_CHOOSES[error.field]}") from None
        if isinstance(error, OtherRubric) and error.lacking:
            raise Problem(
                f"{REPLAYED}: {error}; start the server with --rubrics-dir FOLDER, where FOLDER "
                f"has the file of {error.lacking}, and run this command again"
            ) from None
        raise Problem(f"{REPLAYED}: {error}; to judge anew, {_ONCE}") from None
    if replay.disagreements:
        n = plural(len(replay.disagreements), "verdict differs", "verdicts differ")
        out.warn(
            f"{n} between {options.trace} and the server's verdict cache; those of the trace "
            "count. Judge anew with --judge-refresh to settle it"
        )


def _searched(options: TraceOptions, replay: Replay | ScoreReplay) -> str:
    cache = ["the server's verdict cache"] if replay.cached is not None else []
    return " or in ".join([*([options.trace] if options.trace is not None else []), *cache])
