"""Scores of contexts, and verdicts on them, in columns.

Nobody writes to a value, or to an array in it, after it is made. Columns, which every call makes,
are not frozen: a frozen one takes six times as long to make.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from judged.values.choices import Flag, Source, Status
from judged.values.judges import Usage
from judged.values.verdicts import VerdictCounts, VerdictSample
from numpy.typing import NDArray

from judged_server.domain.arrays import BoolArray, ByteArray, FloatArray

TIE_TOLERANCE = 1e-9
"""Added to a score before it is compared, so that one printed equal to the threshold passes."""


_Column = TypeVar("_Column", FloatArray, ByteArray, BoolArray)


@dataclass(frozen=True, slots=True)
class VerdictFault:
    """Why one verdict is missing: a reason of ErrorReason, and a message."""

    index: int
    reason: str
    message: str
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class VerdictDetail:
    """How a language model came to the verdict at `index`."""

    index: int
    rationale: str
    samples: tuple[VerdictSample, ...]
    usage: Usage
    model: str
    system_fingerprint: str


@dataclass(slots=True)
class ScoreColumns:
    """What a judge returns: one score a context, the groups in order, each retrieved-major.

    `scores` is float64 in [0, 1] where the status is OK and 0 elsewhere. `statuses` (uint8 of
    Status) and `flags` (uint8 of Flag) are None when every entry is OK, or unflagged. A judge that
    votes also gives `majorities`, whether most votes said yes, and `agreements`, float64 in [0, 1];
    one that asks a language model `usage`, `sources` (uint8 of Source, None when all were computed)
    and, if asked for, `details` in ascending index. A calibrated judge gives `probabilities`,
    float64 in [0, 1], 0 where the status is not OK. A cascade says which of its `stages` settled
    each (uint8, from 1; 0 where none did).
    """

    scores: FloatArray
    statuses: ByteArray | None = None
    flags: ByteArray | None = None
    faults: tuple[VerdictFault, ...] = ()
    majorities: BoolArray | None = None
    agreements: FloatArray | None = None
    details: tuple[VerdictDetail, ...] = ()
    usage: Usage | None = None
    sources: ByteArray | None = None
    probabilities: FloatArray | None = None
    stages: ByteArray | None = None

    @property
    def ok(self) -> BoolArray:
        """bool: which contexts have a verdict."""
        if self.statuses is None:
            return np.ones(len(self.scores), np.bool_)
        ok: BoolArray = self.statuses == Status.OK
        return ok

    def filled(self, name: str) -> NDArray[Any]:
        """Return a column; where it is None, what that stands for in every entry."""
        column: NDArray[Any] | None = getattr(self, name)
        return np.full(len(self.scores), _ABSENT[name]) if column is None else column

    def compact(self) -> ScoreColumns:
        """Return these columns, just made, without those that None stands for."""
        for name, absent in _ABSENT.items():
            column = getattr(self, name)
            if column is not None and (column == absent).all():
                setattr(self, name, None)
        return self


_ABSENT = {
    "statuses": np.uint8(Status.OK),
    "flags": np.uint8(Flag.NONE),
    "sources": np.uint8(Source.COMPUTED),
    "majorities": np.True_,
}
"""What None stands for in the columns that may be left out."""


@lru_cache(maxsize=1024)
def min_passing_score(min_score: float) -> FloatArray:
    """Return the smallest score that with TIE_TOLERANCE is not below a threshold, as float64[].

    One comparison then says of each score what a sum and a comparison would, rounding included:
    in a small request each operation of NumPy takes ten microseconds. As an array it saves the
    conversion of a number.
    """
    fails, passes = min_score - 1, min_score
    while fails < (middle := (fails + passes) / 2) < passes:  # until they are neighbours
        if middle + TIE_TOLERANCE >= min_score:
            passes = middle
        else:
            fails = middle
    return np.array(passes)


@dataclass(slots=True)
class Verdicts:
    """Scores with the threshold applied, as a reply carries them.

    `offsets` has a place more than there are groups; `sources` is None when all were computed.
    """

    relevant: BoolArray
    columns: ScoreColumns
    offsets: Sequence[int]
    sources: ByteArray | None = None

    @classmethod
    def decide(cls, columns: ScoreColumns, offsets: Sequence[int], min_score: float) -> Verdicts:
        """Return the verdicts of `columns` under a threshold; only OK scores can be relevant.

        Where there was a vote, most votes must have said yes as well.
        """
        relevant = columns.scores >= min_passing_score(min_score)
        if columns.majorities is not None:
            relevant &= columns.majorities
        if columns.statuses is not None:
            relevant &= columns.statuses == Status.OK
        return cls(relevant, columns, offsets, columns.sources)

    def of_groups(self, begin: int, end: int) -> Verdicts:
        """Return the verdicts of the groups from `begin` up to, not including, `end`.

        What the whole took is not told of a part.
        """
        first, last = self.offsets[begin], self.offsets[end]
        columns, part = self.columns, slice(first, last)
        faults = (fault for fault in columns.faults if first <= fault.index < last)
        details = (detail for detail in columns.details if first <= detail.index < last)
        return Verdicts(
            self.relevant[part],
            ScoreColumns(
                columns.scores[part],
                _part(columns.statuses, part),
                _part(columns.flags, part),
                tuple(replace(fault, index=fault.index - first) for fault in faults),
                _part(columns.majorities, part),
                _part(columns.agreements, part),
                tuple(replace(detail, index=detail.index - first) for detail in details),
                probabilities=_part(columns.probabilities, part),
                stages=_part(columns.stages, part),
            ),
            [offset - first for offset in self.offsets[begin : end + 1]],
            _part(self.sources, part),
        )


def _part(column: _Column | None, part: slice) -> _Column | None:
    return None if column is None else column[part]


_COUNTED_FLAGS = (
    Flag.NO_TOKENS,
    Flag.TRUNCATED,
    Flag.RESERVED_TOKENS,
    Flag.FALLBACK,
    Flag.UNKNOWN_TOKENS,
)


def counts_of(verdicts: Verdicts) -> VerdictCounts:
    """Return how many verdicts have each status, and how many carry a flag worth knowing."""
    statuses, flags = verdicts.columns.statuses, verdicts.columns.flags
    ok, error, abstained, not_assessable = len(verdicts.relevant), 0, 0, 0
    if statuses is not None:
        ok, error, abstained, not_assessable = np.bincount(
            statuses, minlength=len(Status) + 1
        ).tolist()[1:]
    flagged = [
        0 if flags is None else int(np.count_nonzero(flags & flag)) for flag in _COUNTED_FLAGS
    ]
    relevant = int(np.count_nonzero(verdicts.relevant))
    return VerdictCounts(ok, error, abstained, not_assessable, relevant, *flagged)
