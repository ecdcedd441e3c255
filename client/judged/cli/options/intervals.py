"""The flags of intervals, slices and unjudged documents. What they mean is up to the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from judged import IntervalMethod, IntervalOptions, Unjudged

LARGEST_SEED = 2**64 - 1
"""What the contract holds."""
Confidence = Annotated[
    float | None,
    typer.Option(metavar="X", min=0.5, max=0.9999, help="Confidence of the intervals; 0.95."),
]
Resamples = Annotated[
    int | None,
    typer.Option(metavar="N", min=100, max=100_000, help="Resamples of the bootstrap; 10,000."),
]
Seed = Annotated[
    int | None,
    typer.Option(metavar="N", min=0, max=LARGEST_SEED, help="Seed of the bootstrap; 0."),
]
SliceBy = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY",
        help="Show the means of the queries that share a value of this key of their metadata; may "
        "be repeated.",
    ),
]
UnjudgedPolicy = Annotated[
    Unjudged,
    typer.Option(case_sensitive=False, help="What a document counts as that nobody judged."),
]


@dataclass(frozen=True, slots=True)
class IntervalFlags:
    """How the intervals of means are made, for commands that show them where they are asked to."""

    interval: Annotated[
        IntervalMethod | None,
        typer.Option(case_sensitive=False, help="Show a confidence interval of every mean."),
    ] = None
    confidence: Confidence = None
    resamples: Resamples = None
    seed: Seed = None

    def options(self) -> IntervalOptions | None:
        """Return the options of intervals, None when none of them was given."""
        given = {
            "method": self.interval,
            "confidence": self.confidence,
            "resamples": self.resamples,
            "seed": self.seed,
        }
        return None if set(given.values()) == {None} else IntervalOptions.of(**given)


@dataclass(frozen=True, slots=True)
class MethodFlags(IntervalFlags):
    """How intervals are made, for commands that always show them."""

    interval: Annotated[
        IntervalMethod | None,
        typer.Option(case_sensitive=False, help="Method of the intervals; percentile."),
    ] = None
