"""The flags of the judge `llm`, and what to say of its verdicts.

How parameters are typed is in `parameters`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer

from judged import Usage, VerdictDetail, Verdicts
from judged.cli.problems import Problem
from judged.cli.tables import of_all, plural, word

KIND = "llm"

JudgeModel = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Language model of --judge llm, see `judged judges`."),
]
JudgeSamples = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Votes on each context; by default 1 at temperature 0 and 3 above."
    ),
]
JudgeTemperature = Annotated[
    float | None, typer.Option(metavar="T", help="Chance in the model's words; 0 by default.")
]
JudgeMaxTokens = Annotated[
    int | None, typer.Option(metavar="N", help="Longest reply of the model.")
]
Details = Annotated[
    bool, typer.Option("--details", help="Tell how the model of --judge llm came to each verdict.")
]


def llm_parameters(
    kind: str | None,
    model: str | None,
    samples: int | None,
    temperature: float | None,
    max_tokens: int | None,
) -> list[str]:
    """Return the flags that were given as `--param` takes them. Raises Problem."""
    flags = {
        "model": model,
        "samples": samples,
        "temperature": temperature,
        "max_tokens": max_tokens,
    }
    given = {name: value for name, value in flags.items() if value is not None}
    if given and kind != KIND:
        flag = _flag(next(iter(given)))
        raise Problem(f"{flag}: is for --judge {KIND}; say that too, or leave it out")
    return [f"{name}={value}" for name, value in given.items()]


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
        if name == named or name not in _names(flags):
            raise
        raise Problem(f"{_flag(name)}{colon}{rule}") from problem


def _names(parameters: Sequence[str]) -> list[str]:
    return [text.partition("=")[0] for text in parameters]


def _flag(name: str) -> str:
    return f"--judge-{name.replace('_', '-')}"


def describe_usage(usage: Usage) -> str:
    """Return what asking took, as a line."""
    tokens = f"{usage.input_tokens} input and {usage.output_tokens} output tokens"
    cost = "" if usage.cost is None else f", cost {usage.cost:.6g}"
    tries = plural(usage.attempts, "try", "tries")
    kept = f"; {plural(usage.cached, 'sample', 'samples')} from the cache" if usage.cached else ""
    shared = f"; {usage.shared} shared with another caller" if usage.shared else ""
    calls = plural(usage.calls, "call", "calls")
    return f"{calls} answered in {tries}, {tokens}{cost}{kept}{shared}"


def vote_warnings(verdicts: Verdicts) -> Iterator[str]:
    """Yield what the reader should know about the votes."""
    split = sum(0 < agreement < 1 for agreement in verdicts.agreement)
    if split:
        some = of_all(split, len(verdicts), "verdict", "verdicts")
        yield f"{some} {word(split, 'has', 'have')} votes on both sides; see their agreement"


def usage_document(usage: Usage | None) -> dict[str, Any]:
    """Return the entry of a JSON document that tells what asking took, if anybody was asked."""
    return {} if usage is None else {"usage": asdict(usage)}


def detail_document(detail: VerdictDetail) -> dict[str, Any]:
    """Return how one verdict came about, for a JSON document."""
    fields = asdict(detail)
    samples: Sequence[dict[str, Any]] = fields["samples"]
    for document, sample in zip(samples, detail.samples, strict=True):
        document["status"] = sample.status.name
    return fields
