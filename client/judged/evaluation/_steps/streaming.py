"""Judges groups of any number over streams, and sends chunks again that were turned away.

A stream that breaks is resumed by `judge_stream`. The arithmetic of chunks is in
`_batching.chunks`, the decision whether to try again in `_transport.call`.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence

from judged import errors
from judged._batching.chunks import Assembly, Piece, cut, original_path
from judged._convert.judges import share
from judged._transport.call import Attempts, Deadline, RetryBudget
from judged._transport.status import BUDGET_EXHAUSTED, may_retry
from judged.client import Client
from judged.types import Asking, Judge, QueryGroup, VerdictError, Verdicts

Progress = Callable[[int, int], object]
Chunk = Sequence[Piece]

_CHUNK = re.compile(r"chunks\[(\d+)\]\.")
_INVALID_ARGUMENT = 3
_WAIT_FOR_CHUNK_S = 0.5
"""A chunk that was turned away says that it may be sent again, but not when."""


class _Broken(Exception):
    """A stream ended for good before these chunks were answered."""

    def __init__(self, left: Sequence[Chunk], failure: errors.JudgedError) -> None:
        super().__init__(failure.message)
        self.left = left
        self.failure = failure


class StreamedJudging:
    """One judging of groups: what was sent, what was answered, what to send again."""

    def __init__(
        self,
        client: Client,
        judge: Judge | str | None,
        groups: Sequence[QueryGroup],
        deadline: Deadline,
        progress: Progress | None,
        asking: Asking | None = None,
        *,
        include_details: bool = False,
        budget: RetryBudget | None = None,
    ) -> None:
        """Share `budget` with the other calls of the client."""
        self._client = client
        self._include_details = include_details
        self._judge = judge
        self._asking = asking
        self._spent = 0.0
        self._request_id = str(uuid.uuid4())
        self._refusal: errors.BudgetExhausted | None = None
        self._assembly = Assembly(groups)
        self._chunks: list[Chunk] = [chunk for chunk in map(_judged, cut(groups, judge)) if chunk]
        self._deadline = deadline
        self._budget = budget or RetryBudget()
        self._progress = progress
        self._done = 0
        self._total = sum(map(_size, self._chunks))

    def run(self, max_contexts: int) -> Verdicts | None:
        """Return the verdicts; None when no group is to be judged.

        No stream carries more than `max_contexts`. Contexts whose chunk failed for good have the
        status ERROR. Raises when the request is wrong, or when nothing at all was answered.
        """
        failure: errors.JudgedError | None = None
        for chunks in _streams(self._chunks, max_contexts):
            failure = self._until_answered(chunks) or failure or self._refusal
        if failure is not None and not self._assembly.answered:
            raise failure
        return self._assembly.verdicts() if self._chunks else None

    def _until_answered(self, chunks: Sequence[Chunk]) -> errors.JudgedError | None:
        """Send chunks until all are answered; return the failure that left some without one."""
        attempts = Attempts(self._deadline, self._budget)
        waiting = chunks
        while True:
            try:
                left, busy = self._send(waiting)
            except _Broken as broken:
                return self._give_up(broken.left, broken.failure)
            if busy is None:
                return None
            if len(left) < len(waiting):
                attempts = Attempts(self._deadline, self._budget)  # it goes on, so count anew
            waiting = left
            try:
                for wait in attempts.waits(busy):
                    time.sleep(wait)
            except errors.JudgedError:
                return self._give_up(waiting, busy)

    def _give_up(self, chunks: Iterable[Chunk], failure: errors.JudgedError) -> errors.JudgedError:
        for chunk in chunks:
            self._fail(chunk, failure)
        return failure

    def _send(self, chunks: Sequence[Chunk]) -> tuple[list[Chunk], errors.JudgedError | None]:
        """Send chunks on one stream. Return those that were turned away, and why.

        Raises _Broken when the stream ended for good before all were answered.
        """
        left = dict(enumerate(chunks))
        asked = sum(map(_size, chunks))
        busy: errors.JudgedError | None = None
        try:
            answers = self._client.judge_stream(
                map(_groups, chunks),
                self._judge,
                include_details=self._include_details,
                asking=share(self._asking, asked, self._total - self._done, self._spent),
                timeout=self._deadline.left(),
                request_id=self._request_id,
            )
            for answer in answers:
                chunk = chunks[answer.chunk_id]
                if answer.verdicts is not None:
                    self._assembly.add(chunk, answer.verdicts)
                    usage = answer.verdicts.usage
                    self._spent += 0.0 if usage is None else usage.cost or 0.0
                    self._budget.answered()
                    self._tell(chunk)
                elif (error := _as_error(chunk, answer.error)) and may_retry(error):
                    busy = error
                    continue
                else:
                    self._fail(chunk, error)
                    if isinstance(error, errors.BudgetExhausted):
                        self._refusal = error
                del left[answer.chunk_id]
        except errors.InvalidArgument as error:
            raise _of_batch(chunks, error) from None
        except (errors.Retryable, errors.DeadlineExceeded, errors.InternalError) as error:
            raise _Broken(list(left.values()), error) from error
        return list(left.values()), busy

    def _fail(self, chunk: Chunk, error: errors.JudgedError) -> None:
        self._assembly.fail(chunk, error, retryable=may_retry(error))
        self._tell(chunk)

    def _tell(self, chunk: Chunk) -> None:
        self._done += _size(chunk)
        if self._progress is not None:
            self._progress(self._done, self._total)


def _judged(chunk: Chunk) -> Chunk:
    """Return a chunk without the groups that are matched by id; they have nothing to judge."""
    return [piece for piece in chunk if not piece.group.relevant_document_ids]


def _size(chunk: Chunk) -> int:
    return sum(piece.n_contexts for piece in chunk)


def _groups(chunk: Chunk) -> list[QueryGroup]:
    return [piece.part() for piece in chunk]


def _of_batch(chunks: Sequence[Chunk], error: errors.InvalidArgument) -> errors.InvalidArgument:
    """Make an error about a group that can't be sent speak of the batch."""
    sent = _CHUNK.match(error.field)
    if sent is None:
        return error
    error.field = error.field.removeprefix(sent[0])
    error.message = error.message.removeprefix(sent[0])
    error.metadata = {key: text.removeprefix(sent[0]) for key, text in error.metadata.items()}
    return original_path(chunks[int(sent[1])], error)


