"""Judges, their options and identities, and the usage of language models."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest
from typing import Any, TypeVar, cast

from judged._inputs import as_list, set_fields
from judged._views import View
from judged.values.calibrators import Calibrator, ErrorGuarantee, Shift, find_shift
from judged.values.choices import CacheMode

Scalar = bool | int | float | str
"""The value of a parameter of a judge."""
Counts = TypeVar("Counts", "StageUsage", "CascadeUsage", "Usage", "CostEstimate")


@dataclass(frozen=True)
class Judge:
    """A judge with your overrides. Without a kind, it is the server's default.

    `members` are the judges of a `panel`; a string is a kind. A `calibration` adds a probability to
    each verdict; a string is the name of one that the server has. `guarantee` is a cascade's, as
    `calibrate_cascade` made it; replies repeat it.
    """

    kind: str = ""
    profile: str = ""
    min_score: float | None = None
    parameters: Mapping[str, Scalar] = field(default_factory=dict)
    members: Sequence[PanelMember | Judge | str] = ()
    calibration: Calibrator | str | None = None
    guarantee: ErrorGuarantee | None = None

    def __post_init__(self) -> None:
        members = as_list(self.members)
        if isinstance(members, list | tuple):
            members = tuple(
                PanelMember(each) if isinstance(each, Judge | str) else each for each in members
            )
        set_fields(self, members=members)

    @property
    def panel(self) -> Sequence[PanelMember]:
        """The members, each with its weight."""
        return cast("Sequence[PanelMember]", self.members)


@dataclass(frozen=True)
class PanelMember:
    """A judge of a panel. Its weight is used by the profile `weighted`; None means 1."""

    judge: Judge | str
    weight: float | None = None

    def __post_init__(self) -> None:
        set_fields(self, judge=to_judge(self.judge))


def to_judge(judge: PanelMember | Judge | str) -> Judge:
    """Return the Judge of a panel member, or of a kind."""
    if isinstance(judge, PanelMember):
        return to_judge(judge.judge)
    return Judge(judge) if isinstance(judge, str) else judge


@dataclass(frozen=True)
class JudgeIdentity:
    """The identity of a judge that ran, precise enough to repeat it.

    `scoring_key` is a SHA-256 in hex over everything that can change a score; `fingerprint` also
    covers min_score; `signature` is a readable form of both, in one stable line. `max_grade` is the
    highest grade of a judge that gives grades (score times max_grade), 0 for others. Two identities
    are equal if their fingerprints are.
    """

    kind: str = field(compare=False)
    profile: str = field(compare=False)
    min_score: float = field(compare=False)
    signature: str = field(compare=False)
    scoring_key: str = field(compare=False)
    fingerprint: str
    max_grade: int = field(default=0, compare=False)

    @classmethod
    def build(
        cls,
        kind: str,
        profile: str,
        min_score: float,
        parts: Sequence[tuple[str, str]],
        version: int,
        secret_parts: Sequence[tuple[str, str]] = (),
    ) -> JudgeIdentity:
        """Return the identity of a judge from its printable parts, in the order they print.

        `secret_parts` are part of the key but too long to print, such as full file hashes. Fields
        are length-prefixed, so that different lists of parts never share a key.
        """
        digest = hashlib.sha256()
        head = [("kind", kind), ("profile", profile), ("version", str(version))]
        for text in chain.from_iterable([*head, *parts, *secret_parts]):
            raw = text.encode()
            digest.update(len(raw).to_bytes(8, "big") + raw)
        scoring_key = digest.hexdigest()
        fingerprint = hashlib.sha256(f"{scoring_key}|{min_score!r}".encode()).hexdigest()
        shown = [("profile", profile)] if profile else []
        shown += [*parts, ("min_score", format(min_score, ".12g"))]
        printed = "|".join([kind, *map(":".join, shown), f"v{version}"])
        return cls(kind, profile, min_score, printed, scoring_key, fingerprint)

    def calibrated(self, calibrator: Calibrator) -> JudgeIdentity:
        """Return the identity of the judge with a calibration: its scores are the same."""
        sha256 = calibrator.sha256
        head, threshold, tail = self.signature.rpartition("|min_score:")
        printed = f"{head}|calibration:{sha256[:8]}{threshold}{tail}"
        raw = f"{self.scoring_key}|{self.min_score!r}|{sha256}"
        return replace(
            self, signature=printed, fingerprint=hashlib.sha256(raw.encode()).hexdigest()
        )


@dataclass(frozen=True)
class Asking:
    """How language models are asked; judges that ask none ignore it.

    `max_cost` is the most that the models may cost, above 0, in the currency of the server's
    prices; None means only the server's own limits. Calls that could exceed it are not made. It
    applies to the call as a whole: of several messages, each gets what the earlier ones left.
    """

    cache: CacheMode = CacheMode.USE
    max_cost: float | None = None


@dataclass(frozen=True)
class StageUsage:
    """The items that one stage of a cascade was asked about and settled, and its cost.

    An item is one retrieved text with all expected ones. `cost` is None without a price.
    """

    judge: str
    asked: int = 0
    settled: int = 0
    cost: float | None = 0.0

    def __add__(self, other: StageUsage) -> StageUsage:
        """Return the sum."""
        return _summed(self, other, judge=self.judge)


@dataclass(frozen=True)
class CascadeUsage:
    """The usage of a whole cascade, real or estimated.

    `avoided_cost` is the most that the calls which it avoided would have cost, None if a price is
    not configured. `guarantee` is the one that it was asked with; `shift` says whether it holds for
    these data, by the `counts` of their items.
    """

    stages: tuple[StageUsage, ...]
    avoided_cost: float | None = None
    guarantee: ErrorGuarantee | None = None
    counts: Sequence[int] = field(default=(), repr=False)

    def __add__(self, other: CascadeUsage) -> CascadeUsage:
        """Return the sum; both must be of the same cascade."""
        return _summed(
            self,
            other,
            stages=tuple(a + b for a, b in zip(self.stages, other.stages, strict=True)),
            counts=tuple(map(sum, zip_longest(self.counts, other.counts, fillvalue=0))),
            guarantee=self.guarantee,
        )

    @property
    def shift(self) -> Shift | None:
        """Whether these data differ from the labels of the guarantee; None without a guarantee."""
        return None if self.guarantee is None else find_shift(self.guarantee, self.counts)

    @property
    def unsettled(self) -> int:
        """The number of items that no stage settled."""
        asked = self.stages[0].asked if self.stages else 0
        return asked - sum(stage.settled for stage in self.stages)


def _summed(one: Counts, other: Counts, **others: Any) -> Counts:  # noqa: ANN401 - fields
    """Return a value with the sums of all fields, and `others` as given.

    The sum of a number and None is None; that of a cascade and None is the cascade.
    """
    for (name, a), b in zip(vars(one).items(), vars(other).values(), strict=True):
        if name not in others:
            if a is not None and b is not None:
                others[name] = a + b
            else:
                others[name] = (a or b) if name == "cascade" else None
    return type(one)(**others)


@dataclass(frozen=True)
class Usage:
    """The usage of language models: `calls` were answered, `attempts` were made.

    `cost` is in the currency of the server's prices, None if a price is not configured. `latency_s`
    is summed over the calls. `cached` samples came from the verdict cache, `shared` ones from an
    identical call of another caller at that moment. `avoided_calls` were not made, because an
    earlier stage of a cascade settled the item; `cascade` is the usage of its stages, None for
    other judges. For `estimated` calls, the provider reported no plausible token counts: they count
    with the most that they can have, as do requests without a reply. `left_out` names other fields
    of replies that were ignored because their values are implausible.
    """

    calls: int = 0
    attempts: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    latency_s: float = 0.0
    cached: int = 0
    shared: int = 0
    avoided_calls: int = 0
    cascade: CascadeUsage | None = None
    estimated: int = 0
    left_out: tuple[str, ...] = ()

    def __add__(self, other: Usage) -> Usage:
        """Return the sum."""
        left_out = self.left_out
        if other.left_out != left_out:
            left_out = tuple(sorted({*left_out, *other.left_out}))
        return _summed(self, other, left_out=left_out)

    @property
    def reported(self) -> Usage:
        """The usage for documents: without a guarantee that does not hold for the data."""
        cascade = self.cascade
        if cascade is None or cascade.shift is None or not cascade.shift.unlike:
            return self
        return replace(self, cascade=replace(cascade, guarantee=None))


@dataclass(frozen=True, repr=False)
class CostEstimate(View):
    """The most that judging or scoring would use, without retries; no model was asked.

    For answers, `contexts` counts pairs of an item and a rubric. `cache_hits` is the number of
    samples in the server's cache. `cost` is in `currency`: 0 without calls, None if a price is not
    configured. Work in several messages is summed, so that a text in two of them counts twice among
    `distinct_texts`.
    """

    contexts: int = 0
    distinct_texts: int = 0
    cache_hits: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    currency: str = ""
    cascade: CascadeUsage | None = None

    def __add__(self, other: CostEstimate) -> CostEstimate:
        """Return the sum."""
        return _summed(self, other, currency=self.currency or other.currency)
