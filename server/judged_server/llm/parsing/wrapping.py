"""What models put around an answer: a block of reasoning before it, a code fence around it.

A block of reasoning counts at the start of the reply, or when its closing tag stands alone on a
line, as it does where a chat template has written the opening one. A fence counts when it is around
the whole reply, or around the one JSON object of a reply whose other words can't be an answer. A
tag that is left over makes the reply ambiguous, since a model that quotes a judged text can repeat
a tag of that text.
"""

from __future__ import annotations

import json
import re

_TAGS = (
    *(
        (f"<{slash}{name}>".encode(), bool(slash))
        for name in ("think", "thinking", "thought", "reasoning", "reflection")
        for slash in ("", "/")
    ),
    (b"[think]", False),
    (b"[/think]", True),
)
_MAX_TAGS = 64
_FENCE = re.compile(r"```[A-Za-z0-9_+-]{0,20}[ \t]*\r?\n")
_FENCE_END = re.compile(r"\n[ \t]*```\Z")
_FENCED_OBJECT = re.compile(r"```(?:json)?[ \t]*\r?\n\s*(\{[^`]*\})\s*\n[ \t]*```", re.IGNORECASE)
# Around an object these might be another answer, or take the answer back.
_NO_REMARK = re.compile(
    r"[{}\[\]<>`\d]|\b(?:yes|no|not|none|never|wait|actually|instead|correct(?:ion|ed)?|wrong|mistake"
    r"|however|but|rather|example|ignore|format|schema|(?:ir)?relevant|(?:mis)?match(?:es)?|change"
    # What a text in the prompt orders, and a model repeats.
    r"|tasks?|repeat|reply|respond|instructions?|prompt|system|user|assistant|previous|above"
    r"|true|false|supported|contradicted|unsupported|unrelated|or)\b|n['\u2019]t\b",
    re.IGNORECASE,
)
_MAX_REMARK = 400
_SPACE = "\ufeff \t\r\n\v\f\x85\xa0\u2028\u2029"


def unwrapped(text: str) -> str:
    """Return the answer in `text` without what is around it; empty when there is none."""
    return _outside_fence(_after_reasoning(text.strip(_SPACE)))


def without_remarks(text: str) -> str:
    """Return the one JSON object in `text`, in a fence or followed by a remark; else `text`.

    A remark is prose that can't be another answer, take one back or be copied from an attack.
    """
    fenced = _FENCED_OBJECT.search(text)
    if fenced:
        inside, start, end = fenced[1], fenced.start(), fenced.end()
    elif text.startswith("{") and not text.endswith("}"):
        try:
            start, end = 0, json.JSONDecoder().raw_decode(text)[1]
        except (ValueError, RecursionError):
            return text
        inside = text[:end]
    else:
        return text
    remarks = f"{text[:start]}\n{text[end:]}"
    if len(remarks) > _MAX_REMARK or _NO_REMARK.search(remarks):
        return text
    return inside


def has_tags(text: str) -> bool:
    """Say whether a tag of reasoning is left in `text`."""
    return bool(_tags(_lower(text)))


def _after_reasoning(text: str) -> str:
    """Return what follows the reasoning; nothing follows a block that was never closed.

    A text that begins as JSON or as a fence is returned as it is: tags in it are part of it. So is
    one with more tags than any reasoning has.
    """
    if text.startswith(("{", "```")):
        return text
    raw = text.encode("utf-8", "surrogatepass")
    tags = _tags(raw.lower())
    if not tags or len(tags) > _MAX_TAGS:
        return text
    start, inside, blocks = 0, False, 0
    for place, end, closes in tags:
        if inside and closes:
            start, inside, blocks = end, False, blocks + 1
        elif not inside and not closes and not raw[start:place].strip():
            inside = True
        elif not inside:
            break
    if inside:
        return ""
    if not blocks and len(tags) == 1 and tags[0][2] and _alone(raw, *tags[0][:2]):
        start = tags[0][1]
    return raw[start:].decode("utf-8", "surrogatepass").strip(_SPACE)


def _alone(raw: bytes, place: int, end: int) -> bool:
    """Say whether what lies from `place` to `end` has its line to itself."""
    before, after = raw[:place].rstrip(b" \t"), raw[end:].lstrip(b" \t\r")
    return before.endswith(b"\n") and after[:1] in {b"", b"\n"}


def _lower(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass").lower()


def _tags(lower: bytes) -> list[tuple[int, int, bool]]:
    """Return the start, the end and the closing of each tag, in order; no more than needed."""
    found: list[tuple[int, int, bool]] = []
    for tag, closes in _TAGS:
        place = lower.find(tag)
        while place >= 0 and len(found) <= _MAX_TAGS:
            found.append((place, place + len(tag), closes))
            place = lower.find(tag, place + len(tag))
    return sorted(found)


def _outside_fence(text: str) -> str:
    """Return what the one fence around the whole of `text` holds, or `text` as it is."""
    opening = _FENCE.match(text)
    closing = _FENCE_END.search(text) if opening else None
    if not opening or not closing or closing.start() < opening.end() - 1:
        return text
    inside = text[opening.end() : closing.start()]
    if any(line.lstrip().startswith("```") for line in inside.splitlines()):
        return text
    return inside.strip(_SPACE)
