"""One judge() call of any size: its chunks, what came of each, and the whole.

Sending them is the clients' part; the arithmetic of cutting is in `chunks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from judged import errors
from judged._batching.chunks import PASSING, Assembly, Piece, cut, original_path
from judged._convert.groups import write_group
from judged._convert.judges import Purse, read_identity, write_asking
from judged._convert.verdicts import read_verdicts, usage_of
from judged._transport.call import CHUNKS_IN_FLIGHT, derived_id
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.values.groups import QueryGroup
from judged.values.judges import Asking, Judge
from judged.values.verdicts import Verdicts

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

    def answered(self, chunk: Sequence[Piece], reply: pb.BatchJudgeResponse) -> None:
        """Take in the answer of a chunk."""
        identity, usage = read_identity(reply.judge), usage_of(reply)
        self._purse.took(usage)
        verdicts = read_verdicts(reply.verdicts, identity, usage)
        named = {place: self._purse.named(error) for place, error in verdicts.errors.items()}
        self._assembly.add(chunk, replace(verdicts, errors=named))
        self._tell(chunk)

    def failed(self, chunk: Sequence[Piece], error: errors.JudgedError) -> None:
        """Note the failure of a chunk; raise it when it means that the whole call is wrong."""
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
