"""Verdicts of an evaluation as what metrics are computed of, part by part and joined."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from judged.values.choices import Status

from judged_server.domain import BoolArray, FloatArray, IntArray, Verdicts
from judged_server.metrics.grades import grades_of
from judged_server.metrics.input.judged_ids import JudgedIds
from judged_server.metrics.matching import JudgedResults
from judged_server.usecases.distinct_groups import Part


def results_of(part: Part, verdicts: Verdicts, max_grade: int, *, own: bool) -> JudgedResults:
    """Return the results of a part by one of its judges, its `own` or one of a family of metrics.

    The grades of the own judge, where it gives some, are the gains.
    """
    groups = part.asked if own else part.groups
    max_grade = max_grade if own else 0
    statuses = verdicts.columns.statuses
    n_retrieved: IntArray = np.array([group.n_retrieved for group in groups], np.int64)
    n_expected: IntArray = np.array([group.n_expected for group in groups], np.int64)
    open_ended: BoolArray | None = None
    if own and part.open_ended is not None:
        open_ended = np.array(part.open_ended, np.bool_)
    return JudgedResults(
        verdicts.relevant,
        n_retrieved,
        n_expected,
        None if statuses is None else statuses != Status.OK,
        gains=grades_of(verdicts.columns.scores, max_grade) if max_grade else None,
        max_grade=max_grade,
        judged_ids=part.judged_ids,
        open_ended=open_ended,
    )


def join(parts: Sequence[JudgedResults], begins: IntArray, n_dropped: int) -> JudgedResults:
    """Return the results of all parts as one.

    `begins` are the groups, counted over all parts, that continue no other; `n_dropped` the
    duplicates that were dropped.
    """
    missing: BoolArray | None = None
    if any(part.missing is not None for part in parts):
        missing = np.concatenate(
            [
                np.zeros(len(part.relevant), np.bool_) if part.missing is None else part.missing
                for part in parts
            ]
        )
    gains: FloatArray | None = None
    max_grade = max(part.max_grade for part in parts)
    if max_grade:
        # A part that has none was matched by id before there was anything to judge.
        none = np.zeros(0)
        gains = np.concatenate([none if part.gains is None else part.gains for part in parts])
    judged_ids: JudgedIds | None = None
    if any(part.judged_ids is not None for part in parts):
        of_parts = [
            part.judged_ids or JudgedIds.none(len(part.n_retrieved), int(part.n_retrieved.sum()))
            for part in parts
        ]
        judged_ids = JudgedIds.join(of_parts, begins)
    open_ended: BoolArray | None = None
    if any(part.open_ended is not None for part in parts):
        every = [part.is_open_ended(np.arange(len(part.n_expected))) for part in parts]
        open_ended = np.concatenate(every)[begins]
    return JudgedResults(
        np.concatenate([part.relevant for part in parts]),
        np.add.reduceat(np.concatenate([part.n_retrieved for part in parts]), begins),
        np.concatenate([part.n_expected for part in parts])[begins],
        missing,
        n_dropped,
        gains,
        max_grade,
        judged_ids,
        open_ended,
    )
