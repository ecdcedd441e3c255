"""Turns texts into windows of token ids, each with the model's special tokens."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from judged.values.choices import Flag
from numpy.typing import NDArray
from tokenizers import Tokenizer

from judged_server.domain import ByteArray, plain_form
from judged_server.embedding.base import (
    EMBEDDING_FAILED,
    REJECT,
    TEXT_TOO_LONG,
    TRUNCATE,
    UNSUPPORTED_TEXT,
    WINDOW_MAX,
)

TokenIds = NDArray[np.int64]

PIECE_CHARS = 16_384
"""Longer texts are tokenised in pieces of this length, where that provably changes nothing. A
million characters of punctuation at once take 300 MB."""

_MARK = r"[!-/:-@\\^-`{-~]"
_IDEOGRAPH = r"[\u4e00-\u9fff]"
_CUT = re.compile(rf"[ \t\n\r]|{_MARK}(?={_MARK})|{_IDEOGRAPH}(?={_IDEOGRAPH})")
"""Where a BERT tokenizer's text may be cut: after white space, between two ASCII punctuation marks
(without brackets, which special tokens hold) and between two ideographs. All are boundaries of
words, and no normalisation of Unicode joins or reorders across them."""

UNKNOWN_SHARE = 0.1
"""A text is flagged if more than this share of the tokens of its words is unknown."""
SPELT_SHARE = 0.4
"""Or if more than this share is unknown or single letters of another alphabet inside words.
docs/models.md has the measurements of both."""
_NO_WORD, _WORD, _LETTER, _UNKNOWN = range(4)
_NOTHING_KNOWN = (
    "the vocabulary of the model has no word of this text: name a model of its language in the "
    "parameter model (judged-server models add), or take the judge token_overlap with the profile "
    "unicode"
)

_PROBE = "a"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TokenizedText:
    """One text's windows, special tokens included: one, or several under `window_max`.

    A text with a `fault` (reason, message) has none. Windows without any word that the model knows
    are left out; a text with no other windows has a fault.
    """

    windows: tuple[TokenIds, ...]
    flag: Flag = Flag.NONE
    fault: tuple[str, str] | None = None


_DROPPED = re.compile(
    r"\s*[{0}][\s{0}]*".format(
        r"\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ue000-\uf8ff\ufffd\U000f0000-\U0010ffff"
    )
)
"""A text of control characters and letters of private use, which BERT tokenizers drop."""
_NO_WORDS = TokenizedText((), fault=(UNSUPPORTED_TEXT, _NOTHING_KNOWN))


class WindowTokenizer:
    """A model's tokenizer with its window. Safe to call from several threads."""

    def __init__(
        self, raw: bytes, max_tokens: int, prefix: str = "", piece_chars: int = PIECE_CHARS
    ) -> None:
        """Read a tokenizer.json; `prefix` is put before every text, and before each of its windows.

        Texts of more than `piece_chars` characters are tokenised in pieces of about as many. Raises
        ValueError if it is not a tokenizer.json, or the window is too small.
        """
        try:
            self._tokenizer = Tokenizer.from_buffer(raw)
        except Exception as error:
            raise ValueError("it is not a tokenizer this version of tokenizers reads") from error
        settings = json.loads(raw)
        self._kinds = _kinds(settings["model"], self._tokenizer)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._can_cut = _is_bert(settings)
        self._piece_chars = piece_chars
        self._before, self._after = self._special_tokens()
        self.max_tokens = max_tokens
        self.capacity = max_tokens - len(self._before) - len(self._after)
        """How many tokens of text a window holds, those of the prefix among them."""
        self._prefix = prefix
        self._prefix_ids = self._read_prefix()
        room = self.capacity - len(self._prefix_ids)
        if room < 1:
            raise ValueError(f"a window of {max_tokens} tokens leaves no room for text")
        self.overlap = room // 8
        """How many tokens of text two neighbouring windows share, so that a sentence on a border
        stands whole in one of them."""

    def encode(self, texts: Sequence[str], long_text: str) -> list[TokenizedText]:
        """Return the windows of each text in plain form; `long_text` is of LONG_TEXT_POLICIES.

        A text that the tokenizer fails on gets a fault; the other texts are not affected.
        """
        texts = [self._prefix + plain_form(text) for text in texts]
        short = [i for i, text in enumerate(texts) if len(text) <= self._piece_chars]
        token_ids = dict(zip(short, self._encode_batch([texts[i] for i in short]), strict=True))
        wanted = None if long_text == WINDOW_MAX else self.capacity + 1
        return [
            _NO_WORDS
            if _DROPPED.fullmatch(text, len(self._prefix))
            else self._to_windows(
                token_ids[i] if i in token_ids else self._encode_long(text, wanted), long_text
            )
            for i, text in enumerate(texts)
        ]

    def _to_windows(self, token_ids: TokenIds | None, long_text: str) -> TokenizedText:
        if token_ids is None:
            return TokenizedText((), fault=(EMBEDDING_FAILED, "the tokenizer failed on this text"))
        if len(token_ids) <= self.capacity:
            return self._known([token_ids], Flag.NONE)
        if long_text == TRUNCATE:
            return self._known([token_ids[: self.capacity]], Flag.TRUNCATED)
        if long_text == REJECT:
            message = (
                f"the text has more than {self.max_tokens} tokens, the model's window, and "
                "long_text is reject; shorten it, or set long_text to truncate or window_max"
            )
            return TokenizedText((), fault=(TEXT_TOO_LONG, message))
        head = self._head(token_ids)
        body = token_ids[len(head) :]
        room = self.capacity - len(head)
        starts = range(0, len(body) - self.overlap, room - self.overlap)
        windows = [np.concatenate((head, body[start : start + room])) for start in starts]
        return self._known(windows, Flag.WINDOWED)

    def _known(self, windows: Sequence[TokenIds], flag: Flag) -> TokenizedText:
        """Return the windows with a known word; flags the text if one has many unknown tokens."""
        known: list[TokenIds] = []
        for token_ids in windows:
            if self._kinds is not None:
                own = token_ids[len(self._head(token_ids)) :]
                _, words, letters, unknown = np.bincount(self._kinds[own], minlength=4).tolist()
                if unknown and not words + letters:
                    flag |= Flag.UNKNOWN_TOKENS
                    continue
                total = words + letters + unknown
                if unknown > UNKNOWN_SHARE * total or unknown + letters > SPELT_SHARE * total:
                    flag |= Flag.UNKNOWN_TOKENS
            known.append(self._wrap(token_ids))
        if not known:
            return _NO_WORDS
        return TokenizedText(tuple(known), flag)

    def _head(self, token_ids: TokenIds) -> TokenIds:
        """Return the tokens of the prefix; its last one may have merged with the text's first."""
        size = min(len(self._prefix_ids), len(token_ids))
        differ = np.flatnonzero(token_ids[:size] != self._prefix_ids[:size])
        return token_ids[: differ[0] if len(differ) else size]

    def _wrap(self, token_ids: TokenIds) -> TokenIds:
        return np.concatenate((self._before, token_ids, self._after))

    def _encode_batch(self, texts: list[str]) -> list[TokenIds | None]:
        """Return the ids of each text, None for one that the tokenizer fails on."""
        try:
            encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
            return [np.array(encoding.ids, np.int64) for encoding in encodings]
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - a panic in Rust is not an Exception
            name = type(error).__name__
            logger.warning("%d texts could not be tokenised together: %s", len(texts), name)
        return [None] if len(texts) == 1 else [self._encode_one(text) for text in texts]

    def _encode_one(self, text: str) -> TokenIds | None:
        return self._encode_batch([text])[0]

    def _encode_long(self, text: str, wanted: int | None) -> TokenIds | None:
        """Return a text's ids; stops once it has `wanted` of them."""
        parts: list[TokenIds] = []
        found = 0
        for piece in _pieces(text, self._piece_chars) if self._can_cut else (text,):
            part = self._encode_one(piece)
            if part is None:
                return None
            parts.append(part)
            found += len(part)
            if wanted is not None and found >= wanted:
                break
        return np.concatenate(parts)

    def _read_prefix(self) -> TokenIds:
        token_ids = self._encode_one(self._prefix) if self._prefix else np.zeros(0, np.int64)
        if token_ids is None:
            raise ValueError("it fails on the model's prefix")
        return token_ids

    def _special_tokens(self) -> tuple[TokenIds, TokenIds]:
        """Return the special tokens before and after those of a single text."""
        whole = self._tokenizer.encode(_PROBE)
        token_ids = np.array(whole.ids, np.int64)
        own = np.flatnonzero(np.array(whole.special_tokens_mask) == 0)
        if not len(own):
            raise ValueError("its special tokens can't be told from the tokens of a text")
        return token_ids[: own[0]], token_ids[own[-1] + 1 :]


