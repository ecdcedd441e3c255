"""Between the values of `scores` and the messages of ScoreAnswers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from judged import errors
from judged._codec import read_fields, write_fields
from judged._convert.judges import write_asking, write_calibration, write_value
from judged._convert.verdicts import read_error
from judged._inputs import all_texts, check_utf8, kind_of, need_id, need_text
from judged.errors import WrongType
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import scores_pb2
from judged.values.choices import Source, Status
from judged.values.judges import Asking, JudgeIdentity, Usage
from judged.values.scores import AnswerItem, AnswerScore, Rubric


def write_scores(
    items: Sequence[AnswerItem],
    rubrics: Sequence[Rubric],
    asking: Asking | None = None,
    *,
    include_replies: bool = False,
    request_id: str = "",
) -> pb.ScoreAnswersRequest:
    """Return the request for scores. Raises InvalidArgument for text that UTF-8 can't hold."""
    return pb.ScoreAnswersRequest(
        items=[write_item(item, f"items[{i}]") for i, item in enumerate(items)],
        rubrics=[write_rubric(rubric, f"rubrics[{i}]") for i, rubric in enumerate(rubrics)],
        asking=write_asking(asking),
        include_replies=include_replies,
        request_id=request_id,
    )


def write_item(item: AnswerItem, path: str) -> scores_pb2.AnswerItem:
    """Return the message of an item. Raises InvalidArgument for text that UTF-8 can't hold."""
    lists = (item.references, item.contexts, item.sources_used)
    texts = (item.item_id, item.query, item.answer, item.other_answer, *chain.from_iterable(lists))
    if not all_texts(texts) or any(isinstance(values, str) for values in lists):
        check_item(item, path)  # protobuf takes one text letter by letter, and bytes for text
    try:
        return write_fields(scores_pb2.AnswerItem, item)
    except (UnicodeEncodeError, TypeError, ValueError) as problem:
        check_item(item, path)
        raise errors.InvalidArgument.of_field(path, str(problem)) from None


def write_rubric(rubric: Rubric, path: str) -> scores_pb2.RubricSpec:
    """Return the message of a rubric."""
    _check_text(rubric.rubric, f"{path}.rubric")
    return scores_pb2.RubricSpec(
        rubric=rubric.rubric,
        min_score=rubric.min_score,
        parameters={name: write_value(value) for name, value in rubric.parameters.items()},
        weights=dict(rubric.weights),
        calibration=write_calibration(rubric.calibration),
    )


def check_item(item: AnswerItem, path: str) -> None:
    """Raise InvalidArgument that names the first text of an item that can't be sent."""
    for name in ("references", "contexts", "sources_used"):
        values = getattr(item, name)
        if not isinstance(values, list | tuple):
            rule = f"must be a list of texts, not {kind_of(values)}"
            raise WrongType.of_field(f"{path}.{name}", rule)
    for name, text in _texts(item):
        _check_text(text, f"{path}.{name}")


def _texts(item: AnswerItem) -> Iterator[tuple[str, object]]:
    yield "item_id", item.item_id
    yield "query", item.query
    yield "answer", item.answer
    yield "other_answer", item.other_answer
    for index, text in enumerate(item.references):
        yield f"references[{index}]", text
    for index, text in enumerate(item.contexts):
        yield f"contexts[{index}]", text
    for index, text in enumerate(item.sources_used):
        yield f"sources_used[{index}]", text


def _check_text(text: object, path: str) -> None:
    need = need_id if path.endswith(".item_id") else need_text
    check_utf8(need(text, path), path)


def read_score(message: scores_pb2.AnswerScore, judge: JudgeIdentity | None) -> AnswerScore:
    """Return the score that `judge` gave. Raises InternalError for one that says nothing."""
    try:
        score = read_fields(
            AnswerScore,
            message,
            source=Source(message.source or Source.COMPUTED),
            usage=read_fields(Usage, message.usage) if message.HasField("usage") else Usage(),
            error=read_error(message.error) if message.HasField("error") else None,
            judge=judge,
        )
    except ValueError as problem:
        sent = f"the server sent a score that can't be read: {problem}"
        raise errors.InternalError(sent) from None
    if score.status is not Status.OK:
        return replace(score, score=None, passed=None)
    if score.score is None or score.passed is None:
        raise errors.InternalError("the server sent a score that is OK and has no value")
    return score