def _streams(chunks: Iterable[Chunk], max_contexts: int) -> Iterator[list[Chunk]]:
    """Yield the chunks of one stream after the other."""
    stream: list[Chunk] = []
    contexts = 0
    for chunk in chunks:
        if stream and contexts + _size(chunk) > max_contexts:
            yield stream
            stream, contexts = [], 0
        stream.append(chunk)
        contexts += _size(chunk)
    if stream:
        yield stream


def _as_error(chunk: Chunk, answer: VerdictError | None) -> errors.JudgedError:
    """Return the error of a chunk that was not judged; raise it when the request is to blame."""
    if answer is None:
        return errors.InternalError("the server sent neither verdicts nor an error for a chunk")
    if answer.code == _INVALID_ARGUMENT:
        field, _, rule = answer.message.removeprefix("chunk.").partition(": ")
        error = errors.InvalidArgument.of_field(field, rule, answer.reason)
        raise original_path(chunk, error)
    if answer.retryable:
        busy = errors.Overloaded(answer.message, code="RESOURCE_EXHAUSTED", reason=answer.reason)
        busy.retry_after = _WAIT_FOR_CHUNK_S
        return busy
    if answer.reason == BUDGET_EXHAUSTED:
        return errors.BudgetExhausted(
            answer.message, code="RESOURCE_EXHAUSTED", reason=answer.reason
        )
    return errors.InternalError(answer.message, code="INTERNAL", reason=answer.reason)
