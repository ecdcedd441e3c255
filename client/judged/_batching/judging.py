"""One judge() call of any size, and one judge_stream(): what is sent, and what came of it."""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, chain, count

from judged import errors
from judged._batching.chunks import Piece, cut
from judged._codec import read_fields
from judged._convert.groups import checked_group, write_group
from judged._convert.judges import Purse, write_judge
from judged._convert.verdicts import missing_for, read_error, read_verdicts, usage_of
from judged._inputs import need_each
from judged._transport.call import CHUNKS_IN_FLIGHT, Attempts, Stream, derived_id
from judged._transport.status import rename_paths
from judged._views import Listed
from judged.v1 import judge_service_pb2 as pb
from judged.values.choices import Flag, Source, Status
from judged.values.groups import QueryGroup
from judged.values.judges import Asking, Judge, JudgeIdentity, Usage
from judged.values.verdicts import JudgedChunk, Verdict, VerdictError, Verdicts, join_verdicts

PASSING = (
    *(errors.Retryable, errors.DeadlineExceeded, errors.InternalError),
    errors.BudgetExhausted,
)
"""Failures of a message that leave the others of its call as they are."""

Progress = Callable[[int, int], object]
"""Is told how much of a call is done, and how much there is in all."""
Part = tuple[Verdicts | VerdictError, Iterable[int], bool]
"""The verdicts of a chunk or why they are missing, the number of each of its groups, and whether
the first one is more of the last group before."""


class Batch:
    """The groups of a call and the verdicts so far."""

    def __init__(
        self,
        groups: Sequence[QueryGroup],
        judge: Judge | str | None = None,
        asking: Asking | None = None,
        *,
        include_details: bool = False,
        request_id: str = "",
        progress: Progress | None = None,
    ) -> None:
        # Made as they are asked for, they are checked as they are sent, and none is kept.
        self._listed = isinstance(groups, Listed)
        if not self._listed and not groups:
            raise errors.InvalidArgument.of_field("groups", "must hold at least one group")
        self._groups = groups
        self._judge = judge
        self._asking = asking
        self._alike = pb.BatchJudgeRequest(
            judge=write_judge(judge), include_details=include_details, request_id=request_id
        )
        self._purse = Purse(asking)
        self._progress = progress
        counted = () if progress is None else groups
        self._total = sum(group.n_expected * group.n_retrieved for group in counted)
        self._done = 0
        self._parts: list[Part] = []
        self._failures: list[errors.JudgedError] = []

    @property
    def ahead(self) -> int:
        """How many requests may be under way: one where the next depends on what it cost."""
        return 1 if self._purse.limited else CHUNKS_IN_FLIGHT

    def requests(self) -> Iterator[tuple[Sequence[Piece], pb.BatchJudgeRequest]]:
        """Yield each chunk with the request for its verdicts, in order, made as it is asked for.

        Models are asked about a chunk for what is left of what all may cost. Where the call has a
        request_id, that of each later chunk follows from it.
        """
        groups = map(checked_group, self._groups, count()) if self._listed else self._groups
        for place, chunk in enumerate(cut(groups, self._judge, self._asking)):
            unread = dict.fromkeys(("query_id", "document_ids", "metadata"))
            request = self._purse.onto(self._alike)
            request.groups.extend(
                write_group(piece.part(), f"groups[{piece.index}]", **unread) for piece in chunk
            )
            if place and request.request_id:
                request.request_id = derived_id(request.request_id, place)
            yield chunk, request

    def take(
        self, chunk: Sequence[Piece], reply: pb.BatchJudgeResponse | errors.JudgedError
    ) -> None:
        """Take in the answer of the next chunk; raise an error that means the call is wrong."""
        sizes = [piece.group.n_expected * (piece.end - piece.start) for piece in chunk]
        offsets, continued = [0, *accumulate(sizes)], chunk[0].start > 0
        if isinstance(reply, errors.InvalidArgument):
            raise original_path(chunk, reply) from None
        if isinstance(reply, PASSING):
            self._purse.lost(reply)
            self._failures.append(reply)
            self._parts.append((missing_for(reply), sizes, continued))
        elif isinstance(reply, errors.JudgedError):
            raise reply
        else:
            usage = usage_of(reply)
            self._purse.took(usage)
            judge = read_fields(JudgeIdentity, reply.judge)
            found = read_verdicts(reply.verdicts, judge, usage, in_arrays=self._listed)
            if len(found) != offsets[-1]:
                sent = f"the server sent {len(found)} verdicts for {offsets[-1]}"
                raise errors.InternalError(sent)
            named = {place: self._purse.named(error) for place, error in found.errors.items()}
            self._parts.append((replace(found, errors=named, offsets=offsets), sizes, continued))
        self._done += offsets[-1]
        if self._progress is not None:
            self._progress(self._done, self._total)

    def verdicts(self) -> Verdicts:
        """Return the verdicts of all contexts; raise the first failure if nothing was answered."""
        answered = [part for part, *_ in self._parts if isinstance(part, Verdicts)]
        if not answered:
            raise self._failures[0]
        usages = [part.usage for part in answered if part.usage is not None]
        found = join_chunks(self._parts, answered[0].judge, self._groups)
        return replace(found, usage=sum(usages, Usage()) if usages else None)


