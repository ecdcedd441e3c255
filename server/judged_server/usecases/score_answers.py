"""Implements ScoreAnswers: settles the rubrics, scores each pair of item and rubric, sums up."""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter, OrderedDict
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from statistics import fmean
from typing import Any

from judged.values.calibrators import Calibrator
from judged.values.choices import Status
from judged.values.scores import AnswerItem, AnswerScore, RubricSummary, ScoreCounts
from judged.values.scores import Rubric as RubricSpec

from judged_server import errors
from judged_server.domain import ScoreSummary, VerdictFault, check_known, check_unique, need
from judged_server.judges.base import Caller, find_calibrator
from judged_server.judges.catalog import Offer, settle
from judged_server.judges.llm.answers import KIND as ANSWERS
from judged_server.judges.llm.answers import AnswerScorer, AnswersKind
from judged_server.judges.llm.scoring import Asking
from judged_server.llm.budgets import refuse_if_nothing_asked, unpriced
from judged_server.llm.caller import CallOptions
from judged_server.llm.chat import Reason
from judged_server.llm.models import check_api_keys, missing_key_fault
from judged_server.llm.rubrics.rubric import Rubric
from judged_server.scheduling.concurrency import Begun, choose_class, work_in_window
from judged_server.telemetry import Logger

MAX_IN_WORK = 256
"""The most pairs of one call in work or waiting for a slow reader; also its concurrent questions
to models."""

_MAX_BUILT = 256

_NO_TIME = VerdictFault(
    0,
    Reason.TIMEOUT,
    "the call's time was used up before the item's turn; allow more, or send less",
    retryable=True,
)

Once = Callable[[object, Callable[[], Coroutine[Any, Any, AnswerScore]]], Awaitable[AnswerScore]]
"""Returns the score for these facts: one from another try of the same call, or a new one."""

_log = Logger("scoring")


@dataclass
class Scoring:
    """Scores answers; requests may name the `calibrations`. One instance serves a whole process."""

    kind: AnswersKind
    calibrations: Mapping[str, Calibrator] = field(default_factory=dict)
    _built: OrderedDict[str, AnswerScorer] = field(default_factory=OrderedDict)

    def offer(self) -> Offer | None:
        """Return the judge `answers` for GetServerInfo, with the first rubric that scores answers.

        None if there is no such rubric.
        """
        profile = self.kind.profile
        rubric = next((each for each in self.kind.rubrics.values() if each.scores_answers), None)
        if rubric is None:
            return None
        try:
            (scorer,) = self.choose([RubricSpec(rubric.id)])
        except errors.JudgedError as error:
            return Offer(self.kind.kind, profile, "", error.message)
        if (fault := missing_key_fault(scorer.asked.model)) is not None:
            return Offer(self.kind.kind, profile, "", fault.message)
        return Offer(self.kind.kind, profile, scorer.identity.signature, "")

    def choose(self, specs: Sequence[RubricSpec], field: str = "rubrics") -> list[AnswerScorer]:
        """Return a scorer for each spec; `field` is their path in the request.

        Raises InvalidField, UnknownRubric and ModelNotConfigured.
        """
        check_unique([spec.rubric.partition("@")[0] for spec in specs], field + "[{}].rubric")
        return [self._scorer(spec, f"{field}[{i}]") for i, spec in enumerate(specs)]

    def _scorer(self, spec: RubricSpec, field: str) -> AnswerScorer:
        key = repr(spec)  # keeps the types of parameters: true is not 1
        scorer = self._built.get(key)
        if scorer is None:
            scorer = self._built[key] = self._build(spec, field)
            if len(self._built) > _MAX_BUILT:
                self._built.popitem(last=False)
        return scorer

    def _build(self, spec: RubricSpec, field: str) -> AnswerScorer:
        rubrics = self.kind.rubrics
        scoring = tuple(name for name, rubric in rubrics.items() if rubric.scores_answers)
        name, pinned, version = spec.rubric.partition("@")
        rubric = rubrics.get(name)
        if rubric is None:
            raise errors.UnknownRubric(spec.rubric, scoring)
        if pinned and version != str(rubric.version):
            has = f"{rubric.id}@{rubric.version}"
            raise errors.UnknownRubric(spec.rubric, scoring, has)
        rule = (
            f"{rubric.id} compares texts and reads no answer; give it to the judge llm of "
            f"BatchJudge, or score by {', '.join(scoring)}"
        )
        need(rubric.scores_answers, f"{field}.rubric", rule)
        calibrator = None
        if spec.calibration is not None:
            calibrator = find_calibrator(
                spec.calibration, self.calibrations, f"{field}.calibration"
            )
        calibrated = None if calibrator is None else calibrator.min_score
        candidates = spec.min_score, calibrated, rubric.min_score
        min_score = next(each for each in candidates if each is not None)
        parameters = settle(self.kind.profile, spec.parameters, f"{field}.parameters")
        weights = _weights(rubric, spec.weights, f"{field}.weights")
        scorer = self.kind.build(rubric, float(min_score), parameters, weights)
        if calibrator is not None:
            scorer.calibrate(calibrator, f"{field}.calibration")
        return scorer

    async def score(
        self,
        items: Sequence[AnswerItem],
        scorers: Sequence[AnswerScorer],
        caller: Caller,
        once: Once | None = None,
    ) -> AsyncGenerator[AnswerScore | ScoreSummary, None]:
        """Yield the score of each item by each scorer as soon as it is done, then the summary.

        Items whose texts for a rubric are equal are asked about once; the others' scores have no
        usage. A failure or timeout is a score with a fault. If scores are not consumed, at most
        MAX_IN_WORK are begun. `once` shares each score with other tries of the same call. Closing
        the generator cancels all work except what `once` keeps running. Raises InvalidField for a
        cost limit if a model has no price, and ModelNotConfigured if a model that may be asked has
        no key.
        """
        asking = self._asking(caller, scorers)
        pairs = await asyncio.to_thread(distinct_pairs, items, scorers)
        choose_class(sum(scorers[number].asked.samples for number, _ in pairs))
        summing = [_Sum(scorer) for scorer in scorers]

        async def score(number: int, places: list[int]) -> tuple[int, list[int], AnswerScore]:
            return number, places, await _score(scorers[number], items[places[0]], asking, once)

        async def begun() -> AsyncIterator[Begun[tuple[int, list[int], AnswerScore]]]:
            for pair in pairs:
                yield Begun(score(*pair))

        async with aclosing(work_in_window(begun(), MAX_IN_WORK)) as answers:
            async for number, places, found in answers:
                # Items with the same texts get the same score, without usage of their own.
                unused = scorers[number].asked.nothing
                others = (items[place].item_id for place in places[1:])
                for each in (found, *(replace(found, item_id=i, usage=unused) for i in others)):
                    summing[number].add(each)
                    yield each
        refuse_if_nothing_asked(
            caller.cost_tracker, set().union(*(each.reasons for each in summing))
        )
        rubrics = tuple(each.summary() for each in summing)
        yield ScoreSummary(rubrics, reduce(add, (each.usage for each in summing)))

    def _asking(self, caller: Caller, scorers: Sequence[AnswerScorer]) -> Asking:
        """Return how to ask. Raises InvalidField and ModelNotConfigured as `score` does."""
        for scorer in scorers:
            check_api_keys(scorer.asked.model, caller.cache)
            if caller.cost_tracker.max_cost is not None and not scorer.asked.priced:
                raise unpriced()
        call_options = CallOptions.of(caller.deadline, caller.cost_tracker, caller.cache, ANSWERS)
        places = asyncio.Semaphore(MAX_IN_WORK)
        return Asking(self.kind.model_caller, call_options, places, caller.wants_details)


