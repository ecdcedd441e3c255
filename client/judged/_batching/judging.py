"""One judge() call of any size, and one judge_stream(): what is sent, and what came of it."""

from __future__ import annotations

import re
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from judged import errors
from judged._batching.chunks import Piece, cut
from judged._convert.groups import write_group
from judged._convert.judges import Purse, read_identity, write_asking, write_judge
from judged._convert.verdicts import missing_for, read_chunk, read_verdicts, usage_of
from judged._inputs import need_each, need_kind
from judged._transport.call import CHUNKS_IN_FLIGHT, Deadline, RetryBudget, Stream, derived_id
from judged._transport.status import rename_paths
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.values.choices import Source, Status
from judged.values.groups import QueryGroup
from judged.values.judges import Asking, Judge, JudgeIdentity, Usage
from judged.values.verdicts import RARE_COLUMNS, JudgedChunk, VerdictDetail, VerdictError, Verdicts

PASSING = (
    *(errors.Retryable, errors.DeadlineExceeded, errors.InternalError),
    errors.BudgetExhausted,
)
"""Failures of a message that leave the others of its call as they are."""

Progress = Callable[[int, int], object]


class Batch:
    """The groups of a call and the verdicts so far."""

    def __init__(
        self,
        groups: Sequence[QueryGroup],
        progress: Progress | None,
        asking: Asking | None = None,
        judge: Judge | str | None = None,
        request_id: str = "",
    ) -> None:
        if not groups:
            raise errors.InvalidArgument.of_field("groups", "must hold at least one group")
        self._groups = groups
        self._judge = judge
        self._assembly = Assembly(groups)
        self._asking = asking
        self._purse = Purse(asking)
        self._request_id = request_id
        self._progress = progress
        self._total = sum(group.n_expected * group.n_retrieved for group in groups)
        self._done = 0
        self._failure: errors.JudgedError | None = None

    @property
    def ahead(self) -> int:
        """How many requests may be under way: one where the next depends on what it cost."""
        return 1 if self._purse.limited else CHUNKS_IN_FLIGHT

    def requests(
        self, spec: groups_pb2.JudgeSpec | None, *, include_details: bool
    ) -> Iterator[tuple[Sequence[Piece], pb.BatchJudgeRequest]]:
        """Yield each chunk with the request for its verdicts, in order, made as it is asked for.

        Models are asked about a chunk for what is left of what all may cost. Where the call has a
        request_id, that of each later chunk follows from it.
        """
        for place, chunk in enumerate(cut(self._groups, self._judge, self._asking)):
            asking = self._purse.rest()
            request = _write_chunk(chunk, spec, asking, include_details=include_details)
            if self._request_id:
                later = derived_id(self._request_id, place) if place else self._request_id
                request.request_id = later
            yield chunk, request

    def take(
        self, chunk: Sequence[Piece], reply: pb.BatchJudgeResponse | errors.JudgedError
    ) -> None:
        """Take in the answer of a chunk; raise its error where it means that the call is wrong."""
        if isinstance(reply, errors.JudgedError):
            self._failed(chunk, reply)
            return
        identity, usage = read_identity(reply.judge), usage_of(reply)
        self._purse.took(usage)
        verdicts = read_verdicts(reply.verdicts, identity, usage)
        named = {place: self._purse.named(error) for place, error in verdicts.errors.items()}
        self._assembly.add(chunk, replace(verdicts, errors=named))
        self._tell(chunk)

    def _failed(self, chunk: Sequence[Piece], error: errors.JudgedError) -> None:
        if isinstance(error, errors.InvalidArgument):
            raise original_path(chunk, error) from None
        if not isinstance(error, PASSING):
            raise error
        self._failure = self._failure or error
        self._purse.lost(error)
        self._assembly.fail(chunk, error)
        self._tell(chunk)

    def verdicts(self) -> Verdicts:
        """Return the verdicts of all contexts; raise the first failure if nothing was answered."""
        if self._assembly.answered or self._failure is None:
            return self._assembly.verdicts()
        raise self._failure

    def _tell(self, chunk: Sequence[Piece]) -> None:
        self._done += sum(piece.n_contexts for piece in chunk)
        if self._progress is not None:
            self._progress(self._done, self._total)


