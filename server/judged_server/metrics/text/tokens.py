"""The tokens of texts in plain form, made once for each distinct word of a request."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator
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
"""Words are forgotten beyond this number, so that odd texts can't fill the memory."""

_SPACE = re.compile(r"\s")


class TokenStore(dict[str, tuple[str, ...]]):
    """The tokens of a request's texts in one form; it keeps those of each word it met."""

    def __init__(self, form: Form) -> None:
        super().__init__()
        self._form = form

    def __missing__(self, word: str) -> tuple[str, ...]:
        if len(self) >= MAX_KEPT_WORDS:
            self.clear()
        tokens = self[word] = tuple(self._form.split(word))
        return tokens

    def of(self, text: str) -> Tokens:
        """Return the tokens of a text."""
        tokens: Tokens = []
        for piece in _pieces(self._form.prepare(plain_form(text))):
            tokens += [token for word in piece.split() for token in self[word]]
            checkpoint()
        return tokens


def _pieces(text: str) -> Iterator[str]:
    """Yield the text in pieces of PIECE_CHARACTERS or more that begin at white space."""
    start = 0
    while len(text) - start > PIECE_CHARACTERS:
        space = _SPACE.search(text, start + PIECE_CHARACTERS)
        if space is None:
            break
        yield text[start : space.start()]
        start = space.start()
    yield text[start:]
