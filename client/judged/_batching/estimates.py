"""Between work and EstimateBatch: the calls that ask about it, and the estimate they give.

Work is cut as it is for judging and scoring, so that each message is the one that would be sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from judged._batching.batch import Batch
from judged._batching.calls import Call, Calls
from judged._batching.chunks import fold
from judged._batching.scoring import Scoring
from judged._codec import read_fields
from judged._convert.judges import write_judge
from judged._transport.status import rename_paths
from judged.errors import InvalidArgument
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.values.groups import Context, QueryGroup
from judged.values.judges import Asking, CostEstimate, Judge
from judged.values.scores import AnswerItem, Rubric

_OF_WORK = re.compile(r"^(judge|score)\.")
"""Where the work stands in a message; errors speak of the work alone."""

_OPEN_ENDED = groups_pb2.QueryGroup(retrieved=["text"])

Estimating = Calls[CostEstimate, CostEstimate]


def estimate_judging(
    items: Iterable[QueryGroup] | Iterable[Context],
    judge: Judge | str | None,
    asking: Asking | None,
) -> Estimating:
    """Yield the calls that ask what judging would take; return what they sum up to."""
    groups = yield from expected_filled(fold(items), judge)
    batch = Batch(groups, None, asking, judge)
    requests = batch.requests(write_judge(judge), include_details=False)
    work = (pb.EstimateBatchRequest(judge=request) for _, request in requests)
    return (yield from _estimate(work))


def expected_filled(
    groups: Sequence[QueryGroup], judge: Judge | str | None
) -> Calls[CostEstimate, Sequence[QueryGroup]]:
    """Return the groups with a blank expected text where none is given and the judge needs none.

    Only the server knows what a judge's rubric shows, so it is asked, with one short text, where
    any group needs to know.
    """
    if not any(isinstance(g, QueryGroup) and not g.expected and g.open_ended for g in groups):
        return groups
    work = pb.BatchJudgeRequest(groups=[_OPEN_ENDED], judge=write_judge(judge))
    found = yield from _estimate([pb.EstimateBatchRequest(judge=work)])
    return [fill_expected(group) for group in groups] if found.contexts else groups


def fill_expected(group: QueryGroup) -> QueryGroup:
    """Return a group with one blank expected text where it has none and texts were retrieved."""
    missing = not group.expected and group.open_ended
    return replace(group, expected=("",)) if missing else group


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
