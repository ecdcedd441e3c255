"""What the operator has configured of providers and models, as frozen values.

`configuration` reads them from a file, `providers` spells requests by them.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic.dataclasses import dataclass as table

from judged_server.llm.chat import Prices
from judged_server.llm.config.file_tables import STRICT, matching

Name = Annotated[
    str,
    matching(
        r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}",
        "a name of letters, digits and . _ : / - that begins with a letter or a digit",
    ),
]
Id = Annotated[str, matching(r"[\w.-]{0,100}", "an id")]
PerMillion = Annotated[float, Field(ge=0, le=1e9)]
Money = Annotated[float, Field(ge=1e-9, le=1e9)]


def _no_zero_byte(path: Path | None) -> Path | None:
    if "\0" in str(path):
        raise ValueError("must be a path")
    return path


FilePath = Annotated[
    Path | None, BeforeValidator(lambda path: path or None), AfterValidator(_no_zero_byte)
]


class Structured(StrEnum):
    """The means by which a model is held to a JSON schema."""

    JSON_SCHEMA = "json_schema"
    JSON_OBJECT = "json_object"
    TOOL = "tool"
    NONE = "none"


@table(frozen=True, slots=True, config=STRICT)
class ProviderConfiguration:
    """One provider: where it is, how it is paid, how hard it may be asked.

    Rates are per minute, None for no limit. `timeout_s` is for one attempt.
    `allow_private` lets the name in its URL lead into a private network, `allow_http` lets prompts
    travel in the open.
    """

    name: Name
    base_url: Annotated[
        str, matching(r"[!-~]{0,2000}", "a URL, like https://api.openai.com/v1")
    ] = ""
    dialect: str = "openai"
    key_env: Annotated[
        str,
        matching(r"([A-Z_][A-Z0-9_]{0,99})?", "the name of an environment variable, in capitals"),
    ] = ""
    key_file: FilePath = None
    auth: str = "bearer"
    organization: Id = ""
    project: Id = ""
    ca_file: FilePath = None
    max_concurrency: Annotated[int, Field(ge=1, le=4096)] = 32
    requests_per_minute: Annotated[float | None, Field(ge=1, le=1e9)] = None
    tokens_per_minute: Annotated[float | None, Field(ge=1, le=1e12)] = None
    timeout_s: Annotated[float, Field(ge=0.1, le=3600)] = 25.0
    allow_private: bool = False
    allow_http: bool = False
    replies: FilePath = None

    def __post_init__(self) -> None:
        if self.key_env and self.key_file:
            raise ValueError("key_file and key_env are both there; keep one")


@table(frozen=True, slots=True, config=STRICT)
class ModelConfiguration:
    """One model of a provider, under the operator's name, with its quirks.

    `fallback` names the models that are asked in its place when its provider fails, in order.
    """

    name: Name
    provider: Name
    model: Annotated[
        str, matching(r"[!-~]([ -~]{0,198}[!-~])?", "the provider's name of the model")
    ]
    structured: Structured = Structured.JSON_SCHEMA
    logprobs: bool = False
    max_tokens_parameter: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    send_temperature: bool = True
    send_seed: bool = True
    schema_bounds: bool = True
    input_per_million: PerMillion | None = None
    output_per_million: PerMillion | None = None
    fallback: tuple[Name, ...] = ()
    default: bool = False

    def __post_init__(self) -> None:
        _refuse_half("", self.input_per_million, self.output_per_million)
        if len(set(self.fallback)) < len(self.fallback):
            raise ValueError("fallback names a model twice")

    @property
    def prices(self) -> Prices | None:
        """What a million tokens cost, None where that is not known."""
        if self.input_per_million is None or self.output_per_million is None:
            return None
        return Prices(self.input_per_million, self.output_per_million)


@table(frozen=True, slots=True, config=STRICT)
class BudgetConfiguration:
    """What may be spent, in the currency of the file; None for no limit.

    `file` is where the spending of a day is kept, None for the usual place. Models that have no
    prices of their own count by the unpriced ones, where these are given.
    """

    per_request: Money | None = None
    per_day: Money | None = None
    unpriced_input_per_million: PerMillion | None = None
    unpriced_output_per_million: PerMillion | None = None
    file: FilePath = None

    def __post_init__(self) -> None:
        _refuse_half("unpriced_", self.unpriced_input_per_million, self.unpriced_output_per_million)


@table(frozen=True, slots=True, config=STRICT)
class Configuration:
    """All providers and models; the default model stands first."""

    currency: Annotated[str, matching("[A-Z]{3}", "three capital letters, like USD")] = "USD"
    providers: tuple[ProviderConfiguration, ...] = ()
    models: tuple[ModelConfiguration, ...] = ()
    budget: BudgetConfiguration = Field(default_factory=BudgetConfiguration)


def _refuse_half(prefix: str, price_in: float | None, price_out: float | None) -> None:
    """Refuse a price of input without one of output, and the other way round."""
    if (price_in is None) == (price_out is None):
        return
    missing, given = ("input", "output") if price_in is None else ("output", "input")
    raise ValueError(
        f"{prefix}{missing}_per_million is missing beside {prefix}{given}_per_million; set both, "
        "to 0 what is free"
    )
