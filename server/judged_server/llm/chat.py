"""Types that judges and language models exchange: requests, replies, models and faults.

    ModelFault               reason, message, whether asking again may help
      ProviderFault          ... the provider failed, or could not be reached

A fault becomes the status of one verdict, never a failed call. Messages never quote a prompt, a
reply or a key.

Values created for every question are tuples: a dataclass takes twice as long to create. Their wire
forms are in `providers`, the prompts in `rubrics`.
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

    `in_doubt` is what its requests may have cost all the same, in nano-units.
    """

    def __init__(self, reason: Reason, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.retryable = retryable
        self.in_doubt = 0


class ProviderFault(ModelFault):
    """The provider failed, or could not be reached.

    `status` is its HTTP status, None without a response. `retry_after_s` is the delay that it asked
    for, None if it named none. `attempts` is the number of requests sent in all; 0 means that this
    server did not send the call. `unsent` means that the provider was not reached: there was no
    connection, or something in front of it answered.
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
        """Put the provider's name before the message."""
        self.message = f"provider {name}: {self.message}"
        self.args = (self.message,)

    @property
    def turned_down(self) -> bool:
        """Whether the last request was not accepted: no connection, or an HTTP error."""
        return self.unsent or (self.status is not None and self.status >= 400)


class FinishReason(StrEnum):
    """Why a model stopped.

    OTHER is an unknown word, so the reply may have been cut; UNTOLD means that none was given.
    """

    STOP = auto()
    LENGTH = auto()
    REFUSAL = auto()
    SAFETY = auto()
    OTHER = auto()
    UNTOLD = auto()


@dataclass(frozen=True, slots=True)
class ReplySchema:
    """The JSON schema that a structured reply must match, with the name that providers require."""

    name: str
    schema: Mapping[str, object]


class Receipt(Protocol):
    """Is called for every request that is sent, to track what the provider may charge for."""

    async def sent(self) -> None:
        """Note that a request is about to be sent. Raises ModelFault if it must not be."""
        ...

    def turned_down(self) -> None:
        """Note that the last request never arrived, or got an HTTP error."""
        ...


class ChatRequest(NamedTuple):
    """One question to a model: instructions, texts, and the form of the reply.

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
    """Tokens as counted by the provider, 0 if not reported; `estimated` if a count is ours."""

    input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False


class ChatReply(NamedTuple):
    """A model's reply.

    `refusal` is the text of a refusal, if the provider reports it separately. `model` and
    `system_fingerprint` are what the provider reports. `unreadable` says why a reply, which was
    paid for, can't be read. `left_out` lists parts and fields beside the text that were ignored,
    since their types or values are not the expected ones.
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
    """The parsed reply of one sample.

    `yes` and `score` (in [0, 1]) are meaningful only if `status` is OK, for rubrics that ask for a
    verdict, a score or a grade. Other rubrics set `dimensions`, scores in [0, 1] with the model's
    own "overall"; or `claims`, those of a text in its order; or `checked`, whether the contexts
    support a claim, with the evidence as the reasoning. `reason` is set only if the status is not
    OK; `retryable` says whether asking again after a failure may help.
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
    """Return an abstention, a reply without a verdict."""
    return ParsedReply(Status.ABSTAINED, reason=reason, message=message)


def failed(reason: Reason, message: str, *, retryable: bool = False) -> ParsedReply:
    """Return an error: an unusable reply, or none at all."""
    return ParsedReply(Status.ERROR, reason=reason, message=message, retryable=retryable)


REFUSED = abstained(Reason.REFUSED, "the model refused to answer")


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of a million tokens, in the currency of the server's configuration."""

    input_per_million: float
    output_per_million: float


@dataclass(frozen=True, slots=True)
class ChatModelCard:
    """The description of a model; everything but the prices can change a score.

    `name` is the operator's name, `model` the provider's. `dialect` is the provider's API, such as
    openai. `conditions` holds what else of the configuration can change a reply: the provider's
    address, how a schema is enforced, which parameters are sent. `takes_temperature` is one of
    these: whether a temperature is sent.
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
        """Return a temperature as signatures show it: "unset" if none is sent."""
        return format(temperature, ".12g") if self.takes_temperature else "unset"


class Completed(NamedTuple):
    """A reply, its number of HTTP attempts, including failed ones, and its seconds in all.

    `in_doubt` is what earlier requests that were cut off may have cost, in nano-units. `unwritten`
    says that the cost could not be written to the ledger in time.
    """

    reply: ChatReply
    attempts: int
    latency_s: float
    in_doubt: int = 0
    unwritten: bool = False
