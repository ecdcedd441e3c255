"""A judging stream that is sent again after a break, with the chunks that have no answer.

Shared by `client` and `aio`, which open the streams and wait between them.
"""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from judged import errors
from judged._convert.groups import write_group
from judged._convert.judges import Purse, read_identity, write_asking, write_judge
from judged._convert.verdicts import read_chunk
from judged._inputs import need_each, need_kind
from judged._transport.call import Attempts, Deadline, RetryBudget
from judged.v1 import judge_service_pb2 as pb
from judged.values.groups import QueryGroup
from judged.values.judges import Asking, Judge, JudgeIdentity
from judged.values.verdicts import JudgedChunk


class JudgeStream:
    """The chunks of one `judge_stream`: what to send on each try, and what was answered."""

    def __init__(
        self,
        chunks: Iterable[Sequence[QueryGroup]],
        judge: Judge | str | None,
        asking: Asking | None,
        deadline: Deadline,
        budget: RetryBudget,
        *,
        include_details: bool,
        request_id: str,
    ) -> None:
        if isinstance(chunks, QueryGroup) or not isinstance(chunks, Iterable):
            need_kind(chunks, "chunks", list, "a list of lists of QueryGroup")
        self._start = pb.StreamJudgeStart(
            judge=write_judge(judge),
            include_details=include_details,
            request_id=request_id or str(uuid.uuid4()),
        )
        self._purse = Purse(asking)
        self._deadline = deadline
        self._budget = budget
        self.attempts = Attempts(deadline, budget)
        self._unread = iter(chunks)
        self._n_read = 0
        self._all_read = False
        self._failure: Exception | None = None
        self._unanswered: dict[int, Sequence[QueryGroup]] = {}
        self._identity: JudgeIdentity | None = None
        self._answered = 0
        self._lock = threading.Lock()
        """Held while the caller's iterable is read: a stream that broke may still be reading."""

    def messages(self) -> Iterator[pb.StreamJudgeRequest]:
        """Return what the next try sends: the start, chunks without an answer, then new ones.

        gRPC reads them on a thread of its own and hides what goes wrong there: a failure of the
        caller's iterable ends the messages, and `ended` raises it.
        """
        self._identity = None
        self._answered = 0
        asking = write_asking(self._purse.rest())
        start = pb.StreamJudgeStart(asking=asking)
        start.MergeFrom(self._start)
        n_sent = self._n_read  # read without the lock: whoever holds it may wait for an answer
        again = deque(chunk_id for chunk_id in list(self._unanswered) if chunk_id < n_sent)
        return self._messages(start, again, n_sent)

    def _messages(
        self, start: pb.StreamJudgeStart, again: deque[int], n_sent: int
    ) -> Iterator[pb.StreamJudgeRequest]:
        yield pb.StreamJudgeRequest(start=start)
        while True:
            if again:
                chunk_id = again.popleft()
            elif self._has(n_sent):
                chunk_id, n_sent = n_sent, n_sent + 1
            else:
                return
            groups = self._unanswered.get(chunk_id)
            if groups is None:  # an earlier stream read it, and its answer is there
                continue
            try:
                path = f"chunks[{chunk_id}].groups"
                messages = [write_group(g, f"{path}[{i}]") for i, g in enumerate(groups)]
            except Exception as failure:  # noqa: BLE001 - raised where the caller waits
                self._failure = failure
                return
            yield pb.StreamJudgeRequest(chunk=pb.JudgeChunk(chunk_id=chunk_id, groups=messages))

    def _has(self, chunk_id: int) -> bool:
        """Say whether there is such a chunk; read it if nobody has."""
        with self._lock:
            if chunk_id < self._n_read or self._all_read:
                return chunk_id < self._n_read
            try:
                groups = need_each(
                    next(self._unread), f"chunks[{chunk_id}].groups", (QueryGroup,), "QueryGroup"
                )
            except StopIteration:
                self._all_read = True
                return False
            except Exception as failure:  # noqa: BLE001 - raised where the caller waits
                self._failure, self._all_read = failure, True
                return False
            self._unanswered[chunk_id] = groups
            self._n_read += 1
            return True

    def take(self, reply: pb.StreamJudgeResponse) -> JudgedChunk | None:
        """Return the chunk that a reply answers; None for the one that the stream begins with."""
        if self._identity is None:
            self._identity = read_identity(reply.started.judge)
            self._budget.answered()
            return None
        self._answered += 1
        self._purse.spent += reply.chunk.usage.cost
        groups = self._unanswered.pop(reply.chunk.chunk_id, ())
        return read_chunk(reply.chunk, self._identity, groups)

    @property
    def done(self) -> bool:
        """Whether every chunk is answered."""
        return self._all_read and not self._unanswered and self._failure is None

    def ended(self) -> None:
        """Note that the server ended the stream.

        Raises what went wrong in the caller's chunks, InternalError where answers are missing.
        """
        if self._failure is not None:
            raise self._failure
        if not self.done:
            missing = len(self._unanswered)
            raise errors.InternalError(f"the stream ended with {missing} chunks unanswered")

    def waits(self, error: errors.JudgedError) -> Iterator[float]:
        """Return the waits in seconds before the next try; none when everything is answered.

        They raise the error when there is to be no other try.
        """
        if self._failure is not None:
            raise self._failure
        if self.done:
            return iter(())
        if self._answered:
            self.attempts = Attempts(self._deadline, self._budget)  # it goes on, so count anew
        return self.attempts.waits(error)
