"""The flags that say how language models are asked, and what to say when the cache has no answer.

Which model is asked is in `llm`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

import typer

from judged import Asking, CacheMode, VerdictError, Verdicts
from judged.cli.llm import KIND
from judged.cli.members import KIND as PANEL
from judged.cli.problems import Problem
from judged.cli.tables import of_all

NOT_CACHED = "NOT_CACHED"
_KEYLESS = re.compile(r"language model .* can't be asked: .*")
"""What the server adds when the model's key is missing: what to do about that."""

JudgeRefresh = Annotated[
    bool,
    typer.Option(
        "--judge-refresh", help="Ask the model anew, and keep its replies in place of older ones."
    ),
]
CacheOnly = Annotated[
    bool,
    typer.Option(
        "--cache-only", help="Ask no model; exit with 2 if a reply is not in the server's cache."
    ),
]


def read_asking(
    kind: str | None, *, refresh: bool, cache_only: bool, max_cost: float | None = None
) -> Asking | None:
    """Return how to ask the judge, None for the defaults. Raises Problem."""
    if refresh and cache_only:
        raise Problem("--judge-refresh and --cache-only exclude each other; say one of them")
    if not (refresh or cache_only):
        return None if max_cost is None else Asking(max_cost=max_cost)
    if kind not in {KIND, PANEL}:
        flag = "--judge-refresh" if refresh else "--cache-only"
        raise Problem(
            f"{flag}: is for --judge {KIND} and --judge {PANEL}; say one of them too, or leave it "
            "out"
        )
    return Asking(CacheMode.REFRESH if refresh else CacheMode.ONLY, max_cost)


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
