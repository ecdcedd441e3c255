"""What no honest text needs: the tokens of chat templates, and characters that only a model reads.

The prompt escapes all of it and more, so that none of it acts; a text that holds some is flagged,
since somebody may have meant it for the judge.
"""

from __future__ import annotations

import re

_ROLES = "system|user|assistant|tool|ipython"
_TOKENS = re.compile(
    r"<[|\uff5c][^<>|\uff5c\s]{1,40}[|\uff5c]>"  # <|im_start|>, <|eot_id|>, and in full width
    r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]"
    r"|<</?SYS>>"
    r"|</?(?:start|end)_of_(?:turn|text|role)>"
    rf"|<(?:bos|eos)>|<\|?(?:{_ROLES})\|>"
    r"|</?data-[a-z]{32}\b"  # a block of our own
)
_HIDDEN = re.compile(
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
    return _HIDDEN.search(_EMOJI_TAGS.sub("", text)) is not None
