"""What the operator has configured of providers and models, as frozen values.

`configuration` reads them from a file, `providers` spells requests by them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from judged_server.llm.chat import Prices


class Structured(StrEnum):
    """The means by which a model is held to a JSON schema."""

    JSON_SCHEMA = "json_schema"
    JSON_OBJECT = "json_object"
    TOOL = "tool"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class ProviderConfiguration:
    """One provider: where it is, how it is paid, how hard it may be asked.

    Rates are per minute, None for no limit. `timeout_s` is for one attempt. `min_bytes_per_s` is
    the slowest a reply may come once it has begun; 0 for no such limit. `allow_private` lets the
    name in its URL lead into a private network. `replies` is the file of the dialect fake, which
    has no address.
    """

    name: str
    base_url: str
    dialect: str = "openai"
    key_env: str | None = None
    key_file: Path | None = None
    auth: str = "bearer"
    organization: str = ""
    project: str = ""
    ca_file: Path | None = None
    max_concurrency: int = 32
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    timeout_s: float = 25.0
    min_bytes_per_s: float = 1000.0
    allow_private: bool = False
    replies: Path | None = None


@dataclass(frozen=True, slots=True)
class ModelConfiguration:
    """One model of a provider, under the operator's name, with its quirks.

    `fallback` names the models that are asked in its place when its provider fails, in order.
    """

    name: str
    provider: str
    model: str
    structured: Structured = Structured.JSON_SCHEMA
    logprobs: bool = False
    max_tokens_parameter: str = "max_tokens"
    send_temperature: bool = True
    send_seed: bool = True
    schema_bounds: bool = True
    prices: Prices | None = None
    fallback: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BudgetConfiguration:
    """What may be spent, in the currency of the file; None for no limit.

    `file` is where the spending of a day is kept, None for the usual place.
    """

    per_request: float | None = None
    per_day: float | None = None
    file: Path | None = None


@dataclass(frozen=True, slots=True)
class Configuration:
    """All providers and models; the default model stands first."""

    currency: str
    providers: tuple[ProviderConfiguration, ...]
    models: tuple[ModelConfiguration, ...]
    budget: BudgetConfiguration = BudgetConfiguration()
