"""The errors of calls: one tree, with a class for each way in which a caller may react.

    JudgedError                 code, reason, message, metadata, request_id
      InvalidArgument           the request breaks a rule; `field` names it
        WrongType               ... an argument is of the wrong type: a TypeError too
      NotFound                  no such judge
      FailedPrecondition        the server lacks something; the message says what to run
      BudgetExhausted           the server's budget is used up
      PermissionDenied          the server does not know or does not admit you
      Retryable                 worth sending again
        Overloaded              ... the server is busy; `retry_after` seconds
        Unavailable             ... the server can't be reached, is starting or draining
      DeadlineExceeded          time ran out
      MissingVerdicts           the judge failed on too many items for a result
      ClientUnusable            the client was closed, or its process forked
      InternalError             a fault of the server; its log has `metadata["ref"]`

`_transport.call` maps gRPC statuses to these classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class JudgedError(Exception):
    """A call failed.

    `code` is the gRPC status name, `reason` a name of ErrorReason ("" if the server gave none),
    `metadata` the variable parts of the message, `request_id` the id to search for in the server's
    log. `verdicts` are the Verdicts that had arrived when a later step of an evaluation failed.
    """

    verdicts: Any = None

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        request_id: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.metadata = dict(metadata or {})
        self.request_id = request_id


class InvalidArgument(JudgedError):
    """The request breaks a rule. `field` is the path of the field, "" if it is unknown."""

    field: str = ""

    @classmethod
    def of_field(cls, field: str, rule: str, reason: str = "INVALID_FIELD") -> InvalidArgument:
        """Return the error for a field that breaks a rule, worded as the server's errors are."""
        error = cls(
            f"{field}: {rule}", code="INVALID_ARGUMENT", reason=reason, metadata={"field": field}
        )
        error.field = field
        return error

    def below(self, parent: str) -> InvalidArgument:
        """Return the error with `parent` put before its path."""
        rule = self.message.removeprefix(f"{self.field}: ")
        field = f"{parent}.{self.field}" if self.field else parent
        return type(self).of_field(field, rule, self.reason)


class WrongType(InvalidArgument, TypeError):
    """An argument, or something in it, is of the wrong type; `field` names it."""


class NotFound(JudgedError):
    """The request names something the server does not have."""


class FailedPrecondition(JudgedError):
    """The server can't do this as it is set up. The message says what to run."""


class BudgetExhausted(JudgedError):
    """The server's budget is used up, so no model was asked. Waiting a day helps."""


class PermissionDenied(JudgedError):
    """The server does not know the caller, or does not admit them."""


class Retryable(JudgedError):
    """A temporary failure. `retry_after` is the server's requested delay in seconds, or None."""

    retry_after: float | None = None


class Overloaded(Retryable):
    """The server is busy."""


class Unavailable(Retryable):
    """The server can't be reached, is starting or draining."""


class DeadlineExceeded(JudgedError):
    """The timeout was over before the answer came."""


class MissingVerdicts(JudgedError):
    """The judge failed on too many items for a result; the message says how."""


class ClientUnusable(JudgedError, RuntimeError):
    """The client was closed, or the process was forked after gRPC had been used."""


class InternalError(JudgedError):
    """A fault of the server, or an invalid reply."""