def _write_chunk(
    chunk: Sequence[Piece],
    spec: groups_pb2.JudgeSpec | None,
    asking: Asking | None,
    *,
    include_details: bool,
) -> pb.BatchJudgeRequest:
    groups = [write_group(piece.part(), f"groups[{piece.index}]") for piece in chunk]
    return pb.BatchJudgeRequest(
        groups=groups, judge=spec, include_details=include_details, asking=write_asking(asking)
    )


class Assembly:
    """Collects the verdicts of chunks, in any order, into those of the whole batch."""

    def __init__(self, groups: Sequence[QueryGroup]) -> None:
        self._groups = groups
        self._offsets = [0, *accumulate(group.n_expected * group.n_retrieved for group in groups)]
        self._total = total = self._offsets[-1]
        self._columns: dict[str, list[Any]] = {
            "relevant": [False] * total,
            "score": [0.0] * total,
            "status": [int(Status.OK)] * total,
            "source": [int(Source.COMPUTED)] * total,
            "flags": [0] * total,
            **{name: [] for name in RARE_COLUMNS},
        }
        self._errors: dict[int, VerdictError] = {}
        self._details: dict[int, VerdictDetail] = {}
        self._usage: Usage | None = None
        self._judge: JudgeIdentity | None = None

    def _rows(self, chunk: Sequence[Piece]) -> Iterator[tuple[int, int, int]]:
        """Yield (place in the chunk, place in the batch, length) of each run of verdicts."""
        place = 0
        for piece in chunk:
            base, width = self._offsets[piece.index], piece.group.n_expected
            if piece.e1 - piece.e0 == width:
                yield place, base + piece.r0 * width, piece.n_contexts
                place += piece.n_contexts
                continue
            for r in range(piece.r0, piece.r1):
                yield place, base + r * width + piece.e0, piece.e1 - piece.e0
                place += piece.e1 - piece.e0

    def add(self, chunk: Sequence[Piece], verdicts: Verdicts) -> None:
        """Take in the verdicts of a chunk. Raises InternalError when their number is wrong."""
        asked = sum(piece.n_contexts for piece in chunk)
        if len(verdicts) != asked:
            raise errors.InternalError(f"the server sent {len(verdicts)} verdicts for {asked}")
        self._judge = verdicts.judge
        columns: list[tuple[list[Any], Sequence[Any]]] = []
        for name, ours in self._columns.items():
            theirs = getattr(verdicts, name)
            if theirs:  # most judges leave the rare ones out
                ours.extend([0] * (self._total - len(ours)))
                columns.append((ours, theirs))
        if verdicts.usage is not None:
            self._usage = verdicts.usage + (self._usage or Usage())
        for source, target, length in self._rows(chunk):
            here, there = slice(target, target + length), slice(source, source + length)
            for ours, theirs in columns:
                ours[here] = theirs[there]
            if verdicts.errors or verdicts.details:
                self._take_remarks(verdicts, source, target, length)

    def _take_remarks(self, verdicts: Verdicts, source: int, target: int, length: int) -> None:
        for index in range(source, source + length):
            if index in verdicts.errors:
                self._errors[target + index - source] = verdicts.errors[index]
            if index in verdicts.details:
                self._details[target + index - source] = verdicts.details[index]

    def fail(self, chunk: Sequence[Piece], error: errors.JudgedError) -> None:
        """Give every context of a chunk the error that befell the chunk."""
        reason = missing_for(error)
        for _, target, length in self._rows(chunk):
            for index in range(target, target + length):
                self._columns["status"][index] = int(Status.ERROR)
                self._errors[index] = reason

    @property
    def answered(self) -> bool:
        """Whether any chunk was."""
        return self._judge is not None

    def verdicts(self) -> Verdicts:
        """Return the verdicts of the batch. Raises InternalError when no chunk was answered."""
        if self._judge is None:
            raise errors.InternalError("no chunk of the batch was answered")
        return Verdicts(
            **self._columns,
            offsets=self._offsets,
            errors=self._errors,
            judge=self._judge,
            details=self._details,
            usage=self._usage,
            groups=self._groups,
        )


