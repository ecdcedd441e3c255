"""Enums of options and results; intervals; the names of metrics.

Every verdict has a status, a source and flags; policies decide how rankings become numbers.

A result's name leaves out defaults; its signature has every parameter, followed by how it was
measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum, IntFlag
from typing import Any

from judged._inputs import Given
from judged._views import View


class Status(IntEnum):
    """Whether a verdict exists."""

    OK = 1
    """The context was judged."""
    ERROR = 2
    """Something failed; the verdict's `error` says what."""
    ABSTAINED = 3
    """The judge answered, but not with a verdict."""
    NOT_ASSESSABLE = 4
    """There was nothing to judge."""


class Source(IntEnum):
    """Where a verdict came from."""

    COMPUTED = 1
    """Computed for this call."""
    CACHE = 2
    """Read from the verdict cache."""
    SHARED = 3
    """Taken from another caller's work in flight."""
    REPLAY = 4
    """Replayed from a recorded trace."""


class Flag(IntFlag):
    """Remarks on a verdict."""

    NONE = 0
    NO_TOKENS = 1
    """A text has letters or pictures, but none that the judge's profile can read."""
    TRUNCATED = 2
    """A text was longer than the model's window: only part of it was judged."""
    WINDOWED = 4
    """A text was longer than the model's window: the score is the best over its windows."""
    RESERVED_TOKENS = 8
    """A text holds chat-template tokens or invisible characters, and may be an attack."""
    FALLBACK = 16
    """A fallback model answered at least once, because the provider of the first one failed."""
    UNSETTLED = 32
    """No stage of the cascade settled it: the verdict is of the last stage that gave one."""
    UNKNOWN_TOKENS = 64
    """The judge does not read a good part of a text."""


class Matching(IntEnum):
    """How verdicts pair retrieved results with expected texts."""

    GREEDY_FIRST = 1
    """By rank, a result takes the first expected text it matches that is still free."""
    MAXIMUM = 2
    """A maximum bipartite matching."""
    ANY = 3
    """No pairing; only for the metrics that are defined without one."""


class NoGold(IntEnum):
    """How a query that expects nothing is treated."""

    SKIP = 1
    """It is left out of the mean, and counted."""
    ZERO = 2
    """It scores 0."""
    ERROR = 3
    """The call is refused."""


class Unjudged(IntEnum):
    """How a retrieved document without a judgement in the qrels counts."""

    NON_RELEVANT = 1
    """Not relevant, as in trec_eval."""
    CONDENSED = 2
    """Removed from the ranking before it is measured (Sakai 2007)."""
    BOUNDS = 3
    """Not relevant, with bounds on the mean that judging such documents could give."""


class CacheMode(IntEnum):
    """How the server's verdict cache is used."""

    USE = 1
    """Read cached verdicts, and store new ones."""
    REFRESH = 2
    """Ignore cached verdicts, and store new ones."""
    ONLY = 3
    """Ask no model: a verdict that is not cached is an error with the reason NOT_CACHED."""


class ClaimVerdict(IntEnum):
    """What the contexts say of a claim."""

    SUPPORTED = 1
    """They support it."""
    CONTRADICTED = 2
    """They contradict it."""
    NOT_ENOUGH_INFO = 3
    """They do neither."""


class IntervalMethod(IntEnum):
    """How an interval is made."""

    PERCENTILE = 1
    """Percentiles of the means of resampled queries (Efron 1979)."""
    BCA = 2
    """Percentiles corrected for bias and skewness (Efron 1987)."""
    T = 3
    """Mean and standard error under Student's t."""


