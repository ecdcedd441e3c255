"""Between the values of `scores` and the messages of ScoreAnswers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from judged import errors
from judged._codec import read_fields, write_at
from judged._convert.judges import write_asking
from judged._convert.verdicts import read_error
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
        rubrics=[
            write_at(f"rubrics[{i}]", scores_pb2.RubricSpec, rubric)
            for i, rubric in enumerate(rubrics)
        ],
        asking=write_asking(asking),
        include_replies=include_replies,
        request_id=request_id,
    )


def write_item(item: AnswerItem, path: str) -> scores_pb2.AnswerItem:
    """Return the message of an item. Raises InvalidArgument for what none holds."""
    return write_at(path, scores_pb2.AnswerItem, item)


def check_item(item: AnswerItem, path: str) -> None:
    """Raise InvalidArgument that names the first text of an item that can't be sent."""
    write_item(item, path)


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
