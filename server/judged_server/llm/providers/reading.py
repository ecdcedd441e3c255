"""What a dialect is, and reading a provider's JSON for all: strictly what the text of a reply is.

What stands beside the text decides nothing: where it can't be what its name says, it is left out
and told (`odd`). Messages name fields and never show what stood in them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, TypeVar

import orjson
from pydantic import SecretStr

from judged_server.llm.chat import (
    ChatReply,
    ChatRequest,
    FinishReason,
    ProviderFault,
    Reason,
    TokenLogprob,
    TokenUsage,
)
from judged_server.llm.config.configured import (
    ModelConfiguration,
    ProviderConfiguration,
    Structured,
)

TOO_LONG = "the texts are longer than the model's window; send shorter ones"
NO_MONEY = "the account has no money or quota left"
BAD_KEY = "it refuses the key; check key_env or key_file of the provider"

_T = TypeVar("_T")


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


def parse(body: bytes) -> object:
    """Return what the body says; None when it is not JSON.

    A byte order mark before it and numbers that JSON has not are taken: -Infinity is null, as a
    log-probability say, and the others are texts, which are no number anywhere.
    """
    try:
        parsed: object = orjson.loads(body)
    except orjson.JSONDecodeError:
        # Not kept as the cause of a fault: it holds the whole body, and so perhaps a prompt or key.
        try:
            lenient = json.loads(body.decode("utf-8-sig"), parse_constant=_no_number)
            parsed = orjson.loads(orjson.dumps(lenient))  # refuses half characters, as above
        except (ValueError, TypeError, RecursionError):
            return None
    return parsed


def _no_number(name: str) -> str | None:
    return None if name == "-Infinity" else name


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


def pruned(schema: Mapping[str, Any], keeps: Callable[[str, object], bool]) -> dict[str, Any]:
    """Return a JSON schema with those of its rules that are kept, by their keys and values."""
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key in {"properties", "$defs"}:
            kept[key] = {name: pruned(inner, keeps) for name, inner in value.items()}
        elif key == "items":
            kept[key] = pruned(value, keeps)
        elif key in {"anyOf", "allOf"}:
            kept[key] = [pruned(inner, keeps) for inner in value]
        elif keeps(key, value):
            kept[key] = value
    return kept


def reply_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a reply. Raises ProviderFault, and UnreadableReply."""
    reply = parse(body)
    if not isinstance(reply, dict):
        if body.lstrip().startswith(b"<"):
            raise answered_before(200, body, retryable=True)
        raise broken(f"is {_what_came_as(body)} in place of a JSON object")
    error = reply.get("error")
    if error and not (isinstance(error, str) and error.isspace()):
        code = error.get("code") if isinstance(error, dict) else None
        if type(code) is int and 400 <= code < 600:
            raise fault_of(code, body)
        raise broken("is an error with the status 200")
    return reply


def what_came(value: object) -> str:
    """Return which kind of JSON value something is."""
    if isinstance(value, bool):
        return "true or false"
    kinds = {dict: "an object", list: "a list", str: "a text", NoneType: "null"}
    return kinds.get(type(value), "a number")


def _what_came_as(body: bytes) -> str:
    value = parse(body)
    return what_came(value) if value is not None else f"{len(body)} bytes that are no JSON"


def answered_before(status: int, body: bytes, *, retryable: bool) -> ProviderFault:
    """Return the fault of an answer that is not the provider's: a firewall's page, say."""
    page = "a page of HTML" if body.lstrip().startswith(b"<") else _what_came_as(body)
    fault = ProviderFault(
        Reason.PROVIDER_ERROR,
        f"{page} with the status {status} came in place of its answer, perhaps from a firewall "
        "or a proxy before it; check base_url, and what this server may reach",
        retryable=retryable,
        status=status,
    )
    fault.unsent = True
    return fault


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
    wrote: of two verdicts the last one would win. Raises UnreadableReply.
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


class UnreadableReply(Exception):
    """A whole reply came, with the status 200, in a form that can't be read."""


def broken(what: str) -> UnreadableReply:
    """Return the fault of a reply with the status 200 that can't be read."""
    return UnreadableReply(f"its reply {what}")


def whole_reply(
    body: bytes,
    counted_in: str,
    counts: tuple[tuple[str, ...], tuple[str, ...]],
    read: Callable[[dict[str, Any], bytes, TokenUsage, list[str]], ChatReply],
) -> ChatReply:
    """Return what `read` makes of a reply with the status 200. Raises ProviderFault.

    The object under `counted_in` has counts of input and of output tokens. They count too where the
    reply can't be read: it is paid for all the same.
    """
    usage, odd = TokenUsage(), list[str]()
    try:
        reply = reply_object(body)
        told = optional(reply, counted_in, dict, odd)
        put_in, put_out = (tokens(told, *keys, odd=odd) for keys in counts)
        usage = TokenUsage(put_in, put_out)
        found = read(reply, body, usage, odd)
    except UnreadableReply as broken_reply:
        found = ChatReply("", FinishReason.UNTOLD, usage, "", unreadable=str(broken_reply))
    return found._replace(left_out=tuple(odd))


def permanent(reason: Reason, status: int, meaning: str) -> ProviderFault:
    """Return the fault of an error that another try won't change."""
    return ProviderFault(reason, f"it answered {status}: {meaning}", retryable=False, status=status)


def first(items: list[Any]) -> dict[str, Any]:
    """Return the first item, an object. Raises UnreadableReply when there is none."""
    if not items or not isinstance(items[0], dict):
        raise broken("holds no answer")
    return items[0]


