"""What a dialect is: the four functions that spell one API, and what that API has.

Each module beside this one fills it in; the table of them is the package's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr

from judged_server.llm.chat import ChatReply, ChatRequest
from judged_server.llm.config.configured import (
    ModelConfiguration,
    ProviderConfiguration,
    Structured,
)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an API has, for the checks of the configuration.

    `structured` and `auth` are the means it knows, the default first. `refused` says of keys of the
    configuration why they make no sense here. `send_temperature` is that key's default.
    `model_name` is a regular expression, and the rule in words.
    """

    structured: tuple[Structured, ...]
    auth: tuple[str, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    send_temperature: bool = True
    model_name: tuple[str, str] = (
        r"[!-~]([ -~]{0,198}[!-~])?",
        "the provider's name of the model",
    )


@dataclass(frozen=True, slots=True)
class Dialect:
    """One API, as pure functions.

    `path` is what follows the base URL. `headers` are those of every request, the key among them.
    `read_reply` takes a status and a body, and raises ProviderFault whatever they are.
    """

    path: Callable[[ModelConfiguration], str]
    headers: Callable[[ProviderConfiguration, SecretStr | None], dict[str, str]]
    write_request: Callable[[ModelConfiguration, ChatRequest], dict[str, Any]]
    read_reply: Callable[[int, bytes], ChatReply]
    capabilities: Capabilities
