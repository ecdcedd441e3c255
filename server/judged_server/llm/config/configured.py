"""What the operator has configured of providers and models, as frozen values.

`configuration` reads them from a file, `providers` spells requests by them. The descriptions are
the rules that errors state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic.dataclasses import dataclass as table

from judged_server.llm.chat import Prices
from judged_server.llm.config.file_tables import (
    STRICT,
    flag,
    number,
    one_of,
    text,
    whole_number,
)

_NAME = r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}"
_NAME_RULE = "a name of letters, digits and . _ : / - that begins with a letter or a digit"


def _once_each(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise ValueError("a name is there twice")
    return names


def _as_path(path: object) -> object:
    if isinstance(path, str) and "\0" not in path:
        return Path(path) if path else None
    return path


_Name = Annotated[str, Field(pattern=f"^{_NAME}$", description=_NAME_RULE)]
_OptionalPath = Annotated[Path | None, BeforeValidator(_as_path), Field(description="a path")]


class Structured(StrEnum):
    """The means by which a model is held to a JSON schema."""

    JSON_SCHEMA = "json_schema"
    JSON_OBJECT = "json_object"
    TOOL = "tool"
    NONE = "none"


@table(frozen=True, slots=True, config=STRICT)
class ProviderConfiguration:
    """One provider: where it is, how it is paid, how hard it may be asked.

    Rates are per minute, None for no limit. `timeout_s` is for one attempt. `min_bytes_per_s` is
    the slowest a reply may come once it has begun; 0 for no such limit. `allow_private` lets the
    name in its URL lead into a private network, `allow_http` lets prompts travel in the open.
    """

    name: _Name
    base_url: str = text("a URL, like https://api.openai.com/v1", r"[!-~]{0,2000}", "")
    dialect: str = "openai"
    key_env: str | None = text(
        "the name of an environment variable, in capitals", r"([A-Z_][A-Z0-9_]{0,99})?", None
    )
    key_file: _OptionalPath = None
    auth: str = text("a text", ".*", "bearer")
    organization: str = text("an id", r"[\w.-]{0,100}", "")
    project: str = text("an id", r"[\w.-]{0,100}", "")
    ca_file: _OptionalPath = None
    max_concurrency: int = whole_number(1, 4096, 32)
    requests_per_minute: float | None = number(1, 1e9, None)
    tokens_per_minute: float | None = number(1, 1e12, None)
    timeout_s: float = number(0.1, 3600, 25.0)
    min_bytes_per_s: float = number(0, 1e9, 1000.0)
    allow_private: bool = flag(default=False)
    allow_http: bool = flag(default=False)
    replies: Annotated[_OptionalPath, Field(description="the path of a file of replies")] = None


@table(frozen=True, slots=True, config=STRICT)
class ModelConfiguration:
    """One model of a provider, under the operator's name, with its quirks.

    `fallback` names the models that are asked in its place when its provider fails, in order.
    """

    name: _Name
    provider: str = text("the name of a provider", _NAME)
    model: str = text("the provider's name of the model", r"[!-~]([ -~]{0,198}[!-~])?")
    structured: Structured = one_of(tuple(Structured), Structured.JSON_SCHEMA)
    logprobs: bool = flag(default=False)
    max_tokens_parameter: Literal["max_tokens", "max_completion_tokens"] = one_of(
        ("max_tokens", "max_completion_tokens"), "max_tokens"
    )
    send_temperature: bool = flag(default=True)
    send_seed: bool = flag(default=True)
    schema_bounds: bool = flag(default=True)
    input_per_million: float | None = number(0, 1e9, None)
    output_per_million: float | None = number(0, 1e9, None)
    fallback: Annotated[tuple[_Name, ...], AfterValidator(_once_each)] = Field(
        default=(), strict=False, description="an array of names of models, each one once"
    )
    default: bool = flag(default=False)

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

    per_request: float | None = number(1e-9, 1e9, None)
    per_day: float | None = number(1e-9, 1e9, None)
    unpriced_input_per_million: float | None = number(0, 1e9, None)
    unpriced_output_per_million: float | None = number(0, 1e9, None)
    file: _OptionalPath = None


@dataclass(frozen=True, slots=True)
class Configuration:
    """All providers and models; the default model stands first."""

    currency: str
    providers: tuple[ProviderConfiguration, ...]
    models: tuple[ModelConfiguration, ...]
    budget: BudgetConfiguration = field(default_factory=BudgetConfiguration)
