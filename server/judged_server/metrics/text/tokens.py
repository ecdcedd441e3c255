"""The tokens of texts in plain form, made once for each distinct word of a request.

BLEU counts the tokens of mteval-v13a, which WMT and sacrebleu use. A text loses its "<skipped>"
marks and the hyphens at line ends, and gets back the characters that four entities stand for. Then,
between white space:

* every ASCII symbol but the apostrophe, hyphen, period and comma is a token of its own;
* so is a period or comma, unless it stands between two digits;
* and so is a hyphen behind a digit.

These are substitutions, one after the other. The original makes them in the whole line; here they
are made in one word, so that words can be kept: nothing looks across white space, so that this is
the same.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from dataclasses import dataclass

from judged_server.metrics.text.porter_stemmer import stem
from judged_server.scheduling.checkpoint import checkpoint
from judged_server.text_form import plain_form

_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_SUBSTITUTIONS = (
    (re.compile(r"([ -&(-+/:-@\[-`{-~])"), r" \1 "),
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)


def prepare(text: str) -> str:
    """Return the text that is split at white space."""
    text = text.rstrip()
    if "<" in text:
        text = text.replace("<skipped>", "")
    if "-\n" in text:
        text = text.replace("-\n", "")
    if "&" in text:
        for entity, character in _ENTITIES:
            text = text.replace(entity, character)
    return text


def split_word(word: str) -> list[str]:
    """Return the tokens of a word, which has no white space."""
    if word.isalnum():
        return [word]
    word = f" {word} "
    for pattern, replacement in _SUBSTITUTIONS:
        word = pattern.sub(replacement, word)
    return word.split()


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
    return [stem(part) if len(part) > 3 else part for part in _WORDS.findall(word)]


def split_answer(word: str) -> list[str]:
    """Return what SQuAD keeps of a word in lower case, which has no white space."""
    return _ARTICLES.sub(" ", word.translate(_WITHOUT_PUNCTUATION)).split()


THIRTEEN_A = Form("13a", prepare, split_word)
STEMS = Form("stems", str.lower, split_stems)
ANSWER = Form("answer", str.lower, split_answer)


Tokens = list[str]

_WORDS_AT_ONCE = 1 << 12
MAX_KEPT_WORDS = 100_000
"""Words are forgotten beyond this number, so that odd texts can't fill the memory."""


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
        words = self._form.prepare(plain_form(text)).split()
        for begin in range(0, len(words), _WORDS_AT_ONCE):
            tokens += [t for word in words[begin : begin + _WORDS_AT_ONCE] for t in self[word]]
            checkpoint()
        return tokens
