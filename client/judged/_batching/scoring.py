"""One scoring of any size: its parts, what came of each, and the whole."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from judged import errors
from judged._batching.chunks import packed
from judged._batching.judging import PASSING
from judged._codec import read_fields, write_at
from judged._convert.judges import Purse, write_asking
from judged._convert.verdicts import missing_for, read_error, usage_of
from judged._inputs import need_each
from judged._transport.call import Deadline, RetryBudget, Stream
from judged._transport.status import rename_paths
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
"""The most scores that one message asks for. Parts are sent one after the other, so they are large:
models should not wait between them."""
PART_CHARACTERS = 3 << 20

Progress = Callable[[int, int], object]
_Pair = tuple[str, str]
_ITEM = re.compile(r"items\[(\d+)\]")


class Part(Stream[AnswerScore]):
    """Some consecutive items, the first at `start`: what is asked of them, and what came."""

    def __init__(
        self,
        start: int,
        items: Sequence[AnswerItem],
        rubrics: Sequence[Rubric],
        asking: Asking | None,
        request_id: str,
        deadline: Deadline,
        budget: RetryBudget,
        *,
        include_replies: bool,
    ) -> None:
        super().__init__(deadline, budget)
        self._start = start
        self._items = items
        self._rubrics = rubrics
        self.asking = asking
        """How models are asked."""
        self._include_replies = include_replies
        # Of all tries: what is under way is not paid again.
        self._request_id = request_id or str(uuid.uuid4())
        self.pairs = [(item.item_id, rubric.id) for item in items for rubric in rubrics]
        self._known = frozenset(self.pairs)
        self.scores: dict[_Pair, AnswerScore] = {}
        self._asked: list[int] = []
        self._usage = Usage()
        self._unsummed: list[Usage] = []
        self._asked_rubrics: list[str] = []
        self._judges: dict[str, JudgeIdentity] = {}
        self.failure: errors.JudgedError | None = None

    @property
    def missing(self) -> list[_Pair]:
        """The item ids and rubrics whose score did not come."""
        return [pair for pair in self.pairs if pair not in self.scores]

    @property
    def usage(self) -> Usage:
        """What it took: by the summaries that came, else by the scores themselves."""
        return sum(self._unsummed, self._usage)

    def request(self) -> pb.ScoreAnswersRequest:
        """Return the message that asks for what is missing: all of it, the first time.

        After a break these are the items that lack a score, by the rubrics that one of them lacks.
        """
        self._usage, self._unsummed, self._progressed = self.usage, [], False
        item_ids = {item_id for item_id, _ in self.missing}
        names = {rubric for _, rubric in self.missing}
        self._asked = [i for i, item in enumerate(self._items) if item.item_id in item_ids]
        rubrics = [rubric for rubric in self._rubrics if rubric.id in names]
        self._asked_rubrics = [rubric.id for rubric in rubrics]
        return write_scores(
            [self._items[i] for i in self._asked],
            rubrics,
            Purse(self.asking, self.usage.cost or 0.0).rest(),
            include_replies=self._include_replies,
            request_id=self._request_id,
        )

    def take(self, reply: pb.ScoreAnswersResponse) -> AnswerScore | None:
        """Take in a message of the stream; return the score if it brings a new one."""
        which = reply.WhichOneof("message")
        if which == "summary":
            if (usage := usage_of(reply.summary)) is not None:
                self._usage, self._unsummed = self._usage + usage, []
            return None
        if which == "started":
            for name, judge in zip(self._asked_rubrics, reply.started.judges, strict=False):
                self._judges[name] = read_fields(JudgeIdentity, judge)
            return None
        if which != "score":
            return None  # of a later version of the contract
        score = read_score(reply.score, self._judges.get(reply.score.rubric))
        pair = (score.item_id, score.rubric)
        self._unsummed.append(score.usage)
        if pair in self.scores:
            return None  # asked for again with others that were missing
        if pair not in self._known:
            raise errors.InternalError("the server sent a score that nobody asked for")
        self.scores[pair] = score
        self._progressed = True
        return score

    def ended(self) -> None:
        """Raise InternalError when the stream ended without an error and a score is missing."""
        if missing := len(self.missing):
            raise errors.InternalError(f"the server ended the stream with {missing} scores missing")
        self._budget.answered()
        self.done = True

    def waits(self, error: errors.JudgedError) -> Iterator[float]:
        """Return the waits in seconds before the next try; they raise the error for none."""
        if not self.missing and not isinstance(error, errors.BudgetExhausted):
            self.done = True  # only the summary is lost, and it can be made again
            return iter(())
        if self._progressed:
            self._budget.answered()
        return super().waits(error)

    def score_of(self, pair: _Pair) -> AnswerScore:
        """Return what came for an item and a rubric, else the error that kept it."""
        if pair in self.scores:
            return self.scores[pair]
        error = self.failure or errors.InternalError("the score never came")
        return AnswerScore(*pair, Status.ERROR, error=missing_for(error))

    def of_whole(self, error: errors.InvalidArgument) -> errors.InvalidArgument:
        """Make an error about the message speak of the whole: its items[0] may be another."""

        def rename(match: re.Match[str]) -> str:
            place = int(match[1])
            return f"items[{self._start + self._asked[place]}]"

        return rename_paths(error, _ITEM, rename)


class Scoring:
    """The items of a call and the scores so far."""

    def __init__(
        self,
        items: Iterable[AnswerItem],
        rubrics: Iterable[Rubric | str],
        asking: Asking | None,
        deadline: Deadline,
        budget: RetryBudget,
        progress: Progress | None = None,
        request_id: str = "",
        *,
        include_replies: bool = False,
    ) -> None:
        """Cut the items into parts, each of at most so many scores and characters as above.

        Raises InvalidArgument for what the server would refuse of them all.
        """
        self._items = need_each(items, "items", (AnswerItem,), "AnswerItem")
        self._rubrics = as_rubrics(rubrics)
        check_item_ids(self._items)
        if not self._rubrics:
            raise errors.InvalidArgument.of_field("rubrics", "must hold at least one rubric")
        sized = (
            ((place, item), (_characters(item, f"items[{place}]"), 1))
            for place, item in enumerate(self._items)
        )
        most = max(1, PART_SCORES // len(self._rubrics))
        self.parts = [
            Part(
                part[0][0],
                [item for _, item in part],
                self._rubrics,
                asking,
                request_id,
                deadline,
                budget,
                include_replies=include_replies,
            )
            for part in packed(sized, (PART_CHARACTERS, most))
        ]
        self._purse = Purse(asking)
        self._progress = progress
        self._done = 0
        self._total = len(self._items) * len(self._rubrics)

    def parts_in_turn(self) -> Iterator[Part]:
        """Yield the parts, each with what those before it have left of what all may cost."""
        for part in self.parts:
            part.asking = self._purse.rest()
            yield part
            self._purse.took(part.usage)

    def came(self, score: AnswerScore) -> AnswerScore:
        """Count a score that came, and return it; its error names the limit of the call."""
        self._tell()
        return self._named(score)

    def _tell(self) -> None:
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)

    def failed(self, part: Part, error: errors.JudgedError) -> None:
        """Note what ended a part; raise it when it means that the whole call is wrong."""
        if isinstance(error, errors.InvalidArgument):
            raise part.of_whole(error) from None
        if not isinstance(error, PASSING):
            raise error
        part.failure = error
        self._purse.lost(error)

    def lost(self) -> Iterator[AnswerScore]:
        """Yield the scores that never came, as errors; raise the first failure if none came.

        A server that asked nothing for want of money says so of every score, and then as a whole.
        """
        came = [score for part in self.parts for score in part.scores.values()]
        all_failed = all(score.status is Status.ERROR for score in came)
        for part in self.parts:
            refused = isinstance(part.failure, errors.BudgetExhausted) and all_failed
            if part.failure is not None and (refused or not came):
                raise part.failure
        for part in self.parts:
            for pair in part.missing:
                self._tell()
                yield part.score_of(pair)

    def _named(self, score: AnswerScore) -> AnswerScore:
        """Return a score whose error names the limit of the call."""
        return replace(score, error=self._purse.named(score.error)) if score.error else score

    def whole(self) -> ScoredAnswers:
        """Return the scores of all parts, and what sums them up."""
        scores = [self._named(part.score_of(pair)) for part in self.parts for pair in part.pairs]
        n = len(self._rubrics)
        return ScoredAnswers(
            scores,
            [summarise(rubric.id, scores[place::n]) for place, rubric in enumerate(self._rubrics)],
            sum((part.usage for part in self.parts), Usage()),
        )


def as_rubrics(rubrics: Iterable[Rubric | str]) -> list[Rubric]:
    """Return rubrics as they are, and those that are given by their id alone."""
    if isinstance(rubrics, str):
        raise errors.InvalidArgument.of_field("rubrics", "must be a list of rubrics, not one text")
    listed: list[Rubric | str] = need_each(rubrics, "rubrics", (Rubric, str), "Rubric or its id")
    return [Rubric(rubric) if isinstance(rubric, str) else rubric for rubric in listed]


def check_item_ids(items: Sequence[AnswerItem]) -> None:
    """Raise InvalidArgument, as the server would, when there are no items or one is there twice."""
    if not items:
        raise errors.InvalidArgument.of_field("items", "must hold at least one item")
    places: dict[str, int] = {}
    for i, item in enumerate(items):
        first = places.setdefault(item.item_id, i)
        if first != i:
            rule = f"is that of items[{first}] again; give every item an id of its own"
            raise errors.InvalidArgument.of_field(f"items[{i}].item_id", rule)


def summarise(rubric: str, scores: Sequence[AnswerScore]) -> RubricSummary:
    """Return the summary of the scores of one rubric. The mean is of those that are OK."""
    values = [score.score for score in scores if score.score is not None]

    def count(status: Status) -> int:
        return sum(score.status is status for score in scores)

    return RubricSummary(
        rubric,
        math.fsum(values) / len(values) if values else None,
        ScoreCounts(
            ok=count(Status.OK),
            error=count(Status.ERROR),
            abstained=count(Status.ABSTAINED),
            not_assessable=count(Status.NOT_ASSESSABLE),
            passed=sum(score.passed is True for score in scores),
        ),
        next((score.judge for score in scores if score.judge is not None), None),
    )


def _characters(item: AnswerItem, path: str) -> int:
    """Return how long the texts of an item are. Raises InvalidArgument for what is no text."""
    try:
        own = len(item.item_id) + len(item.query) + len(item.answer) + len(item.other_answer)
        lists = (item.references, item.contexts, item.sources_used)
        return own + sum(sum(map(len, texts)) for texts in lists)
    except TypeError:
        write_item(item, path)
        raise


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
