"""The one mapping of domain errors to gRPC statuses and their details.

Domain errors are defined in `judged_server.errors`.
"""

from __future__ import annotations

import asyncio
import math
import typing
from collections.abc import Callable
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

CODES: dict[grpc.StatusCode, str] = {
    _Code.INVALID_ARGUMENT: "INVALID_FIELD LIMIT_EXCEEDED MALFORMED_MESSAGE TEXT_TOO_LONG",
    _Code.UNAUTHENTICATED: "UNAUTHENTICATED",
    _Code.NOT_FOUND: "UNKNOWN_JUDGE UNKNOWN_RUBRIC",
    _Code.FAILED_PRECONDITION: "MODEL_NOT_INSTALLED PROVIDER_NOT_CONFIGURED MODEL_DAMAGED "
    "PROVIDER_REFUSED_KEY NOT_CACHED EMPTY_ANSWER NO_CONTEXT NO_CLAIMS",
    _Code.DEADLINE_EXCEEDED: "DEADLINE_EXCEEDED DEADLINE_TOO_SHORT TIMEOUT",
    _Code.RESOURCE_EXHAUSTED: "BUDGET_EXHAUSTED OVERLOADED TENANT_LIMIT AUTHENTICATION_LIMIT "
    "RATE_LIMITED BUDGET",
    _Code.UNAVAILABLE: "DRAINING PROVIDER_UNREACHABLE PROVIDER_ERROR BREAKER_OPEN "
    "STORE_UNREACHABLE",
    _Code.INTERNAL: "INTERNAL EMBEDDING_FAILED SCHEMA REPLY_TRUNCATED",
}
"""The reasons of failed calls and of missing verdicts, by gRPC code."""
TABLE = {reason: code for code, reasons in CODES.items() for reason in reasons.split()}
"""The code of each reason. For a missing verdict any other reason is UNKNOWN."""


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
"""The details that errors of these classes carry besides ErrorInfo."""

_MEMORY_BACK_AFTER_S = 1.0

_log = Logger("fault")


class WireError(typing.NamedTuple):
    """A failure as gRPC sends it: code, message, and the details as trailing metadata."""

    code: grpc.StatusCode
    message: str
    trailers: tuple[tuple[str, str | bytes], ...]
    reason: str


def fault_code(reason: str) -> int:
    """Return the number of the gRPC code for a missing verdict's reason."""
    code: int = TABLE.get(reason, _Code.UNKNOWN).value[0]
    return code


def internal_fault(error: BaseException) -> errors.InternalFault | errors.Overloaded:
    """Log a bug under a new reference and return the error that names the reference.

    Running out of memory is no bug: a smaller request, or the same one later, may succeed.
    """
    if isinstance(error, MemoryError):
        _log.error("out of memory")
        return errors.Overloaded(
            "the server's memory did not suffice for this; send less at once, or try again later",
            _MEMORY_BACK_AFTER_S,
        )
    return _log.bug(error)


def wire_error(error: BaseException) -> WireError | None:
    """Return the error to send; None for what is no failure of the call, such as a cancellation."""
    if isinstance(error, errors.JudgedError):
        return to_wire(error)
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is None or task.cancelling():
            return None
        # This call was not cancelled: the error leaked from a cancelled child task. Unless it is
        # turned into a status here, the caller waits for a reply that never comes.
    elif isinstance(error, grpc.aio.AbortError | KeyboardInterrupt | SystemExit):
        return None
    return to_wire(internal_fault(error))


def to_wire(error: errors.JudgedError) -> WireError:
    """Return the status, the details and the trailers of a domain error."""
    code = TABLE.get(error.reason, _Code.INTERNAL)
    info = status_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=error.metadata)
    more = (make(error) for kind, make in DETAILS.items() if isinstance(error, kind))
    trailers: list[tuple[str, str | bytes]] = []
    if isinstance(error, errors.Retryable):
        trailers.append((PUSHBACK_TRAILER, str(math.ceil(error.retry_after_s * 1000))))
    status = status_pb2.Status(code=code.value[0], message=error.message)
    for detail in (info, *more):
        name = type(detail).DESCRIPTOR.name
        status.details.append(
            Any(type_url=f"type.googleapis.com/google.rpc.{name}", value=detail.SerializeToString())
        )
    trailers.append((STATUS_TRAILER, status.SerializeToString()))
    return WireError(code, error.message, tuple(trailers), error.reason)


def fault_of(error: Exception) -> tuple[errors.JudgedError, VerdictFault]:
    """Return a failure as an error of a whole stream, and as the fault of one context."""
    failure = error if isinstance(error, errors.JudgedError) else internal_fault(error)
    retryable = isinstance(failure, errors.Retryable)
    return failure, VerdictFault(0, failure.reason, failure.message, retryable)
