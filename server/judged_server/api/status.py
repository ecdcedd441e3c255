"""THE table from domain errors to gRPC statuses, and the status details that go with them.

Domain errors are defined in `judged_server.errors`.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from dataclasses import dataclass

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.message import Message
from judged.internal.v1 import status_pb2

from judged_server import errors
from judged_server.domain import VerdictFault
from judged_server.telemetry import logger

DOMAIN = "judged"
STATUS_TRAILER = "grpc-status-details-bin"
PUSHBACK_TRAILER = "grpc-retry-pushback-ms"

TABLE: dict[type[errors.JudgedError], grpc.StatusCode] = {
    errors.InvalidField: grpc.StatusCode.INVALID_ARGUMENT,
    errors.LimitExceeded: grpc.StatusCode.INVALID_ARGUMENT,
    errors.MalformedMessage: grpc.StatusCode.INVALID_ARGUMENT,
    errors.Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    errors.UnknownJudge: grpc.StatusCode.NOT_FOUND,
    errors.UnknownRubric: grpc.StatusCode.NOT_FOUND,
    errors.ModelNotInstalled: grpc.StatusCode.FAILED_PRECONDITION,
    errors.ModelNotConfigured: grpc.StatusCode.FAILED_PRECONDITION,
    errors.BudgetExhausted: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.ModelDamaged: grpc.StatusCode.FAILED_PRECONDITION,
    errors.DeadlineExceeded: grpc.StatusCode.DEADLINE_EXCEEDED,
    errors.DeadlineTooShort: grpc.StatusCode.DEADLINE_EXCEEDED,
    errors.Overloaded: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.TenantLimit: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.AuthenticationLimit: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.Draining: grpc.StatusCode.UNAVAILABLE,
    errors.InternalFault: grpc.StatusCode.INTERNAL,
}

_MEMORY_BACK_AFTER_S = 1.0

_log = logger("fault")


@dataclass(frozen=True, slots=True)
class WireError:
    """A failure as gRPC sends it: code, message, and trailing metadata with the details."""

    code: grpc.StatusCode
    message: str
    trailers: tuple[tuple[str, str | bytes], ...]
    reason: str


def code_of(error: errors.JudgedError) -> grpc.StatusCode:
    """Return the status code of a domain error; a class the table lacks is a bug, INTERNAL."""
    return TABLE.get(type(error), grpc.StatusCode.INTERNAL)


def internal_fault(error: BaseException) -> errors.InternalFault | errors.Overloaded:
    """Log a bug under a new reference and return the error that names the reference.

    A want of memory is no bug: less at once, or the same a moment later, may go.
    """
    if isinstance(error, MemoryError):
        _log.error("out of memory")
        return errors.Overloaded(
            "the server's memory did not suffice for this; send less at once, or try again later",
            _MEMORY_BACK_AFTER_S,
        )
    ref = secrets.token_hex(8)
    _log.error("bug", ref=ref, exc_info=error)
    return errors.InternalFault(ref)


def wire_error(error: BaseException) -> WireError | None:
    """Return what the caller is told; None for what is not a failure of the call, as a cancel."""
    if isinstance(error, errors.JudgedError):
        return to_wire(error)
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is None or task.cancelling():
            return None
        # Nobody cancelled this call: a cancelled child leaked. Swallowing it here is what keeps
        # the caller from waiting for a reply that never comes.
    elif isinstance(error, grpc.aio.AbortError | KeyboardInterrupt | SystemExit):
        return None
    return to_wire(internal_fault(error))


def to_wire(error: errors.JudgedError) -> WireError:
    """Return the status, the details and the trailers of a domain error."""
    code = code_of(error)
    details: list[Message] = [
        status_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=error.metadata)
    ]
    trailers: list[tuple[str, str | bytes]] = []
    if isinstance(error, errors.InvalidField):
        violation = status_pb2.BadRequest.FieldViolation(field=error.field, description=error.rule)
        details.append(status_pb2.BadRequest(field_violations=[violation]))
    elif isinstance(error, errors.UnknownJudge):
        details.append(
            status_pb2.ResourceInfo(
                resource_type="judge", resource_name=error.kind[:80], description=error.message
            )
        )
    elif isinstance(error, errors.UnknownRubric):
        details.append(
            status_pb2.ResourceInfo(
                resource_type="rubric", resource_name=error.rubric[:80], description=error.message
            )
        )
    elif isinstance(error, errors.BudgetExhausted):
        details.append(_quota(f"budget:{error.budget}", error))
    elif isinstance(error, errors.TenantLimit):
        details.append(_quota(f"tenant:{error.limit}", error))
    if isinstance(error, errors.Retryable):
        retry = status_pb2.RetryInfo()
        retry.retry_delay.FromNanoseconds(int(error.retry_after_s * 1e9))
        details.append(retry)
        trailers.append((PUSHBACK_TRAILER, str(math.ceil(error.retry_after_s * 1000))))
    status = status_pb2.Status(code=code.value[0], message=error.message)
    for detail in details:
        name = type(detail).DESCRIPTOR.name
        status.details.append(
            Any(type_url=f"type.googleapis.com/google.rpc.{name}", value=detail.SerializeToString())
        )
    trailers.append((STATUS_TRAILER, status.SerializeToString()))
    return WireError(code, error.message, tuple(trailers), error.reason)


def _quota(subject: str, error: errors.JudgedError) -> status_pb2.QuotaFailure:
    violation = status_pb2.QuotaFailure.Violation(subject=subject, description=error.message)
    return status_pb2.QuotaFailure(violations=[violation])


def fault_of(error: Exception) -> tuple[errors.JudgedError, VerdictFault]:
    """Return what a failure is for a whole stream, and for one context of it."""
    failure = error if isinstance(error, errors.JudgedError) else internal_fault(error)
    retryable = isinstance(failure, errors.Retryable)
    code: int = code_of(failure).value[0]
    return failure, VerdictFault(0, code, failure.reason, failure.message, retryable)
