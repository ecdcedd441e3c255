"""Texts of others, made so that HTML, XML and Markdown can show every character of them."""

from __future__ import annotations

import re

_CONTROLS = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"}
_CONTROLS[0x7F] = 0x2421
_HIDDEN = str.maketrans(_CONTROLS)
# What neither UTF-8 nor XML 1.0 has, and C1 controls, which browsers show as nothing.
_UNPRINTABLE = re.compile("[\ud800-\udfff\x80-\x9f\ufffe\uffff]")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+\-!|~&])")


def visible(text: str) -> str:
    """Return a text with control characters as their pictures, NUL as U+2400, and so on."""
    return _UNPRINTABLE.sub("\ufffd", text.replace("\r\n", "\n").translate(_HIDDEN))


def markdown(text: str, longest: int = 120) -> str:
    """Return a text as one line of Markdown that shows it as it is, cut where it is long."""
    line = " ".join(visible(text).split())
    if len(line) > longest:
        line = f"{line[: longest - 1]}…"
    # An address alone, or a name after @, would become a link or call a person.
    return _MARKDOWN.sub(r"\\\1", line).replace("@", "@\u200b").replace("://", ":\u200b//")


def cut(text: str, longest: int) -> str:
    """Return a text, or its beginning with an ellipsis where it is longer."""
    return text if len(text) <= longest else f"{text[:longest]}…"
