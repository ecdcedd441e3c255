"""A provider that is a file: replies to texts, line by line, for the tests of those who use judged.

    {"contains": "capital of France", "reply": {"reasoning": "it says so", "verdict": "yes"}}
    {"contains": {"retrieved_text": ["Paris", "France"]}, "reply": "YES", "delay_ms": 20}
    {"contains": "overload", "error": "RATE_LIMITED"}
    {"reply": {"reasoning": "nothing fits", "verdict": "no"}}

No network, no limits, no retries: an error in a line is the error that the judge sees.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from judged_server.llm.chat import (
    ChatModelCard,
    ChatReply,
    ChatRequest,
    Completed,
    FinishReason,
    TokenUsage,
)
from judged_server.llm.config.configured import Structured
from judged_server.llm.faults import ProviderFault, Reason
from judged_server.llm.providers.dialect import Capabilities
from judged_server.llm.transport.clock import Clock
from judged_server.settings import SettingsError

MAX_FILE_BYTES = 16 << 20
LONGEST_DELAY_S = 3600

_BLOCK = re.compile(r'<data-(\w+) name="(\w+)">\n(.*)\n</data-\1>')
"""A text in a prompt, as `rubrics.prompt` writes it: its name, and itself as JSON."""

_CHARACTERS_A_TOKEN = 4

_KEYS = ("contains", "rubric", "reply", "finish_reason", "delay_ms", "error")
_FINISH = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "refusal": FinishReason.REFUSAL,
    "safety": FinishReason.SAFETY,
}
_ERRORS = {
    reason.value: reason
    for reason in (
        Reason.TIMEOUT,
        Reason.RATE_LIMITED,
        Reason.PROVIDER_UNREACHABLE,
        Reason.PROVIDER_ERROR,
        Reason.PROVIDER_REFUSED_KEY,
        Reason.BREAKER_OPEN,
    )
}

CAPABILITIES = Capabilities(
    structured=(Structured.JSON_SCHEMA, Structured.NONE),
    auth=(),
    refused=dict.fromkeys(
        ("logprobs", "max_tokens_parameter", "send_temperature", "send_seed", "schema_bounds"),
        "nothing is sent; leave it out",
    ),
)


@dataclass(frozen=True, slots=True)
class Line:
    """One reply, and what it answers: `needles` are pairs of a field, "" for any, and a text."""

    needles: tuple[tuple[str, str], ...]
    rubric: str
    reply: str
    finish_reason: FinishReason
    delay_s: float
    error: Reason | None

    def answers(self, texts: list[tuple[str, str]], rubric: str) -> bool:
        """Return whether each needle occurs in a text of its field."""
        return self.rubric in {"", rubric} and all(
            any(field in {"", name} and needle in text for name, text in texts)
            for field, needle in self.needles
        )


@dataclass(frozen=True, slots=True)
class Script:
    """The lines of a file, with the hash of the whole."""

    file: str
    lines: tuple[Line, ...]
    sha256: str


class FakeModel:
    """A model that answers from a script; implements chat.ChatModel."""

    def __init__(self, card: ChatModelCard, script: Script, clock: Clock) -> None:
        self.card = card
        self.cards = (card,)
        self.problem = ""
        self._script = script
        self._clock = clock

    async def complete(self, request: ChatRequest, timeout_s: float) -> Completed:
        """Return the reply of the first line that answers. Raises ProviderFault as it says."""
        began = self._clock.now()
        texts = texts_of(request.user)
        rubric = "" if request.schema is None else request.schema.name
        line = next((line for line in self._script.lines if line.answers(texts, rubric)), None)
        if line is None:
            asked = f'asked by rubric "{rubric}"' if rubric else "asked without a schema"
            raise ProviderFault(
                Reason.PROVIDER_ERROR,
                f"no line of {self._script.file} answers these texts, {asked}; add one, or a last "
                "line without contains and rubric",
                retryable=False,
                attempts=0,
            )
        if line.delay_s:
            await self._clock.sleep(min(line.delay_s, timeout_s))
        if line.delay_s > timeout_s or line.error is not None:
            raise ProviderFault(
                line.error or Reason.TIMEOUT,
                f"a line of {self._script.file} says so",
                retryable=line.error is not Reason.PROVIDER_REFUSED_KEY,
            )
        usage = TokenUsage(_tokens(request.system + request.user), _tokens(line.reply))
        reply = ChatReply(line.reply, line.finish_reason, usage, self.card.model)
        return Completed(reply, 1, self._clock.now() - began)


def texts_of(prompt: str) -> list[tuple[str, str]]:
    """Return the texts in a prompt with their names; a list gives each of its texts."""
    found: list[tuple[str, str]] = []
    for _, name, quoted in _BLOCK.findall(prompt):
        value = json.loads(quoted)
        found += [(name, text) for text in (value if isinstance(value, list) else [value])]
    return found


def read_script(path: Path) -> Script:
    """Return the lines of a file. Raises SettingsError, which names the file and the line."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise SettingsError(f"replies {path} can't be read: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise SettingsError(f"replies {path} is larger than {MAX_FILE_BYTES >> 20} MiB")
    lines = tuple(
        _line(raw, f"{path}: line {number}")
        for number, raw in enumerate(content.splitlines(), 1)
        if raw.strip()
    )
    if not lines:
        raise SettingsError(f"replies {path} holds no lines; add one, each a JSON object")
    return Script(path.name, lines, hashlib.sha256(content).hexdigest())


