"""What came back, in a form that is the same whenever the product does the same."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from google.protobuf import json_format, message

from tests.goldens.meant import RENAMED

ROOM = 4096
HIDDEN = {
    "latency",
    "latency_s",
    "renewed_at",
    "created_at",
    "day",
    "days",
    "retry_delay",
    "request_id",
    "canary",
}
"""Fields of messages and documents that have a time or a chance of their own."""
LEFT_OUT = {"cached", "shared", "attempts"}
"""Counts of replies that were there before or came meanwhile, and of tries, as it happened."""
_MASKS = [
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)?)?"), "<time>"),
    (re.compile(r"\b127\.0\.0\.1:\d{4,5}\b"), "<address>"),
    (re.compile(r" in \d+ tr(y|ies)\b"), ""),
    (re.compile(r"; \d+ (samples? from the cache|shared with another caller)"), ""),
    (re.compile(r"(?<=\bin )\d+(\.\d+)? (?=(s|ms|seconds?)\b)"), "<n> "),
]


def masked(text: str, *folders: str) -> str:
    """Hide what differs each time: folders of the run, addresses, times and ids."""
    for folder in folders:
        text = text.replace(folder, "<folder>")
    for pattern, instead in _MASKS:
        text = pattern.sub(instead, text)
    return text


def plain(value: Any, *folders: str, digits: int = 12) -> Any:
    """Return JSON with floats of so many digits, sorted keys, nothing that differs each time."""
    match value:
        case message.Message():
            made = json_format.MessageToDict(value, preserving_proto_field_name=True)
            return plain(made, *folders, digits=digits)
        case dict():
            kept = [(str(key), each) for key, each in value.items() if key not in LEFT_OUT]
            named = {RENAMED.get(key, key): each for key, each in kept}
            return {
                masked(key, *folders): "*"
                if key in HIDDEN
                else plain(each, *folders, digits=digits)
                for key, each in sorted(named.items(), key=lambda item: item[0])
            }
        case list():
            return [plain(each, *folders, digits=digits) for each in value]
        case float():
            return float(f"{value:.{digits}g}")
        case str():
            return masked(value, *folders)
    return value


def shortened(value: Any, room: int = ROOM) -> Any:
    """Return a value, or hashes of its parts where it takes more than so many characters."""
    if len(text := dumped(value)) <= room:
        return value
    match value:
        case dict():
            return {
                key: shortened(each, max(200, room // len(value))) for key, each in value.items()
            }
        case list():
            run = -(-len(value) // 32)
            parts = {
                f"{at}..": _hash(dumped(value[at : at + run])) for at in range(0, len(value), run)
            }
            return {"items": len(value), "sha256": parts}
        case str():
            lines = value.splitlines(keepends=True)
            if len(lines) > 1:
                return {"lines": shortened(lines, room)}
    return {"characters": len(text), "begins": text[:80], "sha256": _hash(text)}


def dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def differences(before: Any, after: Any, where: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield where two values differ, and what each has there."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            inner = f"{where}.{key}" if where else key
            yield from differences(before.get(key, _NONE), after.get(key, _NONE), inner)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from differences(one, other, f"{where}[{number}]")
    elif isinstance(before, str) and isinstance(after, str) and "\n" in before + after:
        one, other = ([*text.splitlines(), "<end>"] for text in (before, after))
        number = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
        if before != after:
            yield f"{where} line {number + 1}", _shown(one[number]), _shown(other[number])
    elif before != after or type(before) is not type(after):
        yield where, _shown(before), _shown(after)


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


_NONE = _Nothing()


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, _Nothing) else dumped(value)
    return text if len(text) <= 160 else f"{text[:160]}..."
