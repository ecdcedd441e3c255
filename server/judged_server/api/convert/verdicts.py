"""Between the messages of verdicts, and of scores, and the domain."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from itertools import accumulate
from typing import Any

import numpy as np
from judged._codec import write_fields
from judged.v1 import scores_pb2, verdicts_pb2
from judged.v1.error_reason_pb2 import ErrorReason
from judged.v1.judge_service_pb2 import BatchJudgeResponse
from judged.values.choices import Flag, Source, Status
from judged.values.judges import JudgeIdentity
from numpy.typing import NDArray

from judged_server import errors
from judged_server.api.convert.judging import write_identity
from judged_server.api.convert.values import need, need_all
from judged_server.api.status import fault_code
from judged_server.domain import (
    AnswerScore,
    BoolArray,
    ScoreColumns,
    VerdictDetail,
    VerdictFault,
    Verdicts,
    counts_of,
)


def reply_bytes(verdicts: Verdicts, identity: JudgeIdentity) -> bytes:
    """Return the BatchJudgeResponse that carries verdicts and tells which judge gave them."""
    return write_fields(
        BatchJudgeResponse,
        verdicts=write_verdicts(verdicts),
        judge=write_identity(identity),
        counts=counts_of(verdicts),
        usage=verdicts.columns.usage,
    ).SerializeToString()


def write_verdicts(verdicts: Verdicts) -> verdicts_pb2.VerdictColumns:
    """Return the message of verdicts; columns that say the same of all are left out."""
    columns = verdicts.columns
    return verdicts_pb2.VerdictColumns(
        relevant=verdicts.relevant.tolist(),
        score=columns.scores.tolist(),
        status=_unless_all(columns.statuses, Status.OK),
        source=_unless_all(verdicts.sources, Source.COMPUTED),
        flags=_unless_all(columns.flags, Flag.NONE),
        group_offsets=verdicts.offsets,
        agreement=None if columns.agreements is None else columns.agreements.tolist(),
        probability=None if columns.probabilities is None else columns.probabilities.tolist(),
        stage=None if columns.stages is None else columns.stages.tolist(),
        errors=map(write_fault, columns.faults),
        details=map(write_detail, columns.details),
    )


def _unless_all(column: NDArray[np.uint8] | None, same: int) -> Any:  # noqa: ANN401 - of enums
    return None if column is None or (column == same).all() else column.tolist()


def write_detail(detail: VerdictDetail) -> verdicts_pb2.VerdictDetail:
    """Return the message of how one verdict came about."""
    samples = [
        write_fields(verdicts_pb2.VerdictSample, each, reason=reason_number(each.reason))
        for each in detail.samples
    ]
    return write_fields(verdicts_pb2.VerdictDetail, detail, samples=samples)


def reason_number(name: str) -> ErrorReason.ValueType:
    """Return the value of the contract's enum that a reason of ours stands for."""
    return ErrorReason.Value(f"ERROR_REASON_{name or 'UNSPECIFIED'}")


def write_fault(fault: VerdictFault) -> verdicts_pb2.VerdictError:
    """Return the message of one missing verdict's reason."""
    reason = reason_number(fault.reason)
    code = fault_code(fault.reason)
    return write_fields(verdicts_pb2.VerdictError, fault, reason=reason, code=code)


def read_verdicts(
    message: verdicts_pb2.VerdictColumns, sizes: Sequence[int], field: str
) -> Verdicts:
    """Return verdicts that a caller sends back, for groups of `sizes` contexts.

    Decisions are taken as they are: the threshold was applied when they were made. Raises
    InvalidField when a column is of another length or holds a value no reply has.
    """
    offsets = list(accumulate(sizes, initial=0))
    total = offsets[-1]
    columns: dict[str, NDArray[np.float64]] = {}
    for name in ("relevant", "score", "status", "source", "flags", "agreement"):
        column = columns[name] = np.array(getattr(message, name), np.float64)
        fits = len(column) == total or (not len(column) and name != "relevant")
        need(fits, f"{field}.{name}", f"{len(column)} values for {total} contexts")
    for name in ("score", "agreement"):
        good = (columns[name] >= 0) & (columns[name] <= 1)
        need_all(good, f"{field}.{name}", "must be from 0 to 1")
    kinds: tuple[tuple[str, type[IntEnum], str], ...] = (
        ("status", Status, "VerdictStatus"),
        ("source", Source, "VerdictSource"),
    )
    for name, kind, called in kinds:
        rule = f"must be one of {errors.full_names(kind, called)}"
        need_all(np.isin(columns[name], list(kind)), f"{field}.{name}", rule)
    flags = columns["flags"].astype(np.int64)
    need_all((flags & ~sum(Flag)) == 0, f"{field}.flags", "must be a sum of known flags")
    agree = list(message.group_offsets) in ([], offsets)
    need(agree, f"{field}.group_offsets", "disagree with the sizes of the rankings")
    relevant: BoolArray = columns["relevant"].astype(np.bool_)
    statuses = columns["status"].astype(np.uint8) if len(columns["status"]) else None
    rule = "true where the status is not VERDICT_STATUS_OK"
    missing = statuses is not None and bool((relevant & (statuses != Status.OK)).any())
    need(not missing, f"{field}.relevant", rule)
    return Verdicts(
        relevant,
        ScoreColumns(
            columns["score"] if len(columns["score"]) else relevant.astype(np.float64),
            statuses,
            flags.astype(np.uint8) if len(flags) else None,
        ),
        offsets,
    )


def write_score(score: AnswerScore) -> scores_pb2.AnswerScore:
    """Return the message of one score of an answer; what is not known stays unset."""
    return write_fields(
        scores_pb2.AnswerScore,
        score,
        min_score=score.identity.min_score,
        error=None if score.fault is None else write_fault(score.fault),
    )
