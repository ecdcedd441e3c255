"""Reads verdicts from replies, with what language models said and what they took."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from judged._codec import read_fields
from judged._transport.status import in_python, may_retry
from judged.errors import JudgedError
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import verdicts_pb2
from judged.v1.error_reason_pb2 import ErrorReason
from judged.values.choices import Source, Status
from judged.values.groups import QueryGroup
from judged.values.judges import JudgeIdentity, Usage
from judged.values.verdicts import (
    VerdictDetail,
    VerdictError,
    Verdicts,
    VerdictSample,
)


def read_reason(number: int) -> str:
    """Return the name of a reason; one that a newer server gave, by its number."""
    if not number:
        return ""
    try:
        return ErrorReason.Name(number).removeprefix("ERROR_REASON_")  # type: ignore[arg-type]
    except ValueError:
        return f"REASON_{number}"


def read_error(message: verdicts_pb2.VerdictError) -> VerdictError:
    """Return why a verdict is missing."""
    said = in_python(message.message)
    return VerdictError(message.code, read_reason(message.reason), said, message.retryable)


def missing_for(error: JudgedError) -> VerdictError:
    """Return why a verdict is missing that a failed call was to bring."""
    return VerdictError(0, error.reason or error.code, error.message, may_retry(error))


_TYPES = {
    "relevant": "B",
    "score": "d",
    "status": "B",
    "source": "B",
    "flags": "I",
    "agreement": "d",
    "probability": "d",
    "stage": "B",
}
"""The columns of verdicts, with the types of arrays that hold them."""
_LEFT_OUT = {"status": int(Status.OK), "source": int(Source.COMPUTED), "flags": 0}
"""What all verdicts of a column have that is left empty."""


def read_verdicts(
    message: verdicts_pb2.VerdictColumns,
    judge: JudgeIdentity,
    usage: Usage | None = None,
    groups: Sequence[QueryGroup] = (),
    *,
    in_arrays: bool = False,
) -> Verdicts:
    """Return the verdicts of a reply; columns that were left empty are filled in.

    With `in_arrays` columns take a few bytes a verdict, where those of lists take some 60.
    """

    def column(kind: str, values: Sequence[Any]) -> Any:  # noqa: ANN401 - of either kind
        return array(kind, values) if in_arrays else list(values)

    columns: dict[str, Any] = {}
    for name, kind in _TYPES.items():
        values = getattr(message, name)
        if not values and name in _LEFT_OUT:
            values = [_LEFT_OUT[name]] * len(message.relevant)
        columns[name] = column(kind, values)
    return Verdicts(
        **columns,
        offsets=column("I", message.group_offsets),
        errors={error.index: read_error(error) for error in message.errors},
        judge=judge,
        details={detail.index: read_detail(detail) for detail in message.details},
        usage=usage,
        groups=groups,
    )


def usage_of(message: pb.BatchJudgeResponse | pb.JudgedChunk) -> Usage | None:
    """Return what a reply took of language models, None when none was asked."""
    return read_fields(Usage, message.usage) if message.HasField("usage") else None


def read_detail(message: verdicts_pb2.VerdictDetail) -> VerdictDetail:
    """Return how one verdict came about."""
    samples = [_read_sample(sample) for sample in message.samples]
    return read_fields(VerdictDetail, message, samples=samples)


def _read_sample(message: verdicts_pb2.VerdictSample) -> VerdictSample:
    votes = Status(message.status) is Status.OK
    return read_fields(
        VerdictSample,
        message,
        relevant=message.relevant if votes else None,
        score=message.score if votes else None,
        reason=read_reason(message.reason),
    )