def _line(raw: bytes, where: str) -> Line:
    try:
        said: Any = orjson.loads(raw)
    except orjson.JSONDecodeError:
        said = None
    if not isinstance(said, dict):
        raise SettingsError(f"{where} is not a JSON object")
    for key in said:
        if key not in _KEYS:
            raise SettingsError(f"{where}: a key is not known; known: {', '.join(_KEYS)}")
    if ("reply" in said) == ("error" in said):
        raise SettingsError(f"{where}: needs either reply or error")
    reply, rubric = said.get("reply", ""), said.get("rubric", "")
    if not isinstance(reply, str | dict):
        raise SettingsError(f"{where}: reply must be a text or an object")
    if not isinstance(rubric, str):
        raise SettingsError(f"{where}: rubric must be the id of a rubric")
    return Line(
        _needles(said.get("contains", []), where),
        rubric,
        reply if isinstance(reply, str) else orjson.dumps(reply).decode(),
        _FINISH[_word(said, "finish_reason", _FINISH, where)],
        _delay_s(said.get("delay_ms", 0), where),
        _ERRORS[_word(said, "error", _ERRORS, where)] if "error" in said else None,
    )


def _word(said: dict[str, Any], key: str, known: Mapping[str, object], where: str) -> str:
    """Return one of the words that a key may have; the first without the key."""
    word = said.get(key, next(iter(known)))
    if not isinstance(word, str) or word not in known:
        raise SettingsError(f"{where}: {key} must be one of {', '.join(known)}")
    return word


def _delay_s(delay: object, where: str) -> float:
    if isinstance(delay, int | float) and not isinstance(delay, bool):
        seconds = delay / 1000
        if 0 <= seconds <= LONGEST_DELAY_S:
            return seconds
    raise SettingsError(f"{where}: delay_ms must be a number from 0 to {1000 * LONGEST_DELAY_S}")


def _needles(contains: object, where: str) -> tuple[tuple[str, str], ...]:
    table = contains if isinstance(contains, dict) else {"": contains}
    needles: list[tuple[str, str]] = []
    for name, value in table.items():
        for needle in value if isinstance(value, list) else [value]:
            if not isinstance(needle, str):
                raise SettingsError(
                    f"{where}: contains must be a text, an array of texts, or an object of either "
                    "by the names of fields"
                )
            needles.append((name, needle))
    return tuple(needles)


def _tokens(text: str) -> int:
    return len(text) // _CHARACTERS_A_TOKEN + 1
