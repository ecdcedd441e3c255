"""The key of a question: all that can change its reply, hashed.

Two questions that differ in any part have different keys; what is equal has the same key on every
machine. What is read off a reply later, such as a bar, is no part of it.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING

from judged_server.llm.chat import ChatModelCard
from judged_server.llm.parsing import PARSER_VERSION
from judged_server.llm.rubrics import PROMPT_VERSION

if TYPE_CHECKING:
    from hashlib import _Hash

    from judged_server.llm.caller import Question

NAMESPACE = "judged"
"""Whose replies they are. All callers of a server share them."""

_TEXT, _LIST = b"t", b"l"


def question_key(card: ChatModelCard, question: Question, namespace: str = NAMESPACE) -> bytes:
    """Return the key of a question to a model: SHA-256, 32 bytes.

    Over the namespace, the model, the rubric, how it is asked, and each text that the rubric shows
    under its name, all in UTF-8 behind their lengths, lists behind the number of their texts.
    """
    rubric = question.rubric
    sha256 = _asked(
        namespace,
        card.provider,
        card.dialect,
        card.model,
        card.conditions,
        str(card.structured),
        rubric.id,
        str(rubric.version),
        rubric.sha256,
        repr(float(question.temperature)),
        str(question.max_tokens),
        str(question.logprobs),
    ).copy()
    pieces = [question.number.to_bytes(8, "little")]
    for name in rubric.fields:
        value = question.fields[name]
        if isinstance(value, str):
            pieces += _name(name), _TEXT, _prefixed(value)
        else:
            pieces += _name(name), _LIST, len(value).to_bytes(8, "little")
            pieces += map(_prefixed, value)
    sha256.update(b"".join(pieces))
    return sha256.digest()


@lru_cache(maxsize=1024)
def _asked(*parts: str) -> _Hash:
    """Return what all questions of one rubric to one model begin with; not to be changed."""
    versions = (str(PROMPT_VERSION), str(PARSER_VERSION))
    return hashlib.sha256(b"".join(_prefixed(part) for part in (*versions, *parts)))


@lru_cache(maxsize=64)
def _name(name: str) -> bytes:
    return _prefixed(name)


def _prefixed(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogatepass")
    return len(raw).to_bytes(8, "little") + raw
