"""The options of commands that ask judges, the judge they define, and traces that replace it.

The server validates values. In a member or stage, `weight` and `min_score` belong to the member;
every other name is a parameter of its judge. Without a judge, verdicts come from a trace.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from judged import (
    Asking,
    CacheMode,
    Calibrator,
    Judge,
    PanelMember,
    ScoredAnswers,
    Verdicts,
)
from judged._inputs import read_number
from judged._views import of_all, word
from judged.cli.frame import Command, flag, flag_of, many, opt
from judged.cli.output import Places, Problem, known_as
from judged.cli.server import JudgingCommand
from judged.traces import NOT_CACHED, Missing, Replay, ReplayError, Trace, TraceFile
from judged.values import Scalar, ServerInfo, load_cascade

LLM, PANEL, CASCADE, NONE = "llm", "panel", "cascade", "none"
REPLAYED = "--judge none"
MODEL = "judge_model judge_samples judge_temperature judge_max_tokens"
_ONLY_WITH = {
    MODEL: (LLM,),
    "judge_refresh cache_only": (LLM, PANEL, CASCADE),
    "member": (PANEL,),
    "stage": (CASCADE,),
}
"""Options that only some judges have."""


class MaxCost(Command):
    """A command that may spend money on language models."""

    max_cost: float | None = opt(
        "X",
        "Limit on the cost of language models; a call that could exceed it is not made.",
    )


class Spending(MaxCost):
    """A command that can bypass kept replies, or only estimate the cost."""

    judge_refresh: bool = flag("Ask the model again instead of using kept replies.")
    estimate: bool = flag("Judge nothing; print the most that it could use.")


class AskingOptions(Spending):
    """Whether models are asked at all, and how much they may cost."""

    cache_only: bool = flag("Ask no model; exit with 2 if a reply is not in the server's cache.")

    def settle(self) -> None:
        """Refuse --judge-refresh with --cache-only."""
        super().settle()
        if self.cache_only:
            self.leave_out("judge_refresh", "--cache-only asks no model; leave one of them out")

    def asking_options(self) -> Asking | None:
        """Return how to ask the judge, None for the defaults."""
        if not (self.judge_refresh or self.cache_only):
            return None if self.max_cost is None else Asking(max_cost=self.max_cost)
        return Asking(CacheMode.REFRESH if self.judge_refresh else CacheMode.ONLY, self.max_cost)


class ModelOptions(JudgingCommand):
    """Which language model judges, and how it is asked."""

    judge_model: str | None = opt("NAME", "Language model of --judge llm, see `judged judges`.")
    judge_samples: int | None = opt(
        "N", "Votes on each context; by default 1 at temperature 0 and 3 above."
    )
    judge_temperature: float | None = opt("T", "Sampling temperature of the model; 0 by default.")
    judge_max_tokens: int | None = opt("N", "Longest reply of the model.")
    param: Sequence[str] = many("K=V", "Parameter of the judge; may be repeated.")

    def parameters(self) -> dict[str, str]:
        """Return the parameters of all flags, as typed. Raises Problem."""
        given = read_pairs("--param", self.param)
        for option in MODEL.split():
            if (value := getattr(self, option)) is not None:
                name = option.removeprefix("judge_")
                if name in given:
                    raise Problem(f"--param {name}: is given by {flag_of(option)} already")
                given[name] = f"{value}"
        return given


def read_pairs(flag: str, texts: Iterable[str]) -> dict[str, str]:
    """Parse texts of the form K=V, each key once. Raises Problem."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals or name in found:
            raise Problem(f"{flag} {text}: write it as name=value, each name once")
        found[name] = value
    return found


class TraceOptions(Command):
    """The trace file that judgements are added to, or taken from instead of a judge."""

    trace: str | None = opt(
        "FILE",
        "Add the judgements to this file; with --judge none, take them from it.",
        writes=True,
    )

    @property
    def replays(self) -> bool:
        """Whether no judge runs."""
        return getattr(self, "judge", None) == NONE

    def settle(self) -> None:
        """Refuse options that don't go with a judge, or without one."""
        super().settle()
        if self.trace is None or not self.replays:
            self.leave_out("trace_judge", f"is for {REPLAYED} with --trace; leave it out")
        if self.replays:
            why = f"no model is asked with {REPLAYED}; leave it out"
            self.leave_out("estimate max_cost", why)


class NamedTrace(TraceOptions, ModelOptions):
    """A trace file, and which of its judgements to use."""

    trace_judge: str | None = opt(
        "NAME",
        "Which judgements of a trace to take, as llm/retrieval_match, where it has several.",
    )

    def replay(self, min_score: float | None, *, details: bool = False) -> Replay:
        """Return the replacement for the judge. Raises Problem, FileError."""
        named = self.trace_judge or ""
        return Replay(read_trace(self), named, min_score, with_details=details)


class JudgeOptions(ModelOptions):
    """The options that define a judge."""

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
        super().settle()
        kind = NONE if self.replays else self.kind
        if kind == NONE:
            why = f"{REPLAYED} runs no judge; leave it out"
            self.leave_out("profile param calibration", why)
        for names, kinds in _ONLY_WITH.items():
            if kind not in kinds:
                named = " or ".join(f"--judge {each}" for each in kinds)
                self.leave_out(names, f"is for {named}; leave it out")

    def spec(self, info: ServerInfo, min_score: float | None) -> Judge:
        """Return the judge that the options ask for. Raises Problem."""
        judge = read_judge(info, self.kind, self.profile, min_score, self.parameters())
        typed = (read_member(info, "--member", text) for text in self.member)
        return replace(judge, members=[PanelMember(each, weight) for each, weight, _ in typed])


