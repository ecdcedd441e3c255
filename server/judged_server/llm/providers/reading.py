"""Reading a provider's JSON strictly where a verdict needs it, for all dialects.

Messages name fields and never show what stood in them.
"""

from __future__ import annotations

import json
import math
from typing import Any, TypeVar, overload

import orjson
from pydantic import SecretStr

from judged_server.llm.config.configured import ProviderConfiguration
from judged_server.llm.faults import ProviderFault, Reason

TOO_LONG = "the texts are longer than the model's window; send shorter ones"
NO_MONEY = "the account has no money or quota left"
BAD_KEY = "it refuses the key; check key_env or key_file of the provider"

_T = TypeVar("_T")


def parse(body: bytes) -> object:
    """Return what the body says; None when it is not JSON."""
    try:
        parsed: object = orjson.loads(body)
    except orjson.JSONDecodeError:
        # Not kept as the cause of a fault: it holds the whole body, and so perhaps a prompt or key.
        return None
    return parsed


def with_key(
    fields: dict[str, str], provider: ProviderConfiguration, key: SecretStr | None
) -> dict[str, str]:
    """Return headers of a request for JSON with the key in that which `provider.auth` names."""
    fields = {"Content-Type": "application/json", "Accept": "application/json", **fields}
    if key is not None and provider.auth == "bearer":
        fields["Authorization"] = f"Bearer {key.get_secret_value()}"
    elif key is not None:
        fields[provider.auth] = key.get_secret_value()
    return fields


def reply_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a reply with the status 200. Raises ProviderFault."""
    reply = parse(body)
    if not isinstance(reply, dict):
        raise broken("is not a JSON object")
    if reply.get("error") is not None:
        raise broken("is an error with the status 200")
    return reply


def error_object(body: bytes) -> dict[str, Any]:
    """Return the error that a body describes, {} when it describes none.

    Its words are compared, never shown: they may quote the prompt or the key.
    """
    reply = parse(body)
    error = reply.get("error") if isinstance(reply, dict) else None
    return error if isinstance(error, dict) else {}


def rewrite(value: object, body: bytes) -> str:
    """Return what a model filled in, as the JSON text that it would have been.

    `body` is where it stood. A key that occurs twice there is refused, as in a text that a model
    wrote: of two verdicts the last one would win. Raises ProviderFault.
    """
    try:
        json.loads(body, object_pairs_hook=_no_duplicate_keys)
    except (ValueError, RecursionError):
        raise broken("nests an answer too deeply, or has a key twice") from None
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        raise broken("nests an answer too deeply") from None


def _no_duplicate_keys(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        raise ValueError


def broken(what: str) -> ProviderFault:
    """Return the fault of a reply with the status 200 that can't be read."""
    return ProviderFault(Reason.PROVIDER_ERROR, f"its reply {what}", retryable=True, status=200)


def permanent(reason: Reason, status: int, meaning: str) -> ProviderFault:
    """Return the fault of an error that another try won't change."""
    return ProviderFault(reason, f"it answered {status}: {meaning}", retryable=False, status=status)


def first(items: list[Any]) -> dict[str, Any]:
    """Return the first item, an object. Raises ProviderFault when there is none."""
    if not items or not isinstance(items[0], dict):
        raise broken("holds no answer")
    return items[0]


def required(table: object, key: str, kind: type[_T]) -> _T:
    """Return a field that must be there, in its type."""
    value = table.get(key) if isinstance(table, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise broken(f"lacks {key}, or has it in a wrong form")
    return value


@overload
def optional(table: object, key: str, kind: type[_T]) -> _T | None: ...
@overload
def optional(table: object, key: str, kind: type[_T], default: _T) -> _T: ...
def optional(table: object, key: str, kind: type[_T], default: _T | None = None) -> _T | None:
    """Return a field that may be missing or null, then the default; otherwise in its type."""
    if isinstance(table, dict):
        value = table.get(key)
        if value is None:
            return default
        if type(value) is kind:  # the usual case, ten times a reply
            return value
    return required(table, key, kind)


def tokens(table: object, *keys: str) -> int:
    """Return the sum of some counts of tokens, each 0 when it is missing."""
    total = 0
    for key in keys:
        count = optional(table, key, int, 0)
        if count < 0:
            raise broken("counts tokens below 0")
        total += count
    return total


def log_probability(table: dict[str, Any], key: str) -> float:
    """Return a finite number."""
    value = table.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise broken("has a log-probability that is no number")
    return float(value)


_NEXT_STEPS = {
    400: "it can't take the request; check the model's quirks in the llm configuration "
    "(schema_bounds, send_temperature, send_seed, max_tokens_parameter, structured)",
    404: "check base_url and the model's name in the llm configuration",
    413: "the texts are too long for it",
    422: "it can't take the request; check the model's quirks in the llm configuration",
    529: "it is overloaded",
}


def fault_of(status: int) -> ProviderFault:
    """Return the fault of a status other than 200."""
    says = f"it answered {status}"
    if status in {401, 403}:
        return permanent(Reason.PROVIDER_REFUSED_KEY, status, BAD_KEY)
    if status == 402:
        return permanent(Reason.RATE_LIMITED, status, NO_MONEY)
    if status == 429:
        return ProviderFault(
            Reason.RATE_LIMITED, f"{says}: too many requests", retryable=True, status=status
        )
    if 300 <= status < 400:
        message = f"{says}, a redirect, which is not followed; put the final address in base_url"
    else:
        message = f"{says}; {_NEXT_STEPS[status]}" if status in _NEXT_STEPS else says
    passes = status in {408, 409} or status >= 500
    return ProviderFault(Reason.PROVIDER_ERROR, message, retryable=passes, status=status)
