"""EstimateBatch: which work a request brings, and the estimate as a message."""

from __future__ import annotations

from judged.v1 import judge_service_pb2 as pb

from judged_server import errors
from judged_server.api.convert.asking import read_asking
from judged_server.api.convert.judging import (
    LARGE_BYTES,
    LARGE_GROUPS,
    read_spec,
    refuse_evaluation,
    take_groups,
)
from judged_server.api.convert.scoring import read_answers, read_rubrics
from judged_server.api.limits import RequestLimits
from judged_server.judges.catalog import JudgeCatalog
from judged_server.llm.budget import unpriced
from judged_server.threads import run_in_thread_if
from judged_server.usecases.estimate_batch import Estimate, Estimator
from judged_server.usecases.judge_batch import check_groups_fit
from judged_server.usecases.score_answers import Scoring


async def estimate(
    request: pb.EstimateBatchRequest,
    catalog: JudgeCatalog,
    scoring: Scoring,
    estimator: Estimator,
    limits: RequestLimits,
) -> pb.EstimateBatchResponse:
    """Return what the work of a request would take. Raises as the work itself does."""
    which = request.WhichOneof("work")
    if which is None:
        raise errors.InvalidField("work", "must be set: judge for groups, score for answers")
    if which == "judge":
        found = await _judging(request.judge, catalog, estimator, limits)
    else:
        found = await _scoring(request.score, scoring, estimator, limits)
    return write_estimate(found, estimator.currency)


async def _judging(
    request: pb.BatchJudgeRequest,
    catalog: JudgeCatalog,
    estimator: Estimator,
    limits: RequestLimits,
) -> Estimate:
    spec = read_spec(request.judge, "judge.judge")
    groups = await take_groups(request.groups, request.ByteSize(), limits, "judge.groups")
    refuse_evaluation(groups, "judge.groups")
    judge = catalog.choose(spec, "judge.judge", groups)
    check_groups_fit(judge, groups, "judge.groups")
    asking = read_asking(request.asking, "judge.asking")
    if asking.max_cost is not None and not judge.priced:
        raise unpriced("judge.asking.max_cost")
    return await estimator.judging(judge, groups, asking.cache)


async def _scoring(
    request: pb.ScoreAnswersRequest, scoring: Scoring, estimator: Estimator, limits: RequestLimits
) -> Estimate:
    asking = read_asking(request.asking, "score.asking")
    specs = read_rubrics(request.rubrics, "score.rubrics")
    large = request.ByteSize() > LARGE_BYTES or len(request.items) > LARGE_GROUPS
    items = await run_in_thread_if(
        large, read_answers, request.items, len(specs), limits, "score.items"
    )
    scorers = scoring.choose(specs, "score.rubrics")
    if asking.max_cost is not None and not all(scorer.priced for scorer in scorers):
        raise unpriced("score.asking.max_cost")
    return await estimator.scoring(items, scorers, asking.cache)


def write_estimate(found: Estimate, currency: str) -> pb.EstimateBatchResponse:
    """Return the message of an estimate."""
    return pb.EstimateBatchResponse(
        contexts=found.contexts,
        distinct_texts=found.distinct_texts,
        cache_hits=found.cache_hits,
        calls=found.calls,
        input_tokens=found.input_tokens,
        output_tokens=found.output_tokens,
        cost=found.cost,
        currency=currency,
    )
