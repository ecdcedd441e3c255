"""What a system that answers questions is to the evaluation: what it is asked, what it says."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judged._inputs import as_id, as_list, set_fields


@dataclass(frozen=True, slots=True)
class Question:
    """One question to a system, and what its answer may be measured by.

    `item_id` must be unique; a whole number stands for its text. `contexts` are sources that the
    system is to answer from, if it takes any; `references` are answers known to be right, which it
    never sees.
    """

    item_id: str
    query: str
    references: Sequence[str] = ()
    contexts: Sequence[str] = ()

    def __post_init__(self) -> None:
        set_fields(
            self,
            item_id=as_id(self.item_id),
            references=as_list(self.references),
            contexts=as_list(self.contexts),
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """What a system said. `contexts` are the texts it used; None means those of the question.

    `metadata` is the system's own, and is kept as it is.
    """

    text: str
    contexts: Sequence[str] | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.contexts is not None:
            set_fields(self, contexts=as_list(self.contexts))


System = Callable[..., str | Answer] | Callable[..., Awaitable[str | Answer]]
"""Answers a query: anything that can be called with it. With a parameter called `contexts` it also
gets the question's sources."""


def is_async(system: System) -> bool:
    """Return whether a call of a system is to be awaited."""
    call = getattr(system, "__call__", None)  # noqa: B004 - an object with an async __call__
    return inspect.iscoroutinefunction(system) or inspect.iscoroutinefunction(call)


def signature_of(system: System) -> str:
    """Return what a system is known by: its `signature` if it has one, else its name."""
    signature = getattr(system, "signature", None)
    if isinstance(signature, str):
        return signature
    kind = type(system)
    return str(getattr(system, "__qualname__", f"{kind.__module__}.{kind.__qualname__}"))


def answer_of(system: System) -> Callable[[Question], Any]:
    """Return what answers a question by a system; it is to be awaited where the system is.

    With a parameter called `contexts` the system also gets the question's sources.
    """
    try:
        known = inspect.signature(system).parameters.get("contexts")
    except (TypeError, ValueError):  # some callables of extensions have no signature
        known = None
    with_contexts = known is not None and known.kind is not inspect.Parameter.POSITIONAL_ONLY

    def ask(question: Question) -> Any:  # noqa: ANN401 - whatever the system returns
        given = {"contexts": question.contexts} if with_contexts else {}
        return system(question.query, **given)

    async def answer_async(question: Question) -> Answer:
        return as_answer(await ask(question))

    return answer_async if is_async(system) else lambda question: as_answer(ask(question))


def as_answer(said: object) -> Answer:
    """Return what a system said as an Answer. Raises TypeError and ValueError."""
    if inspect.iscoroutine(said):
        said.close()
        raise TypeError("the system returned a coroutine; make it an `async def`")
    answer = Answer(said) if isinstance(said, str) else said
    if not isinstance(answer, Answer) or not isinstance(answer.text, str):
        raise TypeError(f"the system returned {type(said).__name__}; return text or an Answer")
    if isinstance(answer.contexts, str):
        raise TypeError("the contexts of an Answer must be a list of texts, not one text")
    for text in (answer.text, *(answer.contexts or ())):
        if not isinstance(text, str):
            raise TypeError(f"the contexts of an Answer hold {type(text).__name__}; give texts")
        try:
            text.encode()
        except UnicodeEncodeError as problem:
            raise ValueError(
                f"the system returned a lone surrogate at character {problem.start}, which UTF-8 "
                "can't carry"
            ) from None
    return answer
