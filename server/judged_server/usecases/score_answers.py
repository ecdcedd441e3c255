"""The way of ScoreAnswers: settle the rubrics, score each pair of item and rubric, sum up."""

from __future__ import annotations

import asyncio
import math
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
"""Pairs of one call that are in work, or wait for a slow reader, and questions of it that wait for
a model."""

_MAX_BUILT = 256
_SEND_S = 0.0003
"""About what it takes to write one score: time that the last ones of a large call need."""

_NO_TIME = VerdictFault(
    0,
    Reason.TIMEOUT,
    "the call's time was used up before the item's turn; allow more, or send less",
    retryable=True,
)

Once = Callable[[object, Callable[[], Coroutine[Any, Any, AnswerScore]]], Awaitable[AnswerScore]]
"""Returns a score by all that it depends on: of another try of the same call, or a new one."""

_log = Logger("scoring")


@dataclass
class Scoring:
    """Scores answers. One instance serves all calls of a process.

    Requests may name the `calibrations`.
    """

    kind: AnswersKind
    calibrations: Mapping[str, Calibrator] = field(default_factory=dict)
    _built: OrderedDict[str, AnswerScorer] = field(default_factory=OrderedDict)

    def offer(self) -> Offer | None:
        """Return the judge `answers` as GetServerInfo lists it, with the first rubric it takes.

        None where there is no such rubric.
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
        """Return a scorer for each spec; `field` is where they stand in the request.

        Raises InvalidField, UnknownRubric and ModelNotConfigured.
        """
        check_unique([spec.rubric.partition("@")[0] for spec in specs], field + "[{}].rubric")
        keys = [repr(spec) for spec in specs]  # with the types of parameters: true is not 1
        if all(key in self._built for key in keys):
            return [self._built[key] for key in keys]
        # All are settled before one is built, which needs a model: a wrong field is named first.
        builders = [self._builder(spec, f"{field}[{i}]") for i, spec in enumerate(specs)]
        scorers = [build() for build in builders]
        self._built.update(zip(keys, scorers, strict=True))
        while len(self._built) > _MAX_BUILT:
            self._built.popitem(last=False)
        return scorers

    def _builder(self, spec: RubricSpec, field: str) -> Callable[[], AnswerScorer]:
        rubrics = self.kind.rubrics
        scoring = tuple(name for name, rubric in rubrics.items() if rubric.scores_answers)
        rule = f"must be set: answers are scored by {', '.join(scoring)}"
        need(spec.rubric != "", f"{field}.rubric", rule)
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
        of_labels = None if calibrator is None else calibrator.min_score
        bars = spec.min_score, of_labels, rubric.min_score
        min_score = next(bar for bar in bars if bar is not None)
        parameters = settle(self.kind.profile, spec.parameters, f"{field}.parameters")
        weights = _weights(rubric, spec.weights, f"{field}.weights")

        def build() -> AnswerScorer:
            scorer = self.kind.build(rubric, float(min_score), parameters, weights)
            if calibrator is not None:
                scorer.calibrate(calibrator, f"{field}.calibration")
            return scorer

        return build

    async def score(
        self,
        items: Sequence[AnswerItem],
        scorers: Sequence[AnswerScorer],
        caller: Caller,
        once: Once | None = None,
    ) -> AsyncGenerator[AnswerScore | ScoreSummary, None]:
        """Yield each score of an item by a scorer as soon as it is there, the summary last.

        Items that are alike in what a rubric reads are asked about once; the score of the others
        took nothing. What failed, or could not be had in time, is a score with a fault. While
        nobody takes them no more than MAX_IN_WORK are begun. Closing it ends all that is under way,
        but for what `once` lets go on: it shares each score with other tries of the same call.
        Raises InvalidField for a limit on money where a model has no price, and ModelNotConfigured
        where a model may have to be asked and has no key.
        """
        asking = self._asking(caller, scorers, len(items))
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
                # The others are alike, and so they took nothing more.
                took = scorers[number].asked.nothing
                others = (items[place].item_id for place in places[1:])
                for each in (found, *(replace(found, item_id=i, usage=took) for i in others)):
                    summing[number].add(each)
                    yield each
        refuse_if_nothing_asked(
            caller.cost_tracker, set().union(*(each.reasons for each in summing))
        )
        rubrics = tuple(each.summary() for each in summing)
        yield ScoreSummary(rubrics, reduce(add, (each.usage for each in summing)))

    def _asking(self, caller: Caller, scorers: Sequence[AnswerScorer], n_items: int) -> Asking:
        """Return how to ask. Raises InvalidField and ModelNotConfigured as `score` does."""
        for scorer in scorers:
            check_api_keys(scorer.asked.model, caller.cache)
            if caller.cost_tracker.max_cost is not None and not scorer.asked.priced:
                raise unpriced()
        call_options = CallOptions.of(caller.deadline, caller.cost_tracker, caller.cache, ANSWERS)
        if caller.deadline is not None:
            # What is left of the time must do for the scores that were not begun, too.
            left_s = caller.deadline - asyncio.get_running_loop().time()
            ends_at = caller.deadline - min(len(scorers) * n_items * _SEND_S, left_s / 2)
            call_options = replace(call_options, ends_at=min(call_options.ends_at, ends_at))
        places = asyncio.Semaphore(MAX_IN_WORK)
        return Asking(self.kind.model_caller, call_options, places, caller.wants_details)


async def _score(
    scorer: AnswerScorer, item: AnswerItem, asking: Asking, once: Once | None
) -> AnswerScore:
    """Return the score of one item; a bug is its fault alone, a failure that of the call."""
    if asyncio.get_running_loop().time() >= asking.call_options.ends_at:
        return scorer.missing(item, _NO_TIME)
    identity, how = scorer.identity, (asking.call_options.cache, asking.keep_replies)
    # All that a score depends on, and nothing that two tries may differ in.
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
    """Counts the scores of one scorer."""

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
        # Summed exactly: scores come in any order, and the mean must not depend on it.
        mean, scorer = fmean(self._scores) if self._scores else None, self._scorer
        counts = ScoreCounts(**self._counts)
        return RubricSummary(scorer.asked.rubric.id, mean, counts, scorer.identity)


def distinct_pairs(
    items: Sequence[AnswerItem], scorers: Sequence[AnswerScorer]
) -> list[tuple[int, list[int]]]:
    """Return each scorer by its number with the places of items that are alike to it.

    Those of the first item stand first.
    """
    found: dict[tuple[int, object], list[int]] = {}
    for place, item in enumerate(items):
        for number, scorer in enumerate(scorers):
            found.setdefault((number, scorer.texts_of(item)), []).append(place)
    return [(number, places) for (number, _), places in found.items()]


def _weights(rubric: Rubric, given: Mapping[str, float], field: str) -> dict[str, float]:
    known = dict(rubric.dimensions)
    if not given:
        return known
    need(bool(known), field, f"{rubric.id} has no dimensions to weigh; leave them out")
    check_known(given, known, field, f"no such dimension; {rubric.id} has {', '.join(known)}")
    for name, weight in given.items():
        need(0 <= weight < math.inf, f'{field}["{name}"]', "must be a finite number, 0 or more")
    need(any(given.values()), field, "must not be 0 for every dimension")
    return {name: given.get(name, 0.0) for name in known}
