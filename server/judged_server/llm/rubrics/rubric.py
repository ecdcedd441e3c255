"""A rubric: the versioned instructions a language model judges by.

Owns the shape, the placeholders and the hash. A rubric is read from a file by `loading` and turned
into a request by `prompt`; what its replies must look like is its `schema`, which `parsing` checks.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from judged_server.llm.chat import ReplySchema

FIELDS = ("query", "expected_text", "retrieved_text")
"""The texts of a context that a rubric may show."""

NONCE = "nonce"
"""The placeholder of the marker of the request's data blocks."""
ANSWER = "answer"
"""The placeholder of how to answer, which depends on whether the model takes a schema."""

PLACEHOLDER = re.compile(r"\{\{([^{}]*)\}\}")


@dataclass(frozen=True)
class Rubric:
    """What is asked, how to answer, and from which score on the answer is a yes.

    `system` holds {{answer}} once; `user` holds {{nonce}}, and each field it shows once.
    `fails_closed` is the side to take, by whoever must take one, when there is no verdict: for
    "is it relevant?" that is no, for "is it harmful?" it is yes. With `scored` a structured reply
    carries a score in [0, 1] beside its verdict; without, a yes scores 1 and a no scores 0.
    """

    id: str
    version: int
    description: str
    min_score: float
    fails_closed: Literal["yes", "no"]
    scored: bool
    system: str
    user: str
    structured_answer: str
    plain_answer: str

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The user template, cut: plain text at even places, names of placeholders at odd ones."""
        return tuple(PLACEHOLDER.split(self.user))

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The texts that the prompt shows, in their order in it."""
        return tuple(name for name in self.parts[1::2] if name != NONCE)

    @cached_property
    def structured_system(self) -> str:
        """The instructions for a model that takes a schema; the same for every request."""
        return self.system.replace(_in_braces(ANSWER), self.structured_answer)

    @cached_property
    def plain_system(self) -> str:
        """The instructions for a model that answers in plain text."""
        return self.system.replace(_in_braces(ANSWER), self.plain_answer)

    @cached_property
    def schema(self) -> ReplySchema:
        """What a structured reply must keep: flat, all keys required, no others allowed.

        The reasoning comes first, so that the verdict follows from it and not the reverse.
        """
        properties: dict[str, object] = {
            "reasoning": {"type": "string"},
            "verdict": {"type": "string", "enum": ["yes", "no"]},
        }
        if self.scored:
            properties["score"] = {"type": "number", "minimum": 0, "maximum": 1}
        return ReplySchema(
            self.id,
            {
                "type": "object",
                "properties": properties,
                "required": list(properties),
                "additionalProperties": False,
            },
        )

    @cached_property
    def sha256(self) -> str:
        """The hash of all that can change a score: the templates, the form of the reply, the id.

        The bar, the description and the side to fail to are read after the score, so they are
        left out, as are the comments and the layout of the file.
        """
        content: Mapping[str, object] = {
            "id": self.id,
            "version": self.version,
            "scored": self.scored,
            "system": self.system,
            "user": self.user,
            "structured_answer": self.structured_answer,
            "plain_answer": self.plain_answer,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _in_braces(name: str) -> str:
    return "{{" + name + "}}"
