"""The verdicts of a cascade, as its stages settle them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from judged.values.choices import Flag, Source, Status

from judged_server.domain import (
    BoolArray,
    ByteArray,
    FloatArray,
    IntArray,
    ScoreColumns,
    Usage,
    VerdictDetail,
    VerdictFault,
)
from judged_server.judges.cascade_items import Stage

_UNKNOWN, _EXHAUSTED = 2, 8
"""gRPC's codes."""
_UNSETTLED = (
    "no stage of the cascade was sure of it; add a stage that settles everything, llm for "
    'instance, or ask for "unsettled": "earlier"'
)
_NO_MONEY = (
    "the items most in doubt used up max_cost before its turn; allow more, or ask for "
    '"unsettled": "earlier"'
)


class MergedVerdicts:
    """The verdicts of all contexts, as the stages settle them."""

    def __init__(self, n: int) -> None:
        self._left: BoolArray = np.ones(n, np.bool_)
        self._scores: FloatArray = np.zeros(n)
        self._majorities: BoolArray = np.ones(n, np.bool_)
        self._probabilities: FloatArray = np.zeros(n)
        self._calibrated = True
        self._statuses: ByteArray = np.full(n, Status.ABSTAINED, np.uint8)
        self._flags: ByteArray = np.zeros(n, np.uint8)
        self._sources: ByteArray = np.full(n, Source.COMPUTED, np.uint8)
        self._stages: ByteArray = np.zeros(n, np.uint8)
        self._faults: dict[int, VerdictFault] = {}
        self._details: dict[int, VerdictDetail] = {}

    def take(
        self, number: int, stage: Stage, columns: ScoreColumns, settled: BoolArray, places: IntArray
    ) -> None:
        """Take in what a stage says of the contexts at some places, and which of them it settles.

        What it does not settle it says for the time being: a later stage writes over it. Where a
        stage has no verdict, that of an earlier one is not lost.
        """
        ok = columns.ok
        at = places[ok]
        calibrated = stage.calibrator is not None and columns.probabilities is not None
        scores = columns.probabilities if calibrated else columns.scores
        self._scores[at] = columns.scores[ok] if scores is None else scores[ok]
        self._majorities[at] = True if columns.majorities is None else columns.majorities[ok]
        if columns.probabilities is None:
            self._calibrated = False
        else:
            self._probabilities[at] = columns.probabilities[ok]
        self._flags[at] = 0 if columns.flags is None else columns.flags[ok]
        if columns.sources is not None:
            self._sources[places] = columns.sources
        self._stages[at] = number
        self._statuses[places[settled & ok]] = Status.OK
        if columns.statuses is not None:
            self._statuses[places[~ok]] = columns.statuses[~ok]
        for fault in columns.faults:
            place = int(places[fault.index])
            self._faults[place] = replace(fault, index=place)
        for detail in columns.details:
            place = int(places[detail.index])
            self._details[place] = replace(detail, index=place)
        self._left[places[settled]] = False

    def give_up(self, places: IntArray) -> None:
        """Note that the money did not reach contexts on which an earlier stage has a verdict."""
        for place in places[self._stages[places] > 0].tolist():
            self._faults[place] = VerdictFault(place, _EXHAUSTED, "BUDGET", _NO_MONEY)

    def columns(self, usage: Usage | None, *, keeps_earlier: bool) -> ScoreColumns:
        """Return the verdicts; what nothing settled abstains, or is that of an earlier stage."""
        for place in np.flatnonzero(self._left & (self._stages > 0)).tolist():
            if keeps_earlier:
                self._statuses[place] = Status.OK
                self._flags[place] |= Flag.UNSETTLED
                continue
            self._statuses[place] = Status.ABSTAINED
            if place not in self._faults:
                self._faults[place] = VerdictFault(place, _UNKNOWN, "UNSETTLED", _UNSETTLED)
        ok = self._statuses == Status.OK
        faults = [self._faults[place] for place in sorted(self._faults) if not ok[place]]
        return ScoreColumns(
            np.where(ok, self._scores, 0.0),
            None if ok.all() else self._statuses,
            self._flags if self._flags.any() else None,
            tuple(faults),
            majorities=None if self._majorities.all() else self._majorities,
            details=tuple(self._details[place] for place in sorted(self._details)),
            usage=usage,
            sources=self._sources if (self._sources != Source.COMPUTED).any() else None,
            probabilities=np.where(ok, self._probabilities, 0.0) if self._calibrated else None,
            stages=np.where(ok, self._stages, 0).astype(np.uint8),
        )