def required(table: object, key: str, kind: type[_T]) -> _T:
    """Return a field that must be there, in its type. Raises UnreadableReply."""
    value = table.get(key) if isinstance(table, dict) else None
    if value is None:
        raise broken(f"lacks {key}")
    if not isinstance(value, kind) or isinstance(value, bool):
        raise broken(f"has {what_came(value)} as its {key}")
    return value


def optional(table: object, key: str, kind: type[_T], odd: list[str]) -> _T:
    """Return a field that may be missing or null, then an empty one of its kind.

    So it is in another type than its own, which `odd` is told.
    """
    value = table.get(key) if isinstance(table, dict) else None
    if type(value) is kind:
        return value
    if value is not None:
        odd.append(f"{key} is {what_came(value)}")
    return kind()


def tokens(table: dict[str, Any], *keys: str, odd: list[str]) -> int:
    """Return the sum of some counts of tokens; 0 where none is told, or one can't be a count."""
    total = 0
    for key in keys:
        count = table.get(key)
        if count is None:
            continue
        if isinstance(count, float) and count.is_integer():
            count = int(count)
        if type(count) is not int or count < 0:
            odd.append(f"{key} is no count of tokens")
            return 0
        total += count
    return total


def text_of(content: object, odd: list[str]) -> str:
    """Return the text of a reply's content: itself, or that of its parts, thoughts left out."""
    if content is None or isinstance(content, str):
        return content or ""
    parts, told = content if isinstance(content, list) else [content], len(odd)
    said = "".join(_part_text(part, odd) for part in parts)
    if not said and len(odd) > told:
        raise broken("has no text in its content, but other parts")
    return said


def _part_text(part: object, odd: list[str]) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        raise broken(f"has {what_came(part)} in its content")
    kind = part.get("type", "text" if "text" in part else "other")
    if part.get("thought") is True or _THOUGHT.search(str(kind)):
        return ""
    if kind in {"text", "output_text"}:
        return required(part, "text", str)
    odd.append("a part of its content has another type than text")
    return ""


_THOUGHT = re.compile("think|thought|reason")

LOG_SLACK = 1e-4
"""How far above 0 rounding may take the logarithm of a probability."""


def token_logprobs(
    places: Iterable[tuple[object, object]], key: str, value_key: str, odd: list[str]
) -> tuple[TokenLogprob, ...]:
    """Return the tokens that were chosen, each with the likeliest ones of its place.

    `places` are pairs of a token and what lists the likeliest ones under `key`. None are returned
    where a token is missing: where those behind it begin nobody knows.
    """
    found = []
    for chosen, likeliest in places:
        token = chosen.get("token") if isinstance(chosen, dict) else None
        if not isinstance(token, str):
            odd.append("logprobs lacks a token")
            return ()
        top = _likeliest(token, optional(likeliest, key, list, odd), value_key, odd)
        found.append(TokenLogprob(token, top))
    return tuple(found)


def _likeliest(
    said: str, others: list[Any], value_key: str, odd: list[str]
) -> tuple[tuple[str, float], ...]:
    """Return the tokens of one place with their logarithms; none if one of them can't be known.

    What has no logarithm, or minus infinity, is impossible; but not the token that was chosen.
    """
    top: list[tuple[str, float]] = []
    for other in others:
        pair: dict[str, Any] = other if isinstance(other, dict) else {}
        token: object = pair.get("token")
        value: Any = pair.get(value_key)
        if isinstance(token, str) and value in (None, -math.inf) and token != said:
            continue
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not isinstance(token, str) or not is_number or not -math.inf < value <= LOG_SLACK:
            odd.append("a log-probability can't be one")
            return ()
        top.append((token, min(float(value), 0.0)))
    return tuple(top)


_WORDS = {
    FinishReason.STOP: "stop stopsequence endturn tooluse toolcalls functioncall eos eostoken "
    "complete completed",
    FinishReason.LENGTH: "continuation incomplete",
    FinishReason.REFUSAL: "refusal",
    FinishReason.SAFETY: "contentfilter safety recitation blocklist prohibitedcontent spii "
    "escalation modelarmor",
}
"""What servers of all dialects call the end of a reply, in small letters and nothing else: servers
of one dialect stand before models of another, and keep their words."""
_FINISH = {word: finish for finish, words in _WORDS.items() for word in words.split()}
_CUT = re.compile("length|max.*token|tokenlimit|limit(reached|exceeded)?$|trunc|window")


def finish_reason(table: dict[str, Any], key: str, odd: list[str]) -> FinishReason:
    """Return why a model stopped: UNTOLD where nothing says so, OTHER for an unknown word."""
    value = optional(table, key, str, odd)
    if not value:
        return FinishReason.UNTOLD
    word = "".join(filter(str.isalpha, value.lower()))
    found = _FINISH.get(word)
    if found is None and _CUT.search(word):
        return FinishReason.LENGTH
    return found or FinishReason.OTHER


_NEXT_STEPS = {
    400: "it can't take the request; check the model's quirks in the llm configuration "
    "(schema_bounds, send_temperature, send_seed, max_tokens_parameter, structured)",
    404: "check base_url and the model's name in the llm configuration",
    413: "the texts are too long for it",
    422: "it can't take the request; check the model's quirks in the llm configuration",
    529: "it is overloaded",
}


def fault_of(status: int, body: bytes) -> ProviderFault:
    """Return the fault of a status other than 200."""
    says = f"it answered {status}"
    reply = parse(body)
    if status == 403 and not (isinstance(reply, dict) and reply.get("error")):
        return answered_before(status, body, retryable=False)
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
