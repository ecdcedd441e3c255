"""The tokens of texts, made once for each distinct word and text of a request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from judged_server.metrics.text.forms import Form
from judged_server.metrics.text.pace import Pace, Steps

Tokens = list[str]

PIECE_CHARACTERS = 1 << 14
"""A longer text is split piece by piece. One word is never cut."""
MAX_KEPT_WORDS = 100_000
MAX_KEPT_TOKENS = 1_000_000
"""What is kept is dropped beyond these, so that odd texts can't fill the memory."""

_SPACE = re.compile(r"\s")


class _Words(dict[str, tuple[str, ...]]):
    """The tokens of words, made when they are first asked for."""

    def __init__(self, form: Form) -> None:
        super().__init__()
        self._split = form.split

    def __missing__(self, word: str) -> tuple[str, ...]:
        if len(self) >= MAX_KEPT_WORDS:
            self.clear()
        tokens = self[word] = tuple(self._split(word))
        return tokens


class TokenStore:
    """The tokens of a request's texts in one form. Those in `repeated` are kept."""

    def __init__(self, form: Form, repeated: AbstractSet[str], pace: Pace) -> None:
        self._prepare = form.prepare
        self._words = _Words(form)
        self._repeated = repeated
        self._texts: dict[str, Tokens] = {}
        self._kept = 0
        self._pace = pace

    def of(self, text: str) -> Steps[Tokens]:
        """Return the tokens of a text, which nobody may change."""
        tokens = self._texts.get(text)
        if tokens is not None:
            return tokens
        words = self._words
        prepared = self._prepare(text)
        if len(prepared) <= PIECE_CHARACTERS:
            tokens = [token for word in prepared.split() for token in words[word]]
            if self._pace.due(1 + len(prepared) // 2):
                yield
        else:
            tokens = []
            for piece in _pieces(prepared):
                tokens += [token for word in piece.split() for token in words[word]]
                if self._pace.due(len(piece) // 2):
                    yield
        if text in self._repeated:
            self._keep(text, tokens)
        return tokens

    def of_all(self, texts: Sequence[str]) -> Steps[list[Tokens]]:
        """Return the tokens of several texts."""
        found: list[Tokens] = [[] for _ in texts]
        for index, text in enumerate(texts):
            found[index] = yield from self.of(text)
        return found

    def _keep(self, text: str, tokens: Tokens) -> None:
        if self._kept > MAX_KEPT_TOKENS:
            self._texts.clear()
            self._kept = 0
        self._texts[text] = tokens
        self._kept += len(tokens)


def _pieces(text: str) -> Iterator[str]:
    """Yield the text in pieces that begin at white space."""
    start = 0
    while len(text) - start > PIECE_CHARACTERS:
        space = _SPACE.search(text, start + PIECE_CHARACTERS)
        if space is None:
            break
        yield text[start : space.start()]
        start = space.start()
    yield text[start:]