def failed_verdicts(
    groups: Sequence[QueryGroup], error: errors.JudgedError, judge: JudgeIdentity
) -> Verdicts:
    """Return verdicts for groups of which none was judged, because of the error."""
    sizes = [group.n_expected * group.n_retrieved for group in groups]
    return replace(missing_verdicts(sizes, missing_for(error), judge), groups=groups)


def missing_verdicts(sizes: Sequence[int], reason: VerdictError, judge: JudgeIdentity) -> Verdicts:
    """Return verdicts of groups of these sizes, all of which are missing for a reason."""
    offsets = [0, *accumulate(sizes)]
    n = offsets[-1]
    return Verdicts(
        *([False] * n, [0.0] * n, [int(Status.ERROR)] * n, [int(Source.COMPUTED)] * n, [0] * n),
        offsets,
        dict.fromkeys(range(n), reason),
        judge,
    )


_PATH = re.compile(r"groups\[(\d+)\](?:\.((?:spans\.)?(?:expected|retrieved))\[(\d+)\])?")


def original_path(chunk: Sequence[Piece], error: errors.InvalidArgument) -> errors.InvalidArgument:
    """Make an error about a chunk speak of the batch: groups[0] of the fourth chunk is another."""

    def rename(match: re.Match[str]) -> str:
        piece = chunk[int(match[1])]
        path = f"groups[{piece.index}]"
        if match[2]:
            start = piece.e0 if match[2].endswith("expected") else piece.r0
            path += f".{match[2]}[{start + int(match[3])}]"
        return path

    return rename_paths(error, _PATH, rename)


class JudgeStream(Stream[JudgedChunk]):
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
        super().__init__(deadline, budget)
        if isinstance(chunks, QueryGroup) or not isinstance(chunks, Iterable):
            need_kind(chunks, "chunks", list, "a list of lists of QueryGroup")
        self._start = pb.StreamJudgeStart(
            judge=write_judge(judge),
            include_details=include_details,
            request_id=request_id or str(uuid.uuid4()),
        )
        self._purse = Purse(asking)
        self._unread = iter(chunks)
        self._n_read = 0
        self._all_read = False
        self._failure: Exception | None = None
        self._unanswered: dict[int, Sequence[QueryGroup]] = {}
        self._identity: JudgeIdentity | None = None
        self._lock = threading.Lock()
        """Held while the caller's iterable is read: a stream that broke may still be reading."""

    def request(self) -> Iterator[pb.StreamJudgeRequest]:
        """Return what the next try sends: the start, chunks without an answer, then new ones.

        gRPC reads them on a thread of its own and hides what goes wrong there: a failure of the
        caller's iterable ends the messages, and `ended` raises it.
        """
        self._identity, self._progressed = None, False
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
        self._progressed = True
        self._purse.spent += reply.chunk.usage.cost
        groups = self._unanswered.pop(reply.chunk.chunk_id, ())
        return read_chunk(reply.chunk, self._identity, groups)

    def ended(self) -> None:
        """Note that the server ended the stream.

        Raises what went wrong in the caller's chunks, InternalError where answers are missing.
        """
        if self._failure is not None:
            raise self._failure
        if not self._all_answered:
            missing = len(self._unanswered)
            raise errors.InternalError(f"the stream ended with {missing} chunks unanswered")
        self.done = True

    def waits(self, error: errors.JudgedError) -> Iterator[float]:
        """Return the waits in seconds before the next try; none when everything is answered.

        They raise the error when there is to be no other try.
        """
        if self._failure is not None:
            raise self._failure
        if self._all_answered:
            self.done = True
            return iter(())
        return super().waits(error)

    @property
    def _all_answered(self) -> bool:
        return self._all_read and not self._unanswered
