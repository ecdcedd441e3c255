"""The tokens that BLEU counts: those of mteval-v13a, which WMT and sacrebleu use.

A text loses its "<skipped>" marks and the hyphens at line ends, and gets back the characters that
four entities stand for. Then, between white space:

* every ASCII symbol but the apostrophe, hyphen, period and comma is a token of its own;
* so is a period or comma, unless it stands between two digits;
* and so is a hyphen behind a digit.

The original does this with substitutions over the whole line, one after the other, and has one
oddity that numbers must share: in a run of periods and commas before a digit, the last one sticks
to the digit if the run is odd behind a digit, or even behind anything else ("1...5" ends in ".5").
Here it is one scan of a word, so that words can be kept; that nothing looks across white space
makes this the same.
"""

from __future__ import annotations

import re

_SCAN = re.compile(r"[.,]+|[!-&(-+/:-@\[-`{-~]|-|[^!-&(-/:-@\[-`{-~]+")
_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_DIGITS = frozenset("0123456789")
_SYMBOLS = frozenset('!"#$%&()*+/:;<=>?@[\\]^_`{|}~')


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
    tokens: list[str] = []
    whole = ""  # the token in the making
    for match in _SCAN.finditer(word):
        part = match[0]
        first = part[0]
        behind_digit = whole[-1:] in _DIGITS
        if first in ".,":
            before_digit = word[match.end() : match.end() + 1] in _DIGITS
            sticks = before_digit and len(part) % 2 == behind_digit
            if sticks and len(part) == 1:
                whole += part
                continue
            if whole:
                tokens.append(whole)
            tokens += part[:-1] if sticks else part
            whole = part[-1] if sticks else ""
        elif first == "-" and not behind_digit:
            whole += part
        elif first == "-" or (len(part) == 1 and first in _SYMBOLS):
            if whole:
                tokens.append(whole)
            tokens.append(part)
            whole = ""
        else:
            whole += part
    if whole:
        tokens.append(whole)
    return tokens
