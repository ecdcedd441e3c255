"""A provider that answers from a file, one reply a line, for tests of code that uses judged.

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
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import orjson
from pydantic import Field
from pydantic.dataclasses import dataclass as table

from judged_server.llm.chat import (
    ChatModelCard,
    ChatReply,
    ChatRequest,
    Completed,
    FinishReason,
    ProviderFault,
    Reason,
    TokenUsage,
)
from judged_server.llm.config import STRICT, read
from judged_server.llm.transport.endpoint import Clock
from judged_server.settings import SettingsError, content_of

LONGEST_DELAY_S = 3600

_BLOCK = re.compile(r'<data-(\w+) name="(\w+)">\n(.*)\n</data-\1>')
"""A data block of a prompt, as `question` writes it: the name of the text, and the text as JSON."""

_CHARACTERS_A_TOKEN = 4

_Texts = str | list[str]


@table(frozen=True, config=STRICT)
class Line:
    """One reply, and the texts that it answers: needles by field, "" for any field."""

    contains: _Texts | dict[str, _Texts] = Field(default_factory=list[str])
    rubric: str = ""
    reply: str | dict[str, Any] | None = None
    finish_reason: Literal["stop", "length", "refusal", "safety"] = "stop"
    delay_ms: Annotated[float, Field(ge=0, le=1000 * LONGEST_DELAY_S)] = 0
    error: (
        Literal[
            "TIMEOUT",
            "RATE_LIMITED",
            "PROVIDER_UNREACHABLE",
            "PROVIDER_ERROR",
            "PROVIDER_REFUSED_KEY",
            "BREAKER_OPEN",
        ]
        | None
    ) = None

    def __post_init__(self) -> None:
        if (self.reply is None) == (self.error is None):
            raise ValueError("needs either reply or error")

    @cached_property
    def text(self) -> str:
        """The reply as a model would write it."""
        return self.reply if isinstance(self.reply, str) else orjson.dumps(self.reply).decode()

    @cached_property
    def _needles(self) -> list[tuple[str, str]]:
        by_field = self.contains if isinstance(self.contains, dict) else {"": self.contains}
        return [
            (field, needle)
            for field, needles in by_field.items()
            for needle in ([needles] if isinstance(needles, str) else needles)
        ]

    def answers(self, texts: list[tuple[str, str]], rubric: str) -> bool:
        """Return whether each needle occurs in a text of its field."""
        return self.rubric in {"", rubric} and all(
            any(field in {"", name} and needle in text for name, text in texts)
            for field, needle in self._needles
        )


@dataclass(frozen=True, slots=True)
class Script:
    """The lines of a file, and the hash of the file."""

    file: str
    lines: tuple[Line, ...]
    sha256: str


@dataclass(frozen=True, slots=True)
class FakeModel:
    """A model that answers from a script; `fallback` is asked in its place when it fails."""

    card: ChatModelCard
    script: Script
    clock: Clock
    fallback: Any = None  # a ChatModel
    problem: ClassVar[str] = ""
    unavailable: ClassVar[str] = ""

    async def complete(self, request: ChatRequest, timeout_s: float) -> Completed:
        """Return the reply of the first line that matches. Raises ProviderFault if that says so."""
        began = self.clock.now()
        texts = texts_of(request.user)
        rubric = "" if request.schema is None else request.schema.name
        line = next((line for line in self.script.lines if line.answers(texts, rubric)), None)
        if line is None:
            asked = f'asked by rubric "{rubric}"' if rubric else "asked without a schema"
            raise ProviderFault(
                Reason.PROVIDER_ERROR,
                f"no line of {self.script.file} answers these texts, {asked}; add one, or a last "
                "line without contains and rubric",
                retryable=False,
                attempts=0,
            )
        delay_s = line.delay_ms / 1000
        if delay_s:
            await self.clock.sleep(min(delay_s, timeout_s))
        if delay_s > timeout_s or line.error is not None:
            reason = Reason(line.error or "TIMEOUT")
            raise ProviderFault(
                reason,
                f"a line of {self.script.file} says so",
                retryable=reason is not Reason.PROVIDER_REFUSED_KEY,
            )
        usage = TokenUsage(_tokens(request.system + request.user), _tokens(line.text))
        finish = FinishReason[line.finish_reason.upper()]
        reply = ChatReply(line.text, finish, usage, self.card.model)
        return Completed(reply, 1, self.clock.now() - began)


def texts_of(prompt: str) -> list[tuple[str, str]]:
    """Return the names and texts in a prompt; a list gives one pair for each of its texts."""
    found: list[tuple[str, str]] = []
    for _, name, quoted in _BLOCK.findall(prompt):
        value = json.loads(quoted)
        found += [(name, text) for text in (value if isinstance(value, list) else [value])]
    return found


def read_script(path: Path) -> Script:
    """Return the lines of a file. Raises SettingsError, which names the file and the line."""
    content = content_of(path, "replies")
    lines = tuple(
        _line(raw, f"{path}: line {at}")
        for at, raw in enumerate(content.splitlines(), 1)
        if raw.strip()
    )
    if not lines:
        raise SettingsError(f"replies {path} holds no lines; add one, each a JSON object")
    return Script(path.name, lines, hashlib.sha256(content).hexdigest())


def _line(raw: bytes, source: str) -> Line:
    try:
        content: Any = orjson.loads(raw)
    except orjson.JSONDecodeError:
        content = None
    if not isinstance(content, dict):
        raise SettingsError(f"{source} is not a JSON object")
    line: Line = read(Line, content, source)
    return line


def _tokens(text: str) -> int:
    return len(text) // _CHARACTERS_A_TOKEN + 1
