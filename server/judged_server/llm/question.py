"""A question to a language model, and its key: all that can change its reply, hashed.

Two questions that differ in any part have different keys; what is equal has the same key on every
machine. What is read off a reply later, such as a threshold, is no part of it. Below it, from a
rubric and the texts of one context to the request that a model gets:

    <data-hkqz... name="retrieved_text">
    "the text, as a JSON string on one line"
    </data-hkqz...>

A list of texts is one block too, which holds a JSON array of such strings. The marker is drawn anew
for each request, so a text can't know it. Nor could a text use it: `<`, `>` and `&` are escaped, as
are their look-alikes, line ends, everything invisible, and words in square brackets, which some
chat templates give a meaning. What is escaped stays readable for the model, and a JSON reader gets
the text back unchanged. This guards the form of the prompt. That a model does not *believe* what a
text says, nothing here can promise.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import NamedTuple

from judged_server.llm.chat import ChatModelCard, ChatRequest
from judged_server.llm.models import ChatModel
from judged_server.llm.parsing import PARSER_VERSION
from judged_server.llm.rubrics.rubric import NONCE, FieldValue, Rubric

MAX_SAMPLES = 32

_TEXT, _LIST = b"t", b"l"


class Question(NamedTuple):
    """One sample to be had: a rubric, the texts it shows by their names, and the sample's number.

    Samples of one matter differ in `number` only, from 0 to MAX_SAMPLES - 1.
    """

    rubric: Rubric
    fields: Mapping[str, FieldValue]
    number: int
    temperature: float
    max_tokens: int


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


def question_key(card: ChatModelCard, question: Question) -> bytes:
    """Return the key of a question to a model: SHA-256, 32 bytes.

    Over the model, the rubric, how it is asked, and each text that the rubric shows
    under its name, all in UTF-8 behind their lengths, lists behind the number of their texts.
    """
    rubric = question.rubric
    asked = _asked(
        str(PROMPT_VERSION),
        str(PARSER_VERSION),
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
    )
    pieces = [asked, question.number.to_bytes(8, "little")]
    for name in rubric.fields:
        value = question.fields[name]
        if isinstance(value, str):
            pieces += _prefixed(name), _TEXT, _prefixed(value)
        else:
            pieces += _prefixed(name), _LIST, len(value).to_bytes(8, "little")
            pieces += map(_prefixed, value)
    return hashlib.sha256(b"".join(pieces)).digest()


@lru_cache(1 << 8)
def _asked(*names: str) -> bytes:
    """Return what is alike in the keys of all questions to a model by a rubric."""
    return b"".join(map(_prefixed, names))


def _prefixed(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogatepass")
    return len(raw).to_bytes(8, "little") + raw


PROMPT_VERSION = 1
"""Counts up with every change of the data blocks or of the escaping: they can change a score."""

# Sixteen letters that no JSON escape contains, neither as a digit nor as a letter (\b \n \r \t \u).
# So a nonce found in an escaped text is a nonce of the text, never the inside of an escape.
_LETTERS = str.maketrans("0123456789abcdef", "ghijklmopqsvwxyz")

# Runs of what a reader can't see, and of look-alikes: forms of < > & " \ that compatibility
# normalisation, as some tokenizers do it, makes real.
_HIDDEN = re.compile(
    "["
    "\x80-\x9f"  # controls that JSON leaves alone
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # invisible
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero width, line ends, directions
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff"
    "\ue000-\uf8ff\ufdd0-\ufdef"  # private use, no characters
    "\ufe60\ufe64\ufe65\ufe68\uff02\uff06\uff1c\uff1e\uff3c"  # look-alikes
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U0010ffff"  # tags, more variation selectors, private use
    "]+"
)
# The bracket of [INST], [/INST], [SYSTEM_PROMPT] and their kind.
_BRACKET = re.compile(r"[\[\uff3b](?=/?[A-Za-z_]{2,32}[\]\uff3d])")
_SURROGATE = re.compile("[\ud800-\udfff]")


def new_nonce() -> str:
    """Return 32 letters of 128 random bits: the marker of one request's data blocks."""
    return secrets.token_hex(16).translate(_LETTERS)


