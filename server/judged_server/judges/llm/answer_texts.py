"""What a rubric shows of an answer: its texts by the names that rubrics use."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from judged_server.domain.answers import AnswerItem
from judged_server.llm.faults import Reason
from judged_server.llm.rubrics import FieldValue, Rubric, holds_reserved

BYTES_A_TOKEN = 4
"""A usual English token, by which the budget of contexts is estimated."""


@dataclass(frozen=True, slots=True)
class RenderedText:
    """The texts of one item by the names in `rubric.fields`, and what people should know of them.

    `has_contexts` is False when the item brings none, or none that holds a text.
    """

    fields: Mapping[str, FieldValue]
    has_contexts: bool
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MissingInput:
    """What an item lacks for a rubric to be asked about it."""

    reason: Reason
    message: str


def texts_of(rubric: Rubric, item: AnswerItem) -> tuple[FieldValue, ...]:
    """Return the texts that the rubric shows of the item, whole: items alike in them score alike.

    In the order of `rubric.fields`.
    """
    return tuple(_value(name, item) for name in rubric.fields)


def show(rubric: Rubric, item: AnswerItem, max_context_tokens: int) -> RenderedText | MissingInput:
    """Return the texts to show, the contexts within the budget, or what the item lacks.

    A text of white space only counts as none, and an answer of punctuation only: many models pass
    ":" as right (Zhao et al., One Token to Fool LLM-as-a-Judge, arXiv:2507.08794). A rubric with
    dimensions does without contexts, if it has one that needs none.
    """
    fields = {name: _value(name, item) for name in rubric.fields}
    if "answer" in fields and not any(map(_says_something, item.answer)):
        what = "nothing but punctuation" if item.answer.strip() else "no text"
        return MissingInput(Reason.EMPTY_ANSWER, f"the answer holds {what}")
    has_contexts = any(text.strip() for text in item.contexts)
    optional = {"contexts"} if rubric.dimensions else set()
    for name, value in fields.items():
        texts = (value,) if isinstance(value, str) else value
        if name not in optional and not any(text.strip() for text in texts):
            what = _CALLED.get(name, name)
            return MissingInput(
                Reason.NO_CONTEXT, f"the item brings no {what}, which {rubric.id} reads"
            )
    warnings = []
    if "contexts" in fields:
        kept = within(item.contexts, BYTES_A_TOKEN * max_context_tokens)
        if kept is not item.contexts:
            fields["contexts"] = kept
            warnings.append(_cut_warning(item.contexts, kept, max_context_tokens))
    if "reference" in fields and len(item.references) > 1:
        warnings.append(
            f"{rubric.id} reads one reference: the first of {len(item.references)} was shown"
        )
    suspicious = [name for name, value in fields.items() if _holds_reserved(value)]
    if suspicious:
        warnings.append(
            "tokens of chat templates, or characters that only a model reads, stand in: "
            + ", ".join(suspicious)
        )
    return RenderedText(fields, has_contexts, tuple(warnings))


def _says_something(character: str) -> bool:
    """Say whether a character may be an answer: a letter, a digit, a sign like an emoji or ∞."""
    if character.isalnum():
        return True
    return not character.isascii() and unicodedata.category(character)[0] in "LMNS"


def _holds_reserved(value: FieldValue) -> bool:
    return holds_reserved(value) if isinstance(value, str) else any(map(holds_reserved, value))


def within(texts: Sequence[str], max_bytes: int) -> Sequence[str]:
    """Return the texts themselves when they fit; else as many as do, the last cut where it must be.

    Bytes are those of UTF-8; no character is cut in two, and no text is cut to nothing.
    """
    kept: list[str] = []
    left = max_bytes
    for text in texts:
        if len(text) > left:  # a character takes a byte at least
            size = left + 1
        else:
            size = len(text) if text.isascii() else len(text.encode(errors="replace"))
        if size > left:
            part = text[:left].encode(errors="replace")[:left].decode(errors="ignore")
            if part:
                kept.append(part)
            return kept
        kept.append(text)
        left -= size
    return texts


_CALLED = {
    "reference": "references",
    "other_answer": "other answer to compare with",
    "confidence": "confidence of the system",
}


_VALUES: Mapping[str, Callable[[AnswerItem], FieldValue]] = {
    "query": lambda item: item.query,
    "answer": lambda item: item.answer,
    "other_answer": lambda item: item.other_answer,
    "reference": lambda item: item.references[0] if item.references else "",
    "references": lambda item: tuple(item.references),
    "contexts": lambda item: tuple(item.contexts),
    "sources_used": lambda item: tuple(item.sources_used),
    "confidence": lambda item: "" if item.confidence is None else f"{item.confidence:g}",
}


def _value(name: str, item: AnswerItem) -> FieldValue:
    return _VALUES[name](item)


def _cut_warning(texts: Sequence[str], kept: Sequence[str], budget: int) -> str:
    in_part = bool(kept) and kept[-1] != texts[len(kept) - 1]
    shown = f"{len(kept)} of {len(texts)} were shown" + (", the last in part" if in_part else "")
    return f"the contexts were truncated to max_context_tokens ({budget}): {shown}"
