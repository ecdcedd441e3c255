"""What is wrong with an evaluation of answers, found before a system is asked anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from judged._convert.scores import check_item
from judged.errors import FailedPrecondition, InvalidArgument
from judged.evaluation._steps.walking import Steps
from judged.evaluation.system import Question
from judged.values import (
    AnswerItem,
    Asking,
    CacheMode,
    ChatModelInfo,
    Rubric,
    ServerInfo,
)

_PLACEHOLDER = "an answer that is not there yet"


def check_questions(questions: Sequence[object], rubrics: Sequence[Rubric], most: int) -> None:
    """Raise InvalidArgument for questions that can't be asked or scored, ValueError for `most`."""
    if not questions:
        raise InvalidArgument.of_field("items", "must hold at least one question")
    if not rubrics:
        raise InvalidArgument.of_field("rubrics", "must hold at least one rubric")
    if most < 1:
        raise ValueError("concurrency must be 1 or more")
    places: dict[str, int] = {}
    for i, question in enumerate(questions):
        if not isinstance(question, Question):
            raise InvalidArgument.of_field(
                f"items[{i}]",
                f"must be a judged.evaluation.Question, not {type(question).__name__}; "
                "write Question(item_id, query, references, contexts)",
            )
        if not question.item_id:
            raise InvalidArgument.of_field(f"items[{i}].item_id", "must not be empty")
        check_item(_unanswered(question), f"items[{i}]")
        first = places.setdefault(question.item_id, i)
        if first != i:
            rule = f"is that of items[{first}] again; give every question an id of its own"
            raise InvalidArgument.of_field(f"items[{i}].item_id", rule)


def ask_server(
    question: Question, rubrics: Sequence[Rubric], asking: Asking | None
) -> Steps[ServerInfo]:
    """Return what the server says of itself, once it has taken what it will be asked to score by.

    Asks no model. Raises what scoring would: an unknown rubric or model, a threshold or weights
    that are none, a limit on money without prices, a model without its key, a server out of reach.
    """
    info: ServerInfo = yield lambda client: client.server_info()
    item = _unanswered(question)
    yield lambda client: client.estimate_scores([item], rubrics, asking=asking)
    if asking is None or asking.cache is not CacheMode.ONLY:
        _refuse_unavailable(rubrics, info.chat_models)
    return info


def _refuse_unavailable(rubrics: Iterable[Rubric], models: Iterable[ChatModelInfo]) -> None:
    known = {model.name: model for model in models}
    default = next((model.name for model in known.values() if model.is_default), "")
    for rubric in rubrics:
        model = known.get(str(rubric.parameters.get("model") or default))
        if model is not None and model.unavailable:
            raise FailedPrecondition(
                f"language model {model.name!r} can't be asked: {model.unavailable}",
                code="FAILED_PRECONDITION",
                reason="PROVIDER_NOT_CONFIGURED",
                metadata={"model": model.name},
            )


def _unanswered(question: Question) -> AnswerItem:
    return AnswerItem(
        question.item_id, question.query, _PLACEHOLDER, question.references, question.contexts
    )