@dataclass(frozen=True)
class IntervalOptions:
    """The interval to compute. `resamples` and `seed` are those of the bootstrap; T has none."""

    method: IntervalMethod = IntervalMethod.PERCENTILE
    confidence: float = 0.95
    resamples: int = 10_000
    seed: int = 0

    @property
    def signature(self) -> str:
        """How the interval is computed, in one stable line."""
        confidence = f"confidence:{self.confidence:.12g}"
        if self.method is IntervalMethod.T:
            return f"t|{confidence}|v1"
        name = self.method.name.lower()
        return f"bootstrap:{name}|resamples:{self.resamples}|seed:{self.seed}|{confidence}|v2"


@dataclass(frozen=True)
class Interval:
    """A confidence interval. `signature` says how it was computed."""

    lower: float
    upper: float
    confidence: float
    standard_error: float
    signature: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Estimate:
    """A number with its interval; each is None if the data leave it undefined."""

    value: float | None = None
    interval: Interval | None = None

    @property
    def known(self) -> Estimate | None:
        """The estimate; None if it has no value."""
        return None if self.value is None else self


def ends_of(interval: Interval | None) -> dict[str, float | None]:
    """Return the ends of an interval as cells of a row; None without an interval."""
    if interval is None:
        return {"lower": None, "upper": None}
    return {"lower": interval.lower, "upper": interval.upper}


def estimate_names(kind: Any) -> tuple[str, ...]:  # noqa: ANN401 - a dataclass, or one of its values
    """Return the names of the fields that are estimates, or None."""
    return tuple(part.name for part in fields(kind) if part.type == "Estimate | None")


def estimates_of(value: Any) -> dict[str, Estimate | None]:  # noqa: ANN401 - a dataclass
    """Return the fields of a value that are estimates, or None, by name."""
    return {name: getattr(value, name) for name in estimate_names(value)}


@dataclass(frozen=True, repr=False)
class HumanLabels(Given, View):
    """Human decisions on every context of some rankings.

    `relevant` has the rankings one after another in the order of `query_ids`, each retrieved-major.
    Draw 200 or more rankings for labelling at random: the correction is valid only for such labels.
    If they were drawn with unequal probabilities, `inclusion_probabilities` has that of each.
    """

    query_ids: Sequence[str]
    relevant: Sequence[bool]
    inclusion_probabilities: Sequence[float] = ()


@dataclass(frozen=True, repr=False)
class CorrectedEstimate(View):
    """A mean corrected for the judge's error (prediction-powered inference, PPI++).

    `corrected` is None with fewer than two labelled queries. `naive` is the mean of the machine's
    values, `labels_only` that of the human ones. `power` is the weight of the machine's values,
    from 0 to 1. `half_width_with_more` is not set.
    """

    corrected: Estimate | None
    naive: Estimate | None
    labels_only: Estimate | None
    n_labelled: int
    n: int
    power: float
    warnings: tuple[str, ...] = ()
    half_width_with_more: float | None = None


def shared_warnings(
    what: str, warned: Mapping[str, Interval | CorrectedEstimate | None]
) -> Iterator[str]:
    """Yield each warning once, after `what` and the names of its numbers unless all share it."""
    found: dict[str, list[str]] = {}
    for name, one in warned.items():
        for warning in () if one is None else one.warnings:
            found.setdefault(warning, []).append(name)
    for warning, names in found.items():
        of_some = "" if len(names) == len(warned) else f" of {', '.join(names)}"
        yield f"{what}{of_some}: {warning}"


def is_metric(asked: str, name: str, signature: str) -> bool:
    """Return whether `asked` means the metric with this name and signature.

    It may include parameters that the name leaves out because they have their defaults.
    """
    (metric, given), (of, shown) = _read(asked), _read(name)
    every = {part.replace(":", "=") for part in signature.split("|")}
    return asked == name or (metric == of and bool(given) and shown <= given <= every)


def _read(name: str) -> tuple[str, set[str]]:
    """Return a metric with its cutoff, and its parameters."""
    metric, _, rest = name.partition("(")
    parameters, _, cutoff = rest.partition(")")
    return metric + cutoff, set(parameters.split(",") if parameters else ())