async def _score(
    scorer: AnswerScorer, item: AnswerItem, asking: Asking, once: Once | None
) -> AnswerScore:
    """Return the score of one item. A bug becomes its fault; a JudgedError fails the call."""
    if asyncio.get_running_loop().time() >= asking.call_options.ends_at:
        return scorer.missing(item, _NO_TIME)
    identity, how = scorer.identity, (asking.call_options.cache, asking.keep_replies)
    # All that a score depends on, and nothing that may differ between tries.
    facts = identity.signature, identity.min_score, how, scorer.texts_of(item)
    try:
        if once is None:
            return await scorer.score(item, asking)
        score = await once(facts, lambda: scorer.score(item, asking))
        return replace(score, item_id=item.item_id)
    except errors.JudgedError:
        raise
    except Exception as error:  # noqa: BLE001 - one score's bug must not end the others
        bug = _log.bug(error)
        return scorer.missing(item, VerdictFault(0, bug.reason, bug.message))


class _Sum:
    """Accumulates the scores of one scorer for its summary."""

    def __init__(self, scorer: AnswerScorer) -> None:
        self._scorer = scorer
        self._scores = array("d")
        self._counts = Counter[str]()
        self.usage = scorer.asked.nothing
        self.reasons: set[str | None] = set()

    def add(self, score: AnswerScore) -> None:
        self._counts[score.status.name.lower()] += 1
        self._counts["passed"] += bool(score.passed)
        self.usage += score.usage
        if score.status is not Status.NOT_ASSESSABLE:
            self.reasons.add(None if score.error is None else score.error.reason)
        if score.score is not None:
            self._scores.append(score.score)

    def summary(self) -> RubricSummary:
        # fmean sums exactly, so the mean does not depend on the order of the scores.
        mean, scorer = fmean(self._scores) if self._scores else None, self._scorer
        counts = ScoreCounts(**self._counts)
        return RubricSummary(scorer.asked.rubric.id, mean, counts, scorer.identity)


def distinct_pairs(
    items: Sequence[AnswerItem], scorers: Sequence[AnswerScorer]
) -> list[tuple[int, list[int]]]:
    """Return pairs of a scorer's number and the places of items with equal texts for it.

    Pairs of the first item come first.
    """
    found: dict[tuple[int, object], list[int]] = {}
    for place, item in enumerate(items):
        for number, scorer in enumerate(scorers):
            found.setdefault((number, scorer.texts_of(item)), []).append(place)
    return [(number, places) for (number, _), places in found.items()]


def _weights(rubric: Rubric, given: Mapping[str, float], field: str) -> dict[str, float]:
    known = dict(rubric.dimensions)
    names = ", ".join(known) or "none"
    check_known(given, known, field, f"no such dimension; {rubric.id} has {names}")
    return {name: given.get(name, 0.0) for name in known} if given else known
