"""The flags that say which language model is asked, how, and for how much.

How other parameters of a judge are typed is in `judges`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Annotated

import typer

from judged import Asking, CacheMode, Verdicts
from judged._views import of_all
from judged.cli.options.judges import CASCADE
from judged.cli.options.judges import KIND as PANEL
from judged.cli.problems import Problem
from judged.values import VerdictError

KIND = "llm"
NOT_CACHED = "NOT_CACHED"
_KEYLESS = re.compile(r"language model .* can't be asked: .*")
"""What the server adds when the model's key is missing: what to do about that."""

Details = Annotated[
    bool, typer.Option("--details", help="Tell how the model of --judge llm came to each verdict.")
]


@dataclass(frozen=True, slots=True)
class ModelFlags:
    """Which language model judges, and how it is asked."""

    judge_model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Language model of --judge llm, see `judged judges`."),
    ] = None
    judge_samples: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Votes on each context; by default 1 at temperature 0 and 3 above."
        ),
    ] = None
    judge_temperature: Annotated[
        float | None,
        typer.Option(metavar="T", help="Chance in the model's words; 0 by default."),
    ] = None
    judge_max_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Longest reply of the model.")
    ] = None

    def parameters(self, kind: str | None) -> list[str]:
        """Return the flags that were given as `--param` takes them. Raises Problem."""
        flags = {part.name: getattr(self, part.name) for part in fields(self)}
        named = {name.removeprefix("judge_"): value for name, value in flags.items()}
        given = {name: value for name, value in named.items() if value is not None}
        if given and kind != KIND:
            flag = _flag(next(iter(given)))
            raise Problem(f"{flag}: is for --judge {KIND}; say that too, or leave it out")
        return [f"{name}={value}" for name, value in given.items()]


JudgeRefresh = Annotated[
    bool,
    typer.Option(
        "--judge-refresh", help="Ask the model anew, and keep its replies in place of older ones."
    ),
]
EstimateOnly = Annotated[
    bool,
    typer.Option(
        "--estimate", help="Judge nothing: print how many calls, tokens and money it would take."
    ),
]
MaxCost = Annotated[
    float | None,
    typer.Option(
        "--max-cost",
        metavar="X",
        help="Most that language models may cost, in the currency of the server; what could exceed "
        "it is not asked.",
    ),
]


@dataclass(frozen=True, slots=True)
class AskingFlags:
    """Whether models are asked at all, and for how much."""

    judge_refresh: JudgeRefresh = False
    cache_only: Annotated[
        bool,
        typer.Option(
            "--cache-only",
            help="Ask no model; exit with 2 if a reply is not in the server's cache.",
        ),
    ] = False
    estimate: EstimateOnly = False
    max_cost: MaxCost = None

    def asking(self, kind: str | None, *, replays: bool = False) -> Asking | None:
        """Return how to ask the judge, None for the defaults. Raises Problem."""
        check_max_cost(self.max_cost)
        if replays and (self.estimate or self.max_cost is not None):
            flag = "--estimate" if self.estimate else "--max-cost"
            raise Problem(f"{flag}: no model is asked with --judge none; leave one of them out")
        if self.judge_refresh and self.cache_only:
            raise Problem("--judge-refresh and --cache-only exclude each other; say one of them")
        if not (self.judge_refresh or self.cache_only):
            return None if self.max_cost is None else Asking(max_cost=self.max_cost)
        if kind not in {KIND, PANEL, CASCADE}:
            flag = "--judge-refresh" if self.judge_refresh else "--cache-only"
            raise Problem(
                f"{flag}: is for --judge {KIND}, --judge {PANEL} and --judge {CASCADE}; say one of "
                "them too, or leave it out"
            )
        return Asking(CacheMode.REFRESH if self.judge_refresh else CacheMode.ONLY, self.max_cost)


def check_max_cost(max_cost: float | None) -> None:
    """Raise Problem for a limit that is none."""
    if max_cost is not None and not (math.isfinite(max_cost) and max_cost > 0):
        raise Problem(f"--max-cost {max_cost:g}: must be above 0; leave it out for no limit")


def with_parameters(flags: Sequence[str], param: Sequence[str] | None) -> list[str]:
    """Return the parameters of flags with those of `--param`. Raises Problem for one in both."""
    names = _names(flags)
    for name in _names(param or []):
        if name in names:
            raise Problem(f"--param {name}: is given by {_flag(name)} already")
    return [*flags, *(param or [])]


@contextmanager
def named_as_typed(flags: Sequence[str]) -> Iterator[None]:
    """Let problems with the parameters of flags name what was typed, not `--param`."""
    try:
        yield
    except Problem as problem:
        named, colon, rule = str(problem).partition(": ")
        name = named.removeprefix("--param ")
        for value in (text.removeprefix("model=") for text in flags if text.startswith("model=")):
            if str(problem).startswith(f"language model {value!r} "):
                raise Problem(f"{_flag('model')} {value}: {problem}") from problem
        if name == named or name not in _names(flags):
            raise
        raise Problem(f"{_flag(name)}{colon}{rule}") from problem


def _names(parameters: Sequence[str]) -> list[str]:
    return [text.partition("=")[0] for text in parameters]


def _flag(name: str) -> str:
    return f"--judge-{name.replace('_', '-')}"


def refuse_missing(verdicts: Verdicts | None) -> None:
    """Raise Problem with the next step when a verdict is missing because it was not cached."""
    if verdicts is None:
        return
    refuse_uncached(verdicts.errors.values(), len(verdicts))


def refuse_uncached(errors: Iterable[VerdictError], total: int) -> None:
    """Raise Problem with the next step when any of these errors of `total` verdicts is a gap."""
    missing = [error.message for error in errors if error.reason == NOT_CACHED]
    if not missing:
        return
    keyless = _KEYLESS.search(missing[0])
    first = f"{keyless[0]}; then " if keyless else ""
    raise Problem(
        f"--cache-only: {of_all(len(missing), total, 'verdict', 'verdicts')} not in the "
        f"server's cache; {first}run the same command once without --cache-only, with the same "
        "model, rubric and texts, to fill it"
    )
