"""Questions to language models, their keys, and the requests that models get.

A key is a hash of all that can change the reply: questions that differ in any part have different
keys, and equal questions have the same key on every machine. What is applied to a reply later, such
as a threshold, is not part of it. In a request every text is in a data block:

    <data-hkqz... name="retrieved_text">
    "the text, as a JSON string on one line"
    </data-hkqz...>

A list of texts is one block with a JSON array of strings. The marker is random for each request, so
a text can't know it. Nor could a text use it: `<`, `>` and `&` are escaped, as are look-alikes,
line ends, invisible characters, and square brackets around words that chat templates interpret. A
model can still read escaped text, and a JSON reader restores it. This protects the structure of the
prompt; it can't keep a model from believing what a text says.
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
    """One sample to ask for: a rubric, the texts of its fields by name, and the sample's number.

    Samples of the same item differ in `number` only, from 0 to MAX_SAMPLES - 1.
    """

    rubric: Rubric
    fields: Mapping[str, FieldValue]
    number: int
    temperature: float
    max_tokens: int


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A question that a call may ask, as known before the call starts.

    With `times` above 1 it stands for so many checks of claims, whose texts are not known before
    the claims are extracted.
    """

    model: ChatModel
    question: Question
    times: int = 1


def question_key(card: ChatModelCard, question: Question) -> bytes:
    """Return the key of a question to a model: SHA-256, 32 bytes.

    Covers the model, the rubric, how it is asked, and each text of the rubric's fields with its
    name. Each is UTF-8 after its length; a list comes after the number of its texts.
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
    """Return the part that the keys of all questions to a model by a rubric share."""
    return b"".join(map(_prefixed, names))


def _prefixed(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogatepass")
    return len(raw).to_bytes(8, "little") + raw


PROMPT_VERSION = 1
"""Increased with every change of the data blocks or the escaping, which can change a score."""

# Sixteen letters that no JSON escape contains, neither as a digit nor as a letter (\b \n \r \t \u).
# So a nonce found in an escaped text is part of the text, never of an escape.
_LETTERS = str.maketrans("0123456789abcdef", "ghijklmopqsvwxyz")

# Runs of invisible characters and of look-alikes: forms of < > & " \ that compatibility
# normalisation, which some tokenizers apply, turns into these characters.
_HIDDEN = re.compile(
    "["
    "\x80-\x9f"  # controls that JSON leaves alone
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # invisible
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero width, line ends, directions
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff"
    "\ue000-\uf8ff\ufdd0-\ufdef"  # private use, noncharacters
    "\ufe60\ufe64\ufe65\ufe68\uff02\uff06\uff1c\uff1e\uff3c"  # look-alikes
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U0010ffff"  # tags, more variation selectors, private use
    "]+"
)
# The bracket of [INST], [/INST], [SYSTEM_PROMPT] and the like.
_BRACKET = re.compile(r"[\[\uff3b](?=/?[A-Za-z_]{2,32}[\]\uff3d])")
_SURROGATE = re.compile("[\ud800-\udfff]")


_DRAWN_TOGETHER = 64
"""Nonces made of one read of the system's random bits: each read lets another thread run first."""
_NONCES: list[str] = []
"""Nonces that are not used yet."""


def new_nonce() -> str:
    """Return the marker of one request's data blocks: 32 letters, 128 random bits."""
    if not _NONCES:
        letters = secrets.token_hex(16 * _DRAWN_TOGETHER).translate(_LETTERS)
        _NONCES.extend(letters[at : at + 32] for at in range(0, len(letters), 32))
    return _NONCES.pop()


def request_for(
    question: Question, nonce: str, *, structured: bool, attempt: int = 0, repair: str = ""
) -> ChatRequest:
    """Return the request for a question; the nonce marks its data blocks.

    `structured` asks for a reply that matches the rubric's schema, else for its plain answer. The
    instructions are the same for every context, so that a provider may cache them. `attempt` counts
    from 0; `repair` says what was wrong with the previous reply, without quoting it.
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
        # Different for every sample of an item, so that no sample repeats another.
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
    """Return `text` as a JSON string without anything that a model or tokenizer could interpret.

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
    "[\U000e0001\U000e0020-\U000e007f"  # tags: invisible letters
    "\u202a-\u202e\u2066-\u2069]"  # directional controls, which reorder letters
)
_EMOJI_TAGS = re.compile("\U0001f3f4[\U000e0020-\U000e007e]{1,16}\U000e007f")
"""The flags of England, Scotland and Wales are spelt with tags."""


def holds_reserved(text: str) -> bool:
    """Return whether a text has a token of a chat template, a tag or a directional control."""
    if ("<" in text or "[" in text) and _TOKENS.search(text):
        return True
    if text.isascii():
        return False
    return _RESERVED_CHARACTERS.search(_EMOJI_TAGS.sub("", text)) is not None
