"""Between the messages of ScoreAnswers and the domain: items and rubrics in, scores back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from judged._codec import write_fields
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import scores_pb2
from judged.values.judges import CostEstimate, JudgeIdentity
from judged.values.scores import AnswerItem, Rubric

from judged_server import errors
from judged_server.api.convert.fields import read
from judged_server.api.convert.judging import (
    check_calibration,
    read_asking,
    read_spec,
    refuse_evaluation,
    take_groups,
    write_identity,
)
from judged_server.api.convert.verdicts import write_fault
from judged_server.domain import AnswerScore, ScoreSummary
from judged_server.judges.catalog import JudgeCatalog
from judged_server.llm.budget.budgets import unpriced
from judged_server.scheduling.concurrency import ITEM_BYTES, run_by_size
from judged_server.settings import Limits
from judged_server.usecases.estimate_batch import Estimator
from judged_server.usecases.judge_batch import check_groups_fit
from judged_server.usecases.score_answers import Scoring


def read_answers(
    messages: Sequence[scores_pb2.AnswerItem],
    rubrics: int,
    limits: Limits,
    field: str = "items",
) -> list[AnswerItem]:
    """Return the items of a request for as many rubrics. Raises InvalidField with paths."""
    limits.check_groups(len(messages), field, "item")
    limits.check_contexts(len(messages) * rubrics, field)
    places: dict[str, int] = {}
    items = []
    for index, message in enumerate(messages):
        path = f"{field}[{index}]"
        item = _read_item(message, limits, path)
        if not item.item_id:
            raise errors.InvalidField(f"{path}.item_id", "must be set")
        first = places.setdefault(item.item_id, index)
        if first != index:
            rule = f"is that of {field}[{first}] again; scores would be mixed up"
            raise errors.InvalidField(f"{path}.item_id", rule)
        items.append(item)
    return items


def _read_item(message: scores_pb2.AnswerItem, limits: Limits, path: str) -> AnswerItem:
    item = read(AnswerItem, message, path)
    limits.check_id(item.item_id, f"{path}.item_id")
    limits.check_text(item.query, f"{path}.query")
    limits.check_text(item.answer, f"{path}.answer")
    limits.check_texts(item.references, f"{path}.references")
    limits.check_texts(item.contexts, f"{path}.contexts")
    limits.check_text(item.other_answer, f"{path}.other_answer")
    limits.check_texts(item.sources_used, f"{path}.sources_used")
    if item.confidence is not None and not 0 <= item.confidence <= 1:  # NaN too
        raise errors.InvalidField(f"{path}.confidence", "must be from 0 to 1")
    return item


def read_rubrics(messages: Sequence[scores_pb2.RubricSpec], field: str = "rubrics") -> list[Rubric]:
    """Return the rubrics of a request. Raises InvalidField for none, and for values of no kind."""
    if not messages:
        raise errors.InvalidField(field, "must hold at least one rubric")
    specs = []
    for index, message in enumerate(messages):
        path = f"{field}[{index}]"
        specs.append(read(Rubric, message, path))
        check_calibration(specs[-1].calibration, f"{path}.calibration")
    return specs


def write_started(identities: Iterable[JudgeIdentity]) -> pb.ScoringStarted:
    """Return the message that says which judges score by the rubrics."""
    return pb.ScoringStarted(judges=map(write_identity, identities))


def write_score(score: AnswerScore) -> scores_pb2.AnswerScore:
    """Return the message of one score; what is not known stays unset."""
    return write_fields(
        scores_pb2.AnswerScore,
        score,
        min_score=score.identity.min_score,
        error=None if score.fault is None else write_fault(score.fault),
    )


def write_summary(summary: ScoreSummary) -> scores_pb2.ScoreSummary:
    """Return the message that ends a stream of scores."""
    return write_fields(scores_pb2.ScoreSummary, summary)


async def estimate(
    request: pb.EstimateBatchRequest,
    catalog: JudgeCatalog,
    scoring: Scoring,
    estimator: Estimator,
    limits: Limits,
) -> pb.EstimateBatchResponse:
    """Return what the work of a request would take. Raises as the work itself does."""
    which = request.WhichOneof("work")
    if which is None:
        raise errors.InvalidField("work", "must be set: judge for groups, score for answers")
    if which == "judge":
        found = await _judging(request.judge, catalog, estimator, limits)
    else:
        found = await _scoring(request.score, scoring, estimator, limits)
    return write_fields(pb.EstimateBatchResponse, found)


async def _judging(
    request: pb.BatchJudgeRequest,
    catalog: JudgeCatalog,
    estimator: Estimator,
    limits: Limits,
) -> CostEstimate:
    spec = read_spec(request.judge, "judge.judge")
    groups = await take_groups(request.groups, request.ByteSize(), limits, "judge.groups")
    refuse_evaluation(groups, "judge.groups")
    judge = catalog.choose(spec, "judge.judge", groups)
    check_groups_fit(judge, groups, "judge.groups")
    asking = read_asking(request.asking, "judge.asking")
    if asking.max_cost is not None and not judge.priced:
        raise unpriced("judge.asking.max_cost")
    return await estimator.judging(judge, groups, asking.cache, asking.max_cost)


async def _scoring(
    request: pb.ScoreAnswersRequest, scoring: Scoring, estimator: Estimator, limits: Limits
) -> CostEstimate:
    asking = read_asking(request.asking, "score.asking")
    specs = read_rubrics(request.rubrics, "score.rubrics")
    size = request.ByteSize() + ITEM_BYTES * len(request.items)
    items = await run_by_size(size, read_answers, request.items, len(specs), limits, "score.items")
    scorers = scoring.choose(specs, "score.rubrics")
    if asking.max_cost is not None and not all(scorer.priced for scorer in scorers):
        raise unpriced("score.asking.max_cost")
    return await estimator.scoring(items, scorers, asking.cache)
