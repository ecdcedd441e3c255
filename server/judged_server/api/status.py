"""THE table from domain errors to gRPC statuses, and the status details that go with them.

Domain errors are defined in `judged_server.errors`.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import typing
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.message import Message
from judged.internal.v1 import status_pb2

from judged_server import errors
from judged_server.domain import VerdictFault
from judged_server.telemetry import Logger

DOMAIN = "judged"
STATUS_TRAILER = "grpc-status-details-bin"
PUSHBACK_TRAILER = "grpc-retry-pushback-ms"

_Code = grpc.StatusCode

TABLE: dict[type[errors.JudgedError], grpc.StatusCode] = {
    errors.InvalidField: _Code.INVALID_ARGUMENT,
    errors.LimitExceeded: _Code.INVALID_ARGUMENT,
    errors.MalformedMessage: _Code.INVALID_ARGUMENT,
    errors.Unauthenticated: _Code.UNAUTHENTICATED,
    errors.UnknownJudge: _Code.NOT_FOUND,
    errors.UnknownRubric: _Code.NOT_FOUND,
    errors.ModelNotInstalled: _Code.FAILED_PRECONDITION,
    errors.ModelNotConfigured: _Code.FAILED_PRECONDITION,
    errors.BudgetExhausted: _Code.RESOURCE_EXHAUSTED,
    errors.ModelDamaged: _Code.FAILED_PRECONDITION,
    errors.DeadlineExceeded: _Code.DEADLINE_EXCEEDED,
    errors.DeadlineTooShort: _Code.DEADLINE_EXCEEDED,
    errors.Overloaded: _Code.RESOURCE_EXHAUSTED,
    errors.TenantLimit: _Code.RESOURCE_EXHAUSTED,
    errors.AuthenticationLimit: _Code.RESOURCE_EXHAUSTED,
    errors.Draining: _Code.UNAVAILABLE,
    errors.InternalFault: _Code.INTERNAL,
}


def _quota(subject: str, error: errors.JudgedError) -> Message:
    violation = status_pb2.QuotaFailure.Violation(subject=subject, description=error.message)
    return status_pb2.QuotaFailure(violations=[violation])


def _missing(kind: str, error: errors.JudgedError) -> Message:
    return status_pb2.ResourceInfo(
        resource_type=kind, resource_name=error.metadata[kind], description=error.message
    )


def _bad_request(error: errors.InvalidField) -> Message:
    violation = status_pb2.BadRequest.FieldViolation(field=error.field, description=error.rule)
    return status_pb2.BadRequest(field_violations=[violation])


def _retry(error: errors.Retryable) -> Message:
    retry = status_pb2.RetryInfo()
    retry.retry_delay.FromNanoseconds(int(error.retry_after_s * 1e9))
    return retry


DETAILS: dict[type[errors.JudgedError], Callable[[typing.Any], Message]] = {
    errors.InvalidField: _bad_request,
    errors.UnknownJudge: partial(_missing, "judge"),
    errors.UnknownRubric: partial(_missing, "rubric"),
    errors.BudgetExhausted: lambda error: _quota(f"budget:{error.metadata['budget']}", error),
    errors.TenantLimit: lambda error: _quota(f"tenant:{error.metadata['limit']}", error),
    errors.Retryable: _retry,
}
"""What errors of these classes carry beside their ErrorInfo."""

_OF_REASONS = {error.reason: code for error, code in TABLE.items()} | {
    "TIMEOUT": _Code.DEADLINE_EXCEEDED,
    "RATE_LIMITED": _Code.RESOURCE_EXHAUSTED,
    "BUDGET": _Code.RESOURCE_EXHAUSTED,
    "PROVIDER_UNREACHABLE": _Code.UNAVAILABLE,
    "PROVIDER_ERROR": _Code.UNAVAILABLE,
    "BREAKER_OPEN": _Code.UNAVAILABLE,
    "PROVIDER_REFUSED_KEY": _Code.FAILED_PRECONDITION,
    "NOT_CACHED": _Code.FAILED_PRECONDITION,
    "EMPTY_ANSWER": _Code.FAILED_PRECONDITION,
    "NO_CONTEXT": _Code.FAILED_PRECONDITION,
    "NO_CLAIMS": _Code.FAILED_PRECONDITION,
    "TEXT_TOO_LONG": _Code.INVALID_ARGUMENT,
    "EMBEDDING_FAILED": _Code.INTERNAL,
    "SCHEMA": _Code.INTERNAL,
    "REPLY_TRUNCATED": _Code.INTERNAL,
}
"""Codes of single verdicts that are missing; where a judge has none to give, it is UNKNOWN."""

_MEMORY_BACK_AFTER_S = 1.0

_log = Logger("fault")


@dataclass(frozen=True, slots=True)
class WireError:
    """A failure as gRPC sends it: code, message, and trailing metadata with the details."""

    code: grpc.StatusCode
    message: str
    trailers: tuple[tuple[str, str | bytes], ...]
    reason: str


def code_of(error: errors.JudgedError) -> grpc.StatusCode:
    """Return the status code of a domain error; a class the table lacks is a bug, INTERNAL."""
    return TABLE.get(type(error), _Code.INTERNAL)


def fault_code(reason: str) -> int:
    """Return the number of the code of a verdict that is missing for a reason."""
    code: int = _OF_REASONS.get(reason, _Code.UNKNOWN).value[0]
    return code


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
    details += [make(error) for kind, make in DETAILS.items() if isinstance(error, kind)]
    trailers: list[tuple[str, str | bytes]] = []
    if isinstance(error, errors.Retryable):
        trailers.append((PUSHBACK_TRAILER, str(math.ceil(error.retry_after_s * 1000))))
    status = status_pb2.Status(code=code.value[0], message=error.message)
    for detail in details:
        name = type(detail).DESCRIPTOR.name
        status.details.append(
            Any(type_url=f"type.googleapis.com/google.rpc.{name}", value=detail.SerializeToString())
        )
    trailers.append((STATUS_TRAILER, status.SerializeToString()))
    return WireError(code, error.message, tuple(trailers), error.reason)


def fault_of(error: Exception) -> tuple[errors.JudgedError, VerdictFault]:
    """Return what a failure is for a whole stream, and for one context of it."""
    failure = error if isinstance(error, errors.JudgedError) else internal_fault(error)
    retryable = isinstance(failure, errors.Retryable)
    return failure, VerdictFault(0, failure.reason, failure.message, retryable)
