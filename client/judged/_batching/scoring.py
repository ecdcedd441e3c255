"""Scoring of any number of items: splits it into messages and collects the scores."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from judged import errors
from judged._batching.judging import PASSING, Progress, packed
from judged._codec import read_fields, write_at, write_fields
from judged._convert import CostLimit, missing_for, read_error
from judged._inputs import need_list, refuse_empty, refuse_repeated
from judged._transport.call import Attempts, Stream, rename_paths
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import scores_pb2
from judged.values.choices import Source, Status
from judged.values.judges import Asking, JudgeIdentity, Usage
from judged.values.scores import (
    AnswerItem,
    AnswerScore,
    Rubric,
    RubricSummary,
    ScoreCounts,
    ScoredAnswers,
)

PART_SCORES = 1 << 13
"""The most scores that one message asks for. Messages are sent one after another, so they are
large: models should not idle between them."""
PART_BYTES = 3 << 20

_Pair = tuple[str, str]
_ITEM = re.compile(r"items\[(\d+)\]")


class Scoring(Stream[AnswerScore]):
    """The items of a call and the scores so far. Messages are sent one after another.

    A message asks for at most PART_SCORES scores in PART_BYTES. After a break it is sent again for
    the items that lack a score, with the rubrics that any of them lacks.
    """

    def __init__(
        self,
        items: Iterable[AnswerItem],
        rubrics: Iterable[Rubric | str],
        asking: Asking | None = None,
        progress: Progress | None = None,
        request_id: str = "",
        *,
        include_replies: bool = False,
    ) -> None:
        """Raise InvalidArgument for no items or rubrics, and for an id that is there twice."""
        super().__init__()
        self._items = list(need_list(items, "items", "AnswerItem"))
        self._rubrics = as_rubrics(rubrics)
        refuse_empty(self._items, "items")
        refuse_empty(self._rubrics, "rubrics")
        # The server checks only within one message.
        refuse_repeated([item.item_id for item in self._items])
        written = (
            (place, write_at(f"items[{place}]", scores_pb2.AnswerItem, item))
            for place, item in enumerate(self._items)
        )
        limits = (PART_BYTES, max(1, PART_SCORES // len(self._rubrics)))
        self._parts = packed((((place, m), (m.ByteSize(), 1)) for place, m in written), limits)
        self._cost_limit = CostLimit(asking)
        self._progress = progress
        # All tries share one id, so that work in progress is not paid for twice.
        self._alike = pb.ScoreAnswersRequest(
            include_replies=include_replies, request_id=request_id or str(uuid.uuid4())
        )
        self._scores: dict[_Pair, AnswerScore] = {}
        self._failures: list[errors.JudgedError] = []
        self._lost: dict[_Pair, errors.JudgedError] = {}
        self._judges: dict[str, JudgeIdentity] = {}
        self._asked: list[int] = []
        self._asked_rubrics: list[str] = []
        self.usage = Usage()
        """Usage of all scores, repeated ones included."""
        self._go_on()

    def _go_on(self) -> None:
        """Move on to the next message."""
        part = next(self._parts, None)
        self.done = part is None
        self._part = dict(part or ())
        self._pairs = {
            (self._items[place].item_id, rubric.id): place
            for place in self._part
            for rubric in self._rubrics
        }

    @property
    def _missing(self) -> list[_Pair]:
        return [pair for pair in self._pairs if pair not in self._scores]

    def request(self) -> pb.ScoreAnswersRequest:
        """Return the message that asks for the missing scores: on the first try, for all."""
        missing = self._missing
        names = {rubric for _, rubric in missing}
        rubrics = [rubric for rubric in self._rubrics if rubric.id in names]
        self._asked = list(dict.fromkeys(self._pairs[pair] for pair in missing))
        self._asked_rubrics = [rubric.id for rubric in rubrics]
        message = write_fields(
            pb.ScoreAnswersRequest,
            items=[self._part[place] for place in self._asked],
            rubrics=rubrics,
        )
        message.MergeFrom(self._cost_limit.onto(self._alike))
        return message

    def requests(self) -> Iterator[pb.ScoreAnswersRequest]:
        """Yield all messages, for an estimate."""
        while not self.done:
            yield self.request()
            self._go_on()

    def take(self, reply: pb.ScoreAnswersResponse) -> AnswerScore | None:
        """Process a message of the stream; return its score if that is new."""
        which = reply.WhichOneof("message")
        if which == "started":
            for name, judge in zip(self._asked_rubrics, reply.started.judges, strict=False):
                self._judges[name] = read_fields(JudgeIdentity, judge)
        if which != "score":
            return None  # the summary is computed here, from the scores of all messages
        score = read_score(reply.score, self._judges.get(reply.score.rubric))
        pair = (score.item_id, score.rubric)
        self.usage += score.usage
        self._cost_limit.took(score.usage)
        if pair not in self._pairs:
            raise errors.InternalError("the server sent a score that was not asked for")
        if pair in self._scores:
            return None  # repeated, because its item or rubric lacked another score
        self.progressed = True
        return self._came(pair, score)

    def _came(self, pair: _Pair, score: AnswerScore) -> AnswerScore:
        """Keep a score and report progress; a budget error names the call's whole limit."""
        if score.error is not None:
            score = replace(score, error=self._cost_limit.named(score.error))
        self._scores[pair] = score
        if self._progress is not None:
            self._progress(len(self._scores), len(self._items) * len(self._rubrics))
        return score

    def ended(self) -> None:
        """Move on to the next message. Raises InternalError if a score is missing."""
        if missing := len(self._missing):
            raise errors.InternalError(f"the server ended the stream with {missing} scores missing")
        self._go_on()

    def wait_after(self, error: errors.JudgedError, attempts: Attempts) -> float:
        """Return the wait before the next try; after a final failure, go on to the next message."""
        missing = self._missing
        try:
            # Only the summary may be missing, and that is computed here.
            if missing or isinstance(error, errors.BudgetExhausted):
                return super().wait_after(error, attempts)
        except errors.InvalidArgument as wrong:
            raise rename_paths(
                wrong, _ITEM, lambda match: f"items[{self._asked[int(match[1])]}]"
            ) from None
        except PASSING as failure:
            self._cost_limit.lost(failure)
            self._failures.append(failure)
            self._lost |= dict.fromkeys(missing, failure)
        attempts.begin()
        self._go_on()
        return 0.0

    def rest(self) -> Iterator[AnswerScore]:
        """Yield the scores that never came, as errors; raise the first failure if none came.

        BudgetExhausted is also raised if every score that came is an error: nothing was asked.
        """
        came = list(self._scores.values())
        all_failed = all(score.status is Status.ERROR for score in came)
        for failure in self._failures:
            if not came or (isinstance(failure, errors.BudgetExhausted) and all_failed):
                raise failure
        for pair, failure in self._lost.items():
            yield self._came(pair, AnswerScore(*pair, Status.ERROR, error=missing_for(failure)))

    def whole(self) -> ScoredAnswers:
        """Return all scores, with a summary of each rubric."""
        pairs = ((item.item_id, rubric.id) for item in self._items for rubric in self._rubrics)
        scores, n = [self._scores[pair] for pair in pairs], len(self._rubrics)
        return ScoredAnswers(
            scores,
            [summarise(rubric.id, scores[place::n]) for place, rubric in enumerate(self._rubrics)],
            self.usage,
        )