def join_chunks(
    parts: Iterable[Part], judge: JudgeIdentity, groups: Sequence[QueryGroup]
) -> Verdicts:
    """Return the verdicts of all chunks; those of a chunk with an error are missing for it."""

    def found() -> Iterator[tuple[Verdicts, bool]]:
        for part, sizes, continued in parts:
            if isinstance(part, Verdicts):
                yield part, continued
            else:
                yield missing_verdicts([0, *accumulate(sizes)], part, judge), continued

    return join_verdicts(found(), groups)


def missing_verdicts(
    offsets: Sequence[int], reason: VerdictError, judge: JudgeIdentity
) -> Verdicts:
    """Return verdicts of groups with these offsets, all of which are missing for a reason."""
    missing = Verdict(Status.ERROR, None, None, Source.COMPUTED, Flag.NONE, reason)
    return Verdicts.of([missing] * offsets[-1], offsets, judge)


_PATH = re.compile(r"groups\[(\d+)\](?:\.((?:spans\.)?retrieved)\[(\d+)\])?")


def original_path(chunk: Sequence[Piece], error: errors.InvalidArgument) -> errors.InvalidArgument:
    """Make an error about a chunk speak of the batch: groups[0] of the fourth chunk is another."""

    def rename(match: re.Match[str]) -> str:
        piece = chunk[int(match[1])]
        result = f".{match[2]}[{piece.start + int(match[3])}]" if match[2] else ""
        return f"groups[{piece.index}]{result}"

    return rename_paths(error, _PATH, rename)


class JudgeStream(Stream[JudgedChunk]):
    """The chunks of one `judge_stream`: what to send on each try, and what was answered."""

    def __init__(
        self,
        chunks: Iterable[Sequence[QueryGroup]],
        judge: Judge | str | None,
        asking: Asking | None,
        *,
        include_details: bool,
        request_id: str,
    ) -> None:
        super().__init__()
        self._start = pb.StreamJudgeStart(
            judge=write_judge(judge),
            include_details=include_details,
            request_id=request_id or str(uuid.uuid4()),
        )
        self._purse = Purse(asking)
        self._unread = iter(chunks)
        self._n_read = 0
        self._all_read = False
        self._unanswered: dict[int, Sequence[QueryGroup]] = {}
        self._identity: JudgeIdentity | None = None
        self._lock = threading.Lock()
        """Held while the caller's iterable is read: a stream that broke may still be reading."""

    def request(self) -> Iterator[pb.StreamJudgeRequest]:
        """Return what the next try sends: the start, chunks without an answer, then new ones."""
        self._identity = None
        n_sent = self._n_read  # read without the lock: whoever holds it may wait for an answer
        again = [chunk_id for chunk_id in list(self._unanswered) if chunk_id < n_sent]
        start = self._purse.onto(self._start)
        return self.written(self._messages(start, chain(again, count(n_sent))))

    def _messages(
        self, start: pb.StreamJudgeStart, chunk_ids: Iterable[int]
    ) -> Iterator[pb.StreamJudgeRequest]:
        yield pb.StreamJudgeRequest(start=start)
        for chunk_id in chunk_ids:
            if not self._has(chunk_id):
                return
            groups = self._unanswered.get(chunk_id)
            if groups is None:  # an earlier stream read it, and its answer is there
                continue
            path = f"chunks[{chunk_id}].groups"
            messages = [write_group(g, f"{path}[{i}]") for i, g in enumerate(groups)]
            yield pb.StreamJudgeRequest(chunk=pb.JudgeChunk(chunk_id=chunk_id, groups=messages))

    def _has(self, chunk_id: int) -> bool:
        """Say whether there is such a chunk; read it if nobody has."""
        if chunk_id < self._n_read:
            return True
        with self._lock:
            if chunk_id < self._n_read or self._all_read:
                return chunk_id < self._n_read
            self._all_read = True  # also where the iterable fails
            for chunk in self._unread:
                path = f"chunks[{chunk_id}].groups"
                self._unanswered[chunk_id] = need_each(chunk, path, (QueryGroup,), "QueryGroup")
                self._n_read += 1
                self._all_read = False
                break
            return not self._all_read

    def take(self, reply: pb.StreamJudgeResponse) -> JudgedChunk | None:
        """Return the chunk that a reply answers; None for the one that the stream begins with."""
        if self._identity is None:
            self._identity = read_fields(JudgeIdentity, reply.started.judge)
            return None
        self.progressed = True
        self._purse.spent += reply.chunk.usage.cost
        groups = self._unanswered.pop(reply.chunk.chunk_id, ())
        chunk, failed = reply.chunk, reply.chunk.WhichOneof("result") == "error"
        judge, usage = self._identity, usage_of(chunk)
        return JudgedChunk(
            chunk.chunk_id,
            None if failed else read_verdicts(chunk.verdicts, judge, usage, groups),
            read_error(chunk.error) if failed else None,
            chunk.progress.contexts_received,
            chunk.progress.contexts_done,
        )

    def ended(self) -> None:
        """Note that the server ended the stream. Raises InternalError where answers are missing."""
        super().ended()
        if not self._all_answered:
            missing = len(self._unanswered)
            raise errors.InternalError(f"the stream ended with {missing} chunks unanswered")

    def waits(self, error: errors.JudgedError, attempts: Attempts) -> Iterator[float]:
        """Yield the waits before the next try; none when everything is answered."""
        self.done = self._all_answered and self._failure is None
        if not self.done:
            yield from super().waits(error, attempts)

    @property
    def _all_answered(self) -> bool:
        return self._all_read and not self._unanswered