def request_for(
    question: Question, nonce: str, *, structured: bool, attempt: int = 0, repair: str = ""
) -> ChatRequest:
    """Return a question as it is put to a model, its texts behind a marker, the nonce.

    `structured` asks for a reply by the rubric's schema, else for one in the words of its plain
    answer. The instructions are the same for every context, so that a provider may cache them.
    `attempt` counts from 0; `repair` says what was wrong with the reply before, never with words of
    that reply.
    """
    rubric = question.rubric
    pieces = list(rubric.parts)
    for place in range(1, len(pieces), 2):
        name = pieces[place]
        pieces[place] = nonce if name == NONCE else data_block(name, question.fields[name], nonce)
    if repair:
        pieces.append(
            f"\n\nAn earlier reply to this could not be used: {repair}. Reply again, in the form "
            "that is asked for and with nothing else."
        )
    return ChatRequest(
        system=rubric.structured_system if structured else rubric.plain_system,
        user="".join(pieces),
        schema=rubric.schema if structured else None,
        max_tokens=question.max_tokens,
        temperature=question.temperature,
        # Numbers that no other sample of the context has, so that none repeats another.
        seed=question.number + attempt * MAX_SAMPLES,
    )


def data_block(name: str, value: FieldValue, nonce: str) -> str:
    """Return three lines: the opening marker, `value` as JSON on one line, the closing marker."""
    if isinstance(value, str):
        content = _quoted(value, nonce)
    else:
        content = "[" + ", ".join([_quoted(text, nonce) for text in value]) + "]"
    return f'<data-{nonce} name="{name}">\n{content}\n</data-{nonce}>'


def _quoted(text: str, nonce: str) -> str:
    """Return `text` as a JSON string that holds nothing a model or a tokenizer could act on.

    A lone surrogate, which no request can carry, becomes U+FFFD.
    """
    quoted = encode_basestring(text)
    # None of these is part of a JSON escape, so they can be replaced after quoting.
    quoted = quoted.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    quoted = quoted.replace("\x7f", "\\u007f")
    if "[" in quoted or "\uff3b" in quoted:
        quoted = _BRACKET.sub(lambda bracket: f"\\u{ord(bracket[0]):04x}", quoted)
    if not quoted.isascii():
        quoted = _SURROGATE.sub("\ufffd", quoted)
        quoted = _HIDDEN.sub(lambda hidden: encode_basestring_ascii(hidden[0])[1:-1], quoted)
    while nonce in quoted:  # again, as two of them may overlap
        quoted = quoted.replace(nonce, f"\\u{ord(nonce[0]):04x}{nonce[1:]}")
    return quoted


_ROLES = "system|user|assistant|tool|ipython"
_TOKENS = re.compile(
    r"<[|\uff5c][^<>|\uff5c\s]{1,40}[|\uff5c]>"  # <|im_start|>, <|eot_id|>, and in full width
    r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]"
    r"|<</?SYS>>"
    r"|</?(?:start|end)_of_(?:turn|text|role)>"
    rf"|<(?:bos|eos)>|<\|?(?:{_ROLES})\|>"
    r"|</?data-[a-z]{32}\b"  # a block of our own
)
_RESERVED_CHARACTERS = re.compile(
    "[\U000e0001\U000e0020-\U000e007f"  # tags: letters that nobody sees
    "\u202a-\u202e\u2066-\u2069]"  # directions, which show letters in another order
)
_EMOJI_TAGS = re.compile("\U0001f3f4[\U000e0020-\U000e007e]{1,16}\U000e007f")
"""The flags of England, Scotland and Wales are spelt with tags."""


def holds_reserved(text: str) -> bool:
    """Say whether a text holds a token of a chat template, a tag or a turn of direction."""
    if ("<" in text or "[" in text) and _TOKENS.search(text):
        return True
    if text.isascii():
        return False
    return _RESERVED_CHARACTERS.search(_EMOJI_TAGS.sub("", text)) is not None
