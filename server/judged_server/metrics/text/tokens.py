"""The tokens of texts in plain form, made once for each distinct word and text of a request."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from judged_server.domain.text_form import plain_form
from judged_server.metrics.text import porter_stemmer, tokenizer_13a
from judged_server.scheduling.checkpoint import checkpoint

_WORDS = re.compile(r"[a-z0-9]+")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, slots=True)
class Form:
    """A way from text to tokens: `prepare` the text, split it at white space, `split` each word.

    Texts come in `plain_form`.
    """

    name: str
    prepare: Callable[[str], str]
    split: Callable[[str], list[str]]


def split_stems(word: str) -> list[str]:
    """Return the stems of a word in lower case, which has no white space."""
    return [porter_stemmer.stem(part) if len(part) > 3 else part for part in _WORDS.findall(word)]


def split_answer(word: str) -> list[str]:
    """Return what SQuAD keeps of a word in lower case, which has no white space."""
    return _ARTICLES.sub(" ", word.translate(_WITHOUT_PUNCTUATION)).split()


THIRTEEN_A = Form("13a", tokenizer_13a.prepare, tokenizer_13a.split_word)
STEMS = Form("stems", str.lower, split_stems)
ANSWER = Form("answer", str.lower, split_answer)


Tokens = list[str]

PIECE_CHARACTERS = 1 << 14
"""A longer text is split piece by piece. One word is never cut."""
MAX_KEPT_WORDS = 100_000
MAX_KEPT_TOKENS = 1_000_000
"""What is kept is dropped beyond these, so that odd texts can't fill the memory."""

_SPACE = re.compile(r"\s")


class _Words(dict[str, tuple[str, ...]]):
    """The tokens of words, made when they are first asked for."""

    def __init__(self, form: Form, most: int) -> None:
        super().__init__()
        self._split = form.split
        self._most = most

    def __missing__(self, word: str) -> tuple[str, ...]:
        if len(self) >= self._most:
            self.clear()
        tokens = self[word] = tuple(self._split(word))
        return tokens


class TokenStore:
    """The tokens of a request's texts in one form. Those in `repeated` are kept."""

    def __init__(
        self,
        form: Form,
        repeated: AbstractSet[str],
        piece_characters: int = PIECE_CHARACTERS,
        most_words: int = MAX_KEPT_WORDS,
        most_tokens: int = MAX_KEPT_TOKENS,
    ) -> None:
        self._prepare = form.prepare
        self._words = _Words(form, most_words)
        self._piece_characters = piece_characters
        self._most_tokens = most_tokens
        self._repeated = repeated
        self._texts: dict[str, Tokens] = {}
        self._kept = 0

    def of(self, text: str) -> Tokens:
        """Return the tokens of a text, which nobody may change."""
        tokens = self._texts.get(text)
        if tokens is not None:
            return tokens
        words = self._words
        prepared = self._prepare(plain_form(text))
        if len(prepared) <= self._piece_characters:
            tokens = [token for word in prepared.split() for token in words[word]]
        else:
            tokens = []
            for piece in _pieces(prepared, self._piece_characters):
                tokens += [token for word in piece.split() for token in words[word]]
                checkpoint()
        if text in self._repeated:
            self._keep(text, tokens)
        return tokens

    def _keep(self, text: str, tokens: Tokens) -> None:
        if self._kept > self._most_tokens:
            self._texts.clear()
            self._kept = 0
        self._texts[text] = tokens
        self._kept += len(tokens)


def _pieces(text: str, characters: int) -> Iterator[str]:
    """Yield the text in pieces of so many characters or more that begin at white space."""
    start = 0
    while len(text) - start > characters:
        space = _SPACE.search(text, start + characters)
        if space is None:
            break
        yield text[start : space.start()]
        start = space.start()
    yield text[start:]
