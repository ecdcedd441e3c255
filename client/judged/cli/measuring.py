"""The options of commands that measure: which metrics, and how sure their means are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from judged import IntervalMethod, IntervalOptions
from judged.cli.frame import Command, flag, many, opt

LARGEST_SEED = 2**64 - 1
"""What the contract holds."""


@dataclass(kw_only=True)
class MetricsOptions(Command):
    """A command that computes metrics."""

    metric: Sequence[str] = many(
        "NAME", "Metric as in ndcg@10; may be repeated.", "--metric", "-m", required=True
    )
    per_query: bool = flag("Show the values of every query, not only the means.")


@dataclass(kw_only=True)
class Drawn(Command):
    """A command that draws samples."""

    confidence: float | None = opt("X", "Confidence of the intervals; 0.95.", low=0.5, high=0.9999)
    seed: int | None = opt("N", "Seed of the bootstrap; 0.", low=0, high=LARGEST_SEED)


@dataclass(kw_only=True)
class IntervalOption(Drawn):
    """How the intervals of means are made, for commands that show them where they are asked to."""

    interval: IntervalMethod | None = opt(None, "Show a confidence interval of every mean.")
    resamples: int | None = opt("N", "Resamples of the bootstrap; 10,000.", low=100, high=100_000)

    def how_sure(self) -> IntervalOptions | None:
        """Return the options of intervals, None when none of them was given."""
        named = {each.name: getattr(self, each.name, None) for each in fields(IntervalOptions)}
        named["method"] = self.interval
        return None if set(named.values()) == {None} else IntervalOptions.of(**named)


@dataclass(kw_only=True)
class MethodOption(IntervalOption):
    """How intervals are made, for commands that always show them."""

    interval: IntervalMethod | None = opt(None, "Method of the intervals; percentile.")