def _pieces(text: str, chars: int) -> Iterator[str]:
    """Yield a text in pieces of about `chars`; a stretch that can't be cut stays whole."""
    start = 0
    while start < len(text):
        cut = _CUT.search(text, start + chars)
        end = cut.end() if cut else len(text)
        yield text[start:end]
        start = end


def _kinds(model: dict[str, Any], tokenizer: Tokenizer) -> ByteArray | None:
    """Return the kind of each token, None if the vocabulary has a token for every text.

    Single non-ASCII letters inside words have their own kind if the vocabulary marks pieces inside
    words, as WordPiece does, and has longer ones too.
    """
    name = model.get("unk_token")
    unknown = tokenizer.token_to_id(name) if name else model.get("unk_id")
    if unknown is None:
        return None
    inside = model.get("continuing_subword_prefix") or ""
    vocabulary = tokenizer.get_vocab()
    kinds = np.full(max(vocabulary.values()) + 1, _NO_WORD, np.uint8)
    for token, number in vocabulary.items():
        if any(map(str.isalnum, token)):
            kinds[number] = _WORD
    pieces = [token for token in vocabulary if inside and token.startswith(inside)]
    pieces = [piece for piece in pieces if piece[len(inside) :].isalpha()]
    if any(len(piece) > len(inside) + 1 for piece in pieces):
        letters = [p for p in pieces if len(p) == len(inside) + 1 and not p[-1].isascii()]
        kinds[[vocabulary[letter] for letter in letters]] = _LETTER
    kinds[unknown] = _UNKNOWN
    return kinds


def _is_bert(settings: dict[str, Any]) -> bool:
    """Return whether words are split as in BERT, so that cutting between them is exact."""

    def kind(part: str) -> object:
        value = settings.get(part)
        return value.get("type") if isinstance(value, dict) else None

    parts = (kind("normalizer"), kind("pre_tokenizer"), kind("model"))
    if parts != ("BertNormalizer", "BertPreTokenizer", "WordPiece"):
        return False
    if not settings["normalizer"].get("handle_chinese_chars"):
        return False
    added = settings.get("added_tokens") or []
    return not any(
        token.get("lstrip")
        or token.get("rstrip")
        or token.get("single_word")
        or _CUT.search(token["content"])
        for token in added
    )
