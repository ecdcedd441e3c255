"""What can go wrong between a judge and a language model, in one tree.

    ModelFault               reason, message, whether asking again may help
      ProviderFault          ... the provider failed, or could not be reached

A fault becomes the status of one verdict, never a failed call. Messages never quote a prompt, a
reply or a key.
"""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Why there is no verdict; the names are those of ErrorReason on the wire."""

    TIMEOUT = "TIMEOUT"
    RATE_LIMITED = "RATE_LIMITED"
    PROVIDER_UNREACHABLE = "PROVIDER_UNREACHABLE"
    PROVIDER_ERROR = "PROVIDER_ERROR"
    PROVIDER_REFUSED_KEY = "PROVIDER_REFUSED_KEY"
    BREAKER_OPEN = "BREAKER_OPEN"
    REFUSED = "REFUSED"
    UNPARSABLE = "UNPARSABLE"
    SCHEMA = "SCHEMA"
    REPLY_TRUNCATED = "REPLY_TRUNCATED"
    NO_QUORUM = "NO_QUORUM"
    NOT_CACHED = "NOT_CACHED"
    BUDGET = "BUDGET"
    EMPTY_ANSWER = "EMPTY_ANSWER"
    NO_CONTEXT = "NO_CONTEXT"
    NO_CLAIMS = "NO_CLAIMS"
    MARKER_REPEATED = "MARKER_REPEATED"


class ModelFault(Exception):
    """One call gave no verdict. `retryable` says whether sending the context again may help.

    `in_doubt` is what was sent of it may have cost all the same, in nano-units.
    """

    def __init__(self, reason: Reason, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.retryable = retryable
        self.in_doubt = 0


class ProviderFault(ModelFault):
    """The provider failed, or could not be reached.

    `status` is its HTTP status, None when there was no reply. `retry_after_s` is how long it asked
    to be left alone, None when it named no time. `attempts` is the number of requests sent in all;
    0 says that this server held the call back. `unsent` says that it was not reached: there was no
    connection, or something before it answered.
    """

    def __init__(
        self,
        reason: Reason,
        message: str,
        *,
        retryable: bool,
        status: int | None = None,
        attempts: int = 1,
    ) -> None:
        super().__init__(reason, message, retryable=retryable)
        self.status = status
        self.retry_after_s: float | None = None
        self.attempts = attempts
        self.unsent = False

    def of_provider(self, name: str) -> None:
        """Let the message say who failed."""
        self.message = f"provider {name}: {self.message}"
        self.args = (self.message,)

    @property
    def turned_down(self) -> bool:
        """Whether the last request was not accepted: no connection, or an HTTP error."""
        return self.unsent or (self.status is not None and self.status >= 400)
