"""The words between judges and language models: a request, a reply, a model, what can go wrong.

    ModelFault               reason, message, whether asking again may help
      ProviderFault          ... the provider failed, or could not be reached

A fault becomes the status of one verdict, never a failed call. Messages never quote a prompt, a
reply or a key.

Values that every question makes are tuples: a dataclass takes twice as long to make. How a provider
spells them is in `providers`, what is asked in `rubrics`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from types import MappingProxyType
from typing import NamedTuple, Protocol

from judged.values.choices import ClaimVerdict, Status


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
    STORE_UNREACHABLE = "STORE_UNREACHABLE"


STORE_AWAY = (
    "the store that servers share can't be reached, so no model was asked: what others have paid "
    "for would be paid for again; send it again, and the operator finds the cause in the log"
)


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


class FinishReason(StrEnum):
    """Why a model stopped.

    OTHER is a word that nobody here knows, so that the reply may have been cut; UNTOLD is none.
    """

    STOP = auto()
    LENGTH = auto()
    REFUSAL = auto()
    SAFETY = auto()
    OTHER = auto()
    UNTOLD = auto()


@dataclass(frozen=True, slots=True)
class ReplySchema:
    """The JSON schema a structured reply must keep, under a name that providers ask for."""

    name: str
    schema: Mapping[str, object]


class Receipt(Protocol):
    """Told of every time a request is sent, so that whoever pays knows what may be charged."""

    async def sent(self) -> None:
        """Note that the request goes out now. Raises ModelFault when it must not."""
        ...

    def turned_down(self) -> None:
        """Note that what was sent last never arrived, or came back with an HTTP error."""
        ...


class ChatRequest(NamedTuple):
    """One question to a model: instructions, the material, and how to answer.

    `schema` None asks for plain text. `seed` goes to providers that take one.
    """

    system: str
    user: str
    schema: ReplySchema | None
    max_tokens: int
    temperature: float
    seed: int | None = None
    receipt: Receipt | None = None


class TokenUsage(NamedTuple):
    """Tokens by the provider's own count, 0 when it told none; `estimated` where one is not its."""

    input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False


class ChatReply(NamedTuple):
    """What a model answered.

    `refusal` is the model's own words of refusal, where the provider tells them apart. `model` and
    `system_fingerprint` are what the provider says has answered. `unreadable` says of a reply that
    came, and was paid for, why nobody can read it. `left_out` names what stood beside the text and
    can't be what its name says.
    """

    text: str
    finish_reason: FinishReason
    usage: TokenUsage
    model: str
    refusal: str | None = None
    system_fingerprint: str = ""
    unreadable: str = ""
    left_out: tuple[str, ...] = ()


class ParsedReply(NamedTuple):
    """What one sample says.

    `yes` and `score` (in [0, 1]) mean something only when `status` is OK, and only for rubrics that
    ask for a verdict or a score. Other rubrics give scores in [0, 1] by `dimensions`, with the
    model's own "overall"; the `claims` of a text, in its order; or what the contexts say of one
    claim (`checked`), and where as the reasoning. `reason` is set only when the status is not OK;
    `retryable` says of a failure whether asking again may help.
    """

    status: Status
    yes: bool = False
    score: float = 0.0
    reasoning: str = ""
    reason: Reason | None = None
    message: str = ""
    retryable: bool = False
    dimensions: Mapping[str, float] = MappingProxyType({})
    claims: tuple[str, ...] = ()
    checked: ClaimVerdict | None = None


def abstained(reason: Reason, message: str) -> ParsedReply:
    """Return a reply that is no verdict."""
    return ParsedReply(Status.ABSTAINED, reason=reason, message=message)


def failed(reason: Reason, message: str, *, retryable: bool = False) -> ParsedReply:
    """Return a reply in a form that does not count, or none at all."""
    return ParsedReply(Status.ERROR, reason=reason, message=message, retryable=retryable)


REFUSED = abstained(Reason.REFUSED, "the model refused to answer")


@dataclass(frozen=True, slots=True)
class Prices:
    """Money for a million tokens, in the one currency of the server's configuration."""

    input_per_million: float
    output_per_million: float


@dataclass(frozen=True, slots=True)
class ChatModelCard:
    """What is known of a model before it is asked; all of it can change a score but the prices.

    `name` is the operator's, `model` the provider's. `dialect` is the provider's, openai say.
    `conditions` holds what else of the configuration can change a reply: where the provider is, by
    which means the reply is held to a schema, which parameters are sent. `takes_temperature` is one
    of these: whether it is sent a temperature.
    """

    name: str
    provider: str
    dialect: str
    model: str
    structured: bool
    prices: Prices | None
    conditions: str = ""
    takes_temperature: bool = True

    def shown_temperature(self, temperature: float) -> str:
        """Return a temperature as signatures show it: "unset" where none is sent."""
        return format(temperature, ".12g") if self.takes_temperature else "unset"


class Completed(NamedTuple):
    """A reply, and what it took: HTTP attempts, the failed ones included, and seconds in all.

    `in_doubt` is what requests that were cut off before may have cost, in nano-units. `unwritten`
    says that what it cost could not be written down in time.
    """

    reply: ChatReply
    attempts: int
    latency_s: float
    in_doubt: int = 0
    unwritten: bool = False
