"""A rubric: the versioned instructions a language model judges by.

A rubric is read from a file by `loading` and turned into a request by `question`; what its replies
must look like is its `schema`, which `parsing` checks.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from judged.values.choices import ClaimVerdict

from judged_server.domain import TIE_TOLERANCE
from judged_server.llm.chat import ReplySchema

Form = Literal["verdict", "score", "grade", "dimensions", "claims", "extraction", "verification"]
"""What a reply says: yes or no; a score; one word of a scale; one score a dimension. A rubric of
claims is not asked itself; its two steps are, the one for a list of claims, the other for the check
of one claim."""

JSON_FORMS = frozenset({"dimensions", "claims", "extraction", "verification"})
"""Forms whose replies are JSON from every model, also from one that takes no schema."""

FieldValue = str | Sequence[str]
"""What a prompt shows in one place: a text, or a list of texts."""

EXPECTED_TEXT = "expected_text"
RETRIEVED_TEXT = "retrieved_text"
CONTEXT_FIELDS = ("query", EXPECTED_TEXT, RETRIEVED_TEXT)
"""The texts of a context, which the judge `llm` shows."""
ANSWER_FIELDS = (
    "query",
    "answer",
    "other_answer",
    "reference",
    "references",
    "contexts",
    "sources_used",
    "confidence",
)
"""The texts of an answer and of what it is measured by; `references`, `contexts` and `sources_used`
are lists."""
CLAIM = "claim"
"""One claim, which only the second step of a rubric of claims shows."""

NONCE = "nonce"
"""The placeholder of the marker of the request's data blocks."""
ANSWER = "answer"
"""In the instructions, the placeholder of how to answer, which depends on whether the model takes a
schema. In the question it is the answer that is judged."""

MAX_CLAIMS = 50
"""The most claims that the first step of a rubric of claims may find."""

PLACEHOLDER = re.compile(r"\{\{([^{}]*)\}\}")

_SHARE: dict[str, object] = {"type": "number", "minimum": 0, "maximum": 1}
_STRING: dict[str, object] = {"type": "string"}


@dataclass(frozen=True)
class Rubric:
    """What is asked, how to answer, and from which score on the answer is a yes.

    `system` holds {{answer}} once; `user` holds {{nonce}}, and each field it shows once.
    `fails_closed` is the side to take, by whoever must take one, when there is no verdict: for
    "is it relevant?" that is no, for "is it harmful?" it is yes. With `scored` a structured reply
    carries a score in [0, 1] beside its verdict; without, a yes scores 1 and a no scores 0.

    `grades` are the words of a scale, the lowest first: grade i of n scores i / (n - 1).

    `dimensions` are names and default weights, a weight of 0 for what is only reported;
    `need_contexts` names those that can't be assessed without contexts. A rubric of claims has no
    templates of its own but an `extraction` and a `verification`.
    """

    id: str
    version: int
    description: str
    min_score: float
    fails_closed: Literal["yes", "no"]
    system: str
    user: str
    structured_answer: str
    plain_answer: str
    scored: bool = False
    form: Form = "verdict"
    grades: tuple[str, ...] = ()
    dimensions: tuple[tuple[str, float], ...] = ()
    need_contexts: tuple[str, ...] = ()
    extraction: Rubric | None = None
    verification: Rubric | None = None

    @property
    def judges_contexts(self) -> bool:
        """Whether the judge `llm` can ask it: a verdict, a score or a grade on a context."""
        asks_of_one = self.form in {"verdict", "score", "grade"}
        return asks_of_one and set(self.fields) <= set(CONTEXT_FIELDS)

    @property
    def scores_answers(self) -> bool:
        """Whether ScoreAnswers can ask it: it shows what an answer has, and nothing else."""
        return set(self.fields) <= set(ANSWER_FIELDS)

    @property
    def takes_json(self) -> bool:
        """Whether its replies are JSON from every model, also from one that takes no schema."""
        return self.form in JSON_FORMS

    @property
    def max_grade(self) -> int:
        """The highest grade of its scale, whose lowest is 0; 0 where it has no scale."""
        return max(len(self.grades) - 1, 0)

    def passes(self, score: float) -> bool:
        """Say whether a score reaches the rubric's threshold."""
        return score + TIE_TOLERANCE >= self.min_score

    @cached_property
    def steps(self) -> tuple[Rubric, ...]:
        """What is asked, in order: the rubric itself, or the two steps of a rubric of claims."""
        if self.extraction is None or self.verification is None:
            return (self,)
        return (self.extraction, self.verification)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The user template, cut: plain text at even places, names of placeholders at odd ones."""
        return tuple(PLACEHOLDER.split(self.user))

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The texts that the prompt shows, in their order in it; of claims those of both steps.

        A claim is left out where the rubric finds the claims itself.
        """
        if self.form != "claims":
            return tuple(name for name in self.parts[1::2] if name != NONCE)
        rendered = (name for step in self.steps for name in step.fields if name != CLAIM)
        return tuple(dict.fromkeys(rendered))

    @cached_property
    def structured_system(self) -> str:
        """The instructions for a model that takes a schema; the same for every request."""
        return self.system.replace(_in_braces(ANSWER), self.structured_answer)

    @cached_property
    def plain_system(self) -> str:
        """The instructions for a model that answers in plain text."""
        return self.system.replace(_in_braces(ANSWER), self.plain_answer)

    @cached_property
    def properties(self) -> dict[str, dict[str, object]]:
        """What each key of a reply must hold, as JSON schemas.

        The reasoning comes first, so that what is decided follows from it and not the reverse.
        """
        if self.form == "extraction":
            return {"claims": {"type": "array", "items": _STRING, "maxItems": MAX_CLAIMS}}
        if self.form == "verification":
            words = [verdict.name for verdict in ClaimVerdict]
            return {"evidence": _STRING, "verdict": {"type": "string", "enum": words}}
        found = {"reasoning": _STRING}
        if self.form == "dimensions":
            names = [name for name, _ in self.dimensions]
            return found | dict.fromkeys([*names, "overall"], _SHARE)
        if self.form == "verdict":
            found["verdict"] = {"type": "string", "enum": ["yes", "no"]}
        if self.form == "grade":
            found["grade"] = {"type": "string", "enum": list(self.grades)}
        if self.scored or self.form == "score":
            found["score"] = _SHARE
        return found

    @cached_property
    def schema(self) -> ReplySchema:
        """What a structured reply must keep: flat, all keys required, no others allowed."""
        return ReplySchema(
            self.id,
            {
                "type": "object",
                "properties": self.properties,
                "required": list(self.properties),
                "additionalProperties": False,
            },
        )

    @cached_property
    def sha256(self) -> str:
        """The hash of all that can change a reply: the templates, the form of the reply, the id.

        The threshold, the weights, the description and the side to fail to are read after the
        reply, so they are left out, as are the comments and the layout of the file.
        """
        content: dict[str, object] = {
            "id": self.id,
            "version": self.version,
            "scored": self.scored,
            "system": self.system,
            "user": self.user,
            "structured_answer": self.structured_answer,
            "plain_answer": self.plain_answer,
        }
        if self.form != "verdict":  # a verdict has the hash it had before there were other forms
            content["form"] = self.form
            content["properties"] = self.properties
        if self.form == "claims":
            content["steps"] = [step.sha256 for step in self.steps]
        # Only the order of the keys of a reply may matter, and it is kept.
        ordered = {name: content[name] for name in sorted(content)}
        return hashlib.sha256(json.dumps(ordered).encode()).hexdigest()


def _in_braces(name: str) -> str:
    return "{{" + name + "}}"
