"""Verdicts of an evaluation as what metrics are computed of, part by part and joined."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from judged_server.domain import BoolArray, FloatArray, IntArray, Status, Verdicts
from judged_server.metrics.grades import grades_of
from judged_server.metrics.matching import JudgedResults, match_ids
from judged_server.usecases.distinct_groups import Part


def results_of(part: Part, verdicts: Verdicts, max_grade: int) -> JudgedResults:
    """Return the results of a part, with grades where the judge gives some.

    A group that is matched by id has the highest grade for its relevant documents.
    """
    gains = grades_of(verdicts.columns.scores, max_grade) if max_grade else None
    statuses = verdicts.columns.statuses
    missing: BoolArray | None = None if statuses is None else statuses != Status.OK
    n_retrieved: IntArray = np.array([group.n_retrieved for group in part.groups], np.int64)
    n_expected: IntArray = np.array([group.n_expected for group in part.groups], np.int64)
    if not any(part.by_id):
        return JudgedResults(
            verdicts.relevant, n_retrieved, n_expected, missing, gains=gains, max_grade=max_grade
        )
    relevant_parts: list[BoolArray] = []
    missing_parts: list[BoolArray] = []
    gains_parts: list[FloatArray] = []
    for index, group in enumerate(part.groups):
        verdicts_of = slice(verdicts.offsets[index], verdicts.offsets[index + 1])
        if part.by_id[index]:
            targets = list(dict.fromkeys(group.relevant_document_ids))
            n_expected[index] = len(targets)
            relevant_parts.append(match_ids(part.document_ids(index), targets))
            missing_parts.append(np.zeros(len(relevant_parts[-1]), np.bool_))
            gains_parts.append(relevant_parts[-1].astype(np.float64) * max_grade)
        else:
            relevant_parts.append(verdicts.relevant[verdicts_of])
            n = len(relevant_parts[-1])
            missing_parts.append(np.zeros(n, np.bool_) if missing is None else missing[verdicts_of])
            if gains is not None:
                gains_parts.append(gains[verdicts_of])
    return JudgedResults(
        np.concatenate(relevant_parts),
        n_retrieved,
        n_expected,
        None if missing is None else np.concatenate(missing_parts),
        gains=None if gains is None else np.concatenate(gains_parts),
        max_grade=max_grade,
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
        gains = np.concatenate(
            [
                part.relevant.astype(np.float64) * max_grade if part.gains is None else part.gains
                for part in parts
            ]
        )
    return JudgedResults(
        np.concatenate([part.relevant for part in parts]),
        np.add.reduceat(np.concatenate([part.n_retrieved for part in parts]), begins),
        np.concatenate([part.n_expected for part in parts])[begins],
        missing,
        n_dropped,
        gains,
        max_grade,
    )