def as_rubrics(rubrics: Iterable[Rubric | str]) -> list[Rubric]:
    """Return a list of rubrics; a text is the id of one."""
    listed = need_list(rubrics, "rubrics", "Rubric or its id")
    return [Rubric(rubric) if isinstance(rubric, str) else rubric for rubric in listed]


def summarise(rubric: str, scores: Sequence[AnswerScore]) -> RubricSummary:
    """Return the summary of the scores of one rubric; the mean is over those that are OK."""
    values = [score.score for score in scores if score.score is not None]
    counts = {each.name.lower(): sum(one.status is each for one in scores) for each in Status}
    return RubricSummary(
        rubric,
        math.fsum(values) / len(values) if values else None,
        ScoreCounts(**counts, passed=sum(score.passed is True for score in scores)),
        next((score.judge for score in scores if score.judge is not None), None),
    )


def read_score(message: scores_pb2.AnswerScore, judge: JudgeIdentity | None) -> AnswerScore:
    """Return the score that `judge` gave. Raises InternalError for one that can't be used."""
    try:
        score = read_fields(
            AnswerScore,
            message,
            source=Source(message.source or Source.COMPUTED),
            error=read_error(message.error) if message.HasField("error") else None,
            judge=judge,
        )
    except (ValueError, errors.InvalidArgument) as problem:
        sent = f"the server sent a score that can't be read: {problem}"
        raise errors.InternalError(sent) from None
    if score.status is not Status.OK:
        return replace(score, score=None, passed=None)
    if score.score is None or score.passed is None:
        raise errors.InternalError("the server sent a score that is OK and has no value")
    return score
