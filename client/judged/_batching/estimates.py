"""Between work and EstimateBatch: the calls that ask about it, and the estimate they give.

Work is cut as it is for judging and scoring, so that each message is the one that would be sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial

from judged._batching.batch import Batch
from judged._batching.calls import Call, Calls
from judged._batching.chunks import fold
from judged._batching.scoring import Scoring
from judged._convert.fields import read_fields
from judged._convert.judges import write_judge
from judged._transport.status import rename_paths
from judged.errors import InvalidArgument
from judged.types.groups import Context, QueryGroup
from judged.types.judges import Asking, CostEstimate, Judge
from judged.types.scores import AnswerItem, Rubric
from judged.v1 import judge_service_pb2 as pb

_OF_WORK = re.compile(r"^(judge|score)\.")
"""Where the work stands in a message; errors speak of the work alone."""

Estimating = Calls[CostEstimate, CostEstimate]


def estimate_judging(
    items: Iterable[QueryGroup] | Iterable[Context],
    judge: Judge | str | None,
    asking: Asking | None,
) -> Estimating:
    """Yield the calls that ask what judging would take; return what they sum up to."""
    batch = Batch(fold(items), None, asking, judge)
    requests = batch.requests(write_judge(judge), include_details=False)
    return _estimate(pb.EstimateBatchRequest(judge=work) for _, work in requests)


def estimate_scoring(
    items: Iterable[AnswerItem], rubrics: Iterable[Rubric | str], asking: Asking | None
) -> Estimating:
    """Yield the calls that ask what scoring would take; return what they sum up to."""
    parts = Scoring(items, rubrics, asking, include_replies=False).parts
    return _estimate(pb.EstimateBatchRequest(score=part.request()) for part in parts)


def _estimate(requests: Iterable[pb.EstimateBatchRequest]) -> Estimating:
    found, read = CostEstimate(), partial(read_fields, CostEstimate)
    try:
        for request in requests:
            found += yield Call(lambda to: to.judging.EstimateBatch, request, read)
    except InvalidArgument as error:
        raise rename_paths(error, _OF_WORK, lambda _: "") from None
    return found
