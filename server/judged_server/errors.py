"""The server's one exception tree.

    JudgedError                 reason, message, metadata
      InvalidField              a request breaks a rule; names the field
        LimitExceeded           ... a size limit
      Unauthenticated           the caller has no valid credential
      MalformedMessage          the bytes are not the request's message
      UnknownJudge              no such judge
      UnknownRubric             no such rubric
      ModelNotInstalled         the judge needs a model that is not here
      ModelNotConfigured        the judge needs a language model that is not set up
      BudgetExhausted           a budget of the server is used up
      ModelDamaged              a model file is missing, truncated or changed (stops startup)
      DeadlineExceeded          the deadline passed during the work
      DeadlineTooShort          the work takes longer than the call has left
      Retryable                 worth sending again after retry_after_s
        Overloaded              ... the work queue is full
        TenantLimit             ... the tenant has sent more work than its limit
        AuthenticationLimit     ... too many calls without a credential came from this address
        Draining                ... the server is shutting down
      InternalFault             a bug; carries only a reference into the log

The table in `api.status` maps each to a gRPC status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import ClassVar


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return a hint with the known name that is closest to `name`, `otherwise` if none is close."""
    near = get_close_matches(name[:80], list(known), n=1)
    return f"did you mean {near[0]}?" if near else otherwise


def printable(text: str) -> str:
    """Return an untrusted name with unprintable characters escaped, for messages and logs."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class JudgedError(Exception):
    """A failure whose message may be shown to callers. `reason` is a name of ErrorReason."""

    reason: ClassVar[str]

    def __init__(self, message: str, metadata: Mapping[str, str] | None = None) -> None:
        # Reporting an error must not fail: lone surrogates can't be encoded as UTF-8.
        message = message.encode("utf-8", "backslashreplace").decode()
        super().__init__(message)
        self.message = message
        self.metadata: dict[str, str] = dict(metadata or {})


class InvalidField(JudgedError):
    """A field of a request breaks a rule. The message never quotes a judged text."""

    reason = "INVALID_FIELD"

    def __init__(self, field: str, rule: str, metadata: Mapping[str, str] | None = None) -> None:
        field = printable(field)
        super().__init__(f"{field}: {rule}", {"field": field, **(metadata or {})})
        self.field = field
        self.rule = rule


class LimitExceeded(InvalidField):
    """A request is larger than a limit."""

    reason = "LIMIT_EXCEEDED"

    def __init__(self, field: str, what: str, limit: int, actual: int) -> None:
        rule = f"{actual} {what}, the limit is {limit}"
        super().__init__(field, rule, {"limit": str(limit), "actual": str(actual)})


class MalformedMessage(JudgedError):
    """The bytes are not the request's message, or a string in it is not UTF-8."""

    reason = "MALFORMED_MESSAGE"


class Unauthenticated(JudgedError):
    """The call shows no credential, or one that is unknown or expired."""

    reason = "UNAUTHENTICATED"


class UnknownJudge(JudgedError):
    """No judge has this name."""

    reason = "UNKNOWN_JUDGE"

    def __init__(self, kind: str, known: tuple[str, ...]) -> None:
        hint = did_you_mean(kind, known, f"this server has {', '.join(known)}")
        super().__init__(f"no judge is called {kind[:80]!r}; {hint}", {"judge": kind[:80]})


class UnknownRubric(JudgedError):
    """No rubric has this id, or this server has another version of it."""

    reason = "UNKNOWN_RUBRIC"

    def __init__(self, rubric: str, known: tuple[str, ...], has: str = "") -> None:
        scored = (
            f"answers are scored by {', '.join(known)}" if known else "no answers are scored here"
        )
        message = f"no rubric is called {rubric[:80]!r}; {scored}"
        if has:
            message = (
                f"{rubric[:80]!r} is a version that this server does not have; it has {has}: ask "
                "for that, or leave the version out"
            )
        super().__init__(message, {"rubric": rubric[:80]})


class ModelNotInstalled(JudgedError):
    """The judge needs a model that is not on this server."""

    reason = "MODEL_NOT_INSTALLED"

    def __init__(self, model: str, what_to_do: str) -> None:
        super().__init__(
            f"model {model[:80]!r} is not installed; {what_to_do}", {"model": model[:80]}
        )


class ModelNotConfigured(JudgedError):
    """The judge needs a language model that is not configured here, or has no key."""

    reason = "PROVIDER_NOT_CONFIGURED"

    def __init__(self, model: str, problem: str) -> None:
        subject = f"language model {model[:80]!r} can't be asked"
        subject = subject if model else "no language model is configured"
        super().__init__(f"{subject}: {problem}", {"model": model[:80]})


class BudgetExhausted(JudgedError):
    """A budget of the server is used up, so no question of the call could be asked."""

    reason = "BUDGET_EXHAUSTED"

    def __init__(self, budget: str, message: str) -> None:
        super().__init__(message, {"budget": budget})


class ModelDamaged(JudgedError):
    """A model file is missing, truncated or changed."""

    reason = "MODEL_DAMAGED"

    def __init__(self, file: str, problem: str, what_to_do: str) -> None:
        super().__init__(f"model file {file}: {problem}; {what_to_do}")


class DeadlineExceeded(JudgedError):
    """The deadline passed during the work."""

    reason = "DEADLINE_EXCEEDED"


class DeadlineTooShort(JudgedError):
    """The work takes longer than the call has left, even on an idle server."""

    reason = "DEADLINE_TOO_SHORT"

    def __init__(self, estimate_s: float, left_s: float) -> None:
        super().__init__(
            f"this takes about {estimate_s:.2g} s here and the call has {left_s:.2g} s left; allow "
            "more, or send less",
            {"estimate_ms": str(round(estimate_s * 1000))},
        )


class Retryable(JudgedError):
    """A failure that may pass: send the call again after `retry_after_s` seconds."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Overloaded(Retryable):
    """The server has more work than it can take."""

    reason = "OVERLOADED"


class TenantLimit(Retryable):
    """The tenant has sent more than a limit allows. `limit` is its key in the tenants file."""

    reason = "TENANT_LIMIT"

    def __init__(self, limit: str, message: str, retry_after_s: float) -> None:
        super().__init__(message, retry_after_s)
        self.metadata["limit"] = limit


class AuthenticationLimit(Retryable):
    """The call has no valid credential, and nor had too many from its address within a minute."""

    reason = "AUTHENTICATION_LIMIT"

    def __init__(self, per_minute: int, retry_after_s: float) -> None:
        super().__init__(
            f"the call shows no token or certificate that is valid, as {per_minute} before it did "
            "that came from this address within a minute; ask the operator of the server for a "
            "token",
            retry_after_s,
        )


class Draining(Retryable):
    """The server is shutting down; another replica may answer."""

    reason = "DRAINING"


class InternalFault(JudgedError):
    """A bug. The message contains only a reference into the server's log."""

    reason = "INTERNAL"

    def __init__(self, ref: str) -> None:
        super().__init__(f"internal error, reference {ref}", {"ref": ref})
