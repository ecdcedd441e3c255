"""Between work and EstimateBatch: the requests that ask about it, and the estimate they give.

Work is cut as it is for judging and scoring, so that each message is the one that would be sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from judged._batching.batch import Batch, write_chunk
from judged._batching.chunks import fold
from judged._batching.scoring import Scoring
from judged._convert.judges import write_judge
from judged.errors import InvalidArgument
from judged.types.asking import Asking, CostEstimate
from judged.types.groups import Context, QueryGroup
from judged.types.judges import Judge
from judged.types.scores import AnswerItem, Rubric
from judged.v1 import judge_service_pb2 as pb

_WORK = ("judge.", "score.")


def ask_about_judging(
    items: Iterable[QueryGroup] | Iterable[Context],
    judge: Judge | str | None,
    asking: Asking | None,
) -> Iterator[pb.EstimateBatchRequest]:
    """Yield the messages that ask what judging would take."""
    batch = Batch(fold(items), None, asking)
    spec = write_judge(judge)
    for chunk in batch.chunks():
        work = write_chunk(chunk, spec, batch.asking(chunk), include_details=False)
        yield pb.EstimateBatchRequest(judge=work)


def ask_about_scoring(
    items: Iterable[AnswerItem], rubrics: Iterable[Rubric | str], asking: Asking | None
) -> Iterator[pb.EstimateBatchRequest]:
    """Yield the messages that ask what scoring would take."""
    for part in Scoring(items, rubrics, asking, include_replies=False).parts:
        yield pb.EstimateBatchRequest(score=part.request())


def read_estimate(reply: pb.EstimateBatchResponse) -> CostEstimate:
    """Return the estimate of a message."""
    return CostEstimate(
        reply.contexts,
        reply.distinct_texts,
        reply.cache_hits,
        reply.calls,
        reply.input_tokens,
        reply.output_tokens,
        reply.cost if reply.HasField("cost") else None,
        reply.currency,
    )


def of_work(error: InvalidArgument) -> InvalidArgument:
    """Make an error about the work in a message speak of the work alone."""
    for prefix in _WORK:
        if error.field.startswith(prefix):
            error.field = error.field.removeprefix(prefix)
            error.message = error.message.removeprefix(prefix)
            error.metadata = {k: v.removeprefix(prefix) for k, v in error.metadata.items()}
            error.args = (error.message,)
            break
    return error