class CascadeOptions(JudgeOptions):
    """The options that define any judge, with cascades and calibrations."""

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
        "Give each verdict a probability, by a file of `judged calibrate -o` or by a name that the "
        "server has; its threshold holds unless --min-score is given.",
    )

    @property
    def kind(self) -> str | None:
        """The kind of judge; a cascade where --cascade names a file."""
        return self.judge if self.cascade is None else CASCADE

    def settle(self) -> None:
        """Refuse --cascade together with another judge."""
        if self.cascade is not None and (self.judge not in {None, CASCADE} or self.stage):
            raise Problem("--cascade: the file names the judges; leave out --judge and --stage")
        super().settle()

    def spec(self, info: ServerInfo, min_score: float | None) -> Judge:
        """Return the judge that the options ask for. Raises Problem."""
        judge = super().spec(info, min_score)
        if self.cascade is not None:
            kept = load_cascade(self.cascade)
            judge = replace(kept, parameters={**kept.parameters, **judge.parameters})
        for text in self.stage:
            stage, weight, own = read_member(info, "--stage", text, "calibration")
            if "calibration" in own:
                stage = replace(stage, calibration=read_calibration(own["calibration"]))
            judge = replace(judge, members=[*judge.members, PanelMember(stage, weight)])
        if self.calibration is None:
            return judge
        return replace(judge, calibration=read_calibration(self.calibration))


def read_judge(
    info: ServerInfo,
    kind: str | None,
    profile: str | None,
    min_score: float | None,
    given: Mapping[str, str],
) -> Judge:
    """Return a judge; the value of a parameter gets the type of its default."""
    asked = kind or info.default_judge
    offered = [j for j in info.judges if j.kind == asked and profile in {None, "", j.profile}]
    defaults = {p.name: p.default_value for each in offered[:1] for p in each.parameters}
    values = {name: _typed(defaults.get(name), text) for name, text in given.items()}
    # With its kind set, a judge that asks models is called in chunks small enough to lose.
    return Judge(asked, profile or "", min_score, values)


def _typed(default: Scalar | None, text: str) -> Scalar:
    """Return a value with the type of the default, else the text, which the server refuses."""
    try:
        if isinstance(default, bool):
            return {"true": True, "false": False}[text.lower()]
        if isinstance(default, int | float):
            number = type(default)(text)
            return number if math.isfinite(number) and abs(number) < 2**63 else text
    except (KeyError, ValueError):
        return text
    return text


def read_member(
    info: ServerInfo, flag: str, text: str, *apart: str
) -> tuple[Judge, float | None, dict[str, str]]:
    """Return the judge of a member or stage, its weight, and its values of the keys `apart`.

    Raises Problem.
    """
    name, _, listed = text.partition(":")
    kind, _, profile = name.partition("/")
    place = f"{flag} {text}"
    if not kind:
        raise Problem(f"{place}: begin with the kind of a judge, as in semantic:weight=2")
    given = read_pairs(f"{place}:", filter(None, listed.split(",")))
    own = {key: given.pop(key) for key in apart if key in given}
    score, weight = (
        read_amount(place, key, given.pop(key)) if key in given else None
        for key in ("min_score", "weight")
    )
    return read_judge(info, kind, profile, score, given), weight, own


def read_amount(place: str, key: str, text: str, least: float = -math.inf) -> float:
    """Parse the finite number of a member's key. Raises Problem."""
    number = read_number(text)
    if number is None or number < least:
        from_least = "" if least == -math.inf else f" from {least:g}"
        raise Problem(f"{place}: {key} must be a number{from_least}")
    return number


def read_calibration(given: str) -> Calibrator | str:
    """Return the calibration in a file, else the name of one on the server.

    Raises InvalidArgument.
    """
    return Calibrator.load(given) if Path(given).is_file() else given


def refuse_uncached(found: Verdicts | ScoredAnswers | None) -> None:
    """Raise Problem with the next step if verdicts or scores were not in the cache."""
    errors = () if found is None else found.errors.values()
    missing = [error.message for error in errors if error.reason == NOT_CACHED]
    if found is None or not missing:
        return
    raise Problem(
        f"--cache-only: {of_all(len(missing), len(found), 'verdict')} not in the server's cache; "
        "run the same command without it to ask for them"
    )


_ONCE = f"run this command once with a judge in place of {REPLAYED}"


def kept_trace(options: TraceOptions) -> TraceFile | None:
    """Return the trace to write, or None. Raises FileError if the file is not a trace."""
    if options.trace is None or options.replays:
        return None
    return TraceFile(options.trace)


def read_trace(options: TraceOptions) -> Trace:
    """Return the trace to replay. Raises FileError, Problem."""
    if options.trace is None or not Path(options.trace).exists():
        named = options.trace or "FILE"
        raise Problem(f"{REPLAYED}: there is no --trace {named} to read; to write it, {_ONCE}")
    return Trace.read(options.trace)


@contextmanager
def replayed(options: TraceOptions, places: Places) -> Iterator[None]:
    """Turn errors of a replay into problems that say what to run."""
    try:
        yield
    except Missing as error:
        judge = "" if error.judge is None else f": {error.judge.signature}"
        raise Problem(
            f"{REPLAYED}: {of_all(error.missing, error.total, 'judgement')} by {error.name} "
            f"{word(error.missing, 'is', 'are')} not in {options.trace}, first that of "
            f"{known_as(error.first, places) or error.first}; {_ONCE}{judge}"
        ) from None
    except ReplayError as error:
        raise Problem(f"{REPLAYED}: {error}; or {_ONCE}") from None
