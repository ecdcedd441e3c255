"""A question to a language model, and its key: all that can change its reply, hashed.

Two questions that differ in any part have different keys; what is equal has the same key on every
machine. What is read off a reply later, such as a threshold, is no part of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from judged_server.llm.chat import ChatModel, ChatModelCard, ChatRequest
from judged_server.llm.parsing.reply import PARSER_VERSION
from judged_server.llm.rubrics.prompt import PROMPT_VERSION, write
from judged_server.llm.rubrics.rubric import FieldValue, Rubric

if TYPE_CHECKING:
    from hashlib import _Hash

MAX_SAMPLES = 32

_TEXT, _LIST = b"t", b"l"


class Question(NamedTuple):
    """One sample to be had: a rubric, the texts it shows by their names, and the sample's number.

    Samples of one matter differ in `number` only, from 0 to MAX_SAMPLES - 1. With `logprobs`
    the score is the probability of a yes, by `parsing.probabilities`.
    """

    rubric: Rubric
    fields: Mapping[str, FieldValue]
    number: int
    temperature: float
    max_tokens: int
    logprobs: bool = False


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A question that work may ask, `times` times, before the work has begun.

    It is `settled` when its texts are known already; a check of claims that nobody has listed yet
    is not.
    """

    model: ChatModel
    question: Question
    times: int = 1
    settled: bool = True


def request_for(
    card: ChatModelCard, question: Question, nonce: str, attempt: int = 0, repair: str = ""
) -> ChatRequest:
    """Return a question as it is put to a model, the texts behind a marker, the nonce.

    `attempt` counts from 0; `repair` says what was wrong with the reply before.
    """
    request = write(
        question.rubric,
        question.fields,
        nonce,
        structured=card.structured,
        max_tokens=question.max_tokens,
        temperature=question.temperature,
        # Numbers that no other sample of the context has, so that none repeats another.
        seed=question.number + attempt * MAX_SAMPLES,
        repair=repair,
    )
    return request._replace(logprobs=True) if question.logprobs else request


def question_key(card: ChatModelCard, question: Question) -> bytes:
    """Return the key of a question to a model: SHA-256, 32 bytes.

    Over the model, the rubric, how it is asked, and each text that the rubric shows
    under its name, all in UTF-8 behind their lengths, lists behind the number of their texts.
    """
    rubric = question.rubric
    sha256 = _asked(
        "judged",
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
