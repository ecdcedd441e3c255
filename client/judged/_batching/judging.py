"""Judging: splits any number of groups into chunks that a server accepts, and joins the replies."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, count, groupby
from operator import add, attrgetter, gt, itemgetter
from typing import TypeVar

from judged import errors
from judged._codec import read_fields
from judged._convert import (
    CostLimit,
    checked_group,
    missing_for,
    read_verdicts,
    write_group,
    write_judge,
)
from judged._inputs import need_list, refuse_empty
from judged._transport.call import CHUNKS_IN_FLIGHT, derived_id, rename_paths
from judged._views import Listed
from judged.v1 import judge_service_pb2 as pb
from judged.values.choices import Flag, Source, Status
from judged.values.groups import Context, QueryGroup, Verdict, VerdictError, Verdicts, join_verdicts
from judged.values.judges import Asking, Judge, JudgeIdentity, Usage

CHUNK_CHARACTERS = 1 << 20
CHUNK_CONTEXTS = 1 << 10
CHUNK_GROUPS = 1 << 10
ASKED_CONTEXTS = 1 << 6
"""The most contexts in a chunk whose judge asks models; a failed call loses this many verdicts."""
ASKING_KINDS = frozenset({"llm", "panel", "cascade"})
_SPAN = 80
"""The approximate cost of a span in `text_cost`."""

Item = TypeVar("Item")
ToJudge = Iterable[QueryGroup] | Iterable[Context]
"""Input of a judge: groups or contexts, not mixed."""


def packed(
    items: Iterable[tuple[Item, Sequence[int]]], limits: Sequence[int]
) -> Iterator[list[Item]]:
    """Yield lists of items whose summed sizes are within the limits.

    Each item comes with one size per limit. An item above a limit is yielded alone.
    """
    pack: list[Item] = []
    sums = [0] * len(limits)
    for item, sizes in items:
        sums = list(map(add, sums, sizes))
        if pack and any(map(gt, sums, limits)):
            yield pack
            pack, sums = [], list(sizes)
        pack.append(item)
    if pack:
        yield pack


@dataclass(frozen=True)
class Piece:
    """The results of a group from rank `start` up to but excluding `end`; ranks count from 0."""

    index: int
    group: QueryGroup
    start: int
    end: int

    def part(self) -> QueryGroup:
        """Return the group with only these results."""
        return at_ranks(self.group, range(self.start, self.end))


def fold(items: ToJudge) -> Sequence[QueryGroup]:
    """Return groups unchanged, and contexts folded into groups in the same order.

    Consecutive contexts of one query that form a cross product, retrieved-major, become one group,
    so that each text is sent once. Lazy lists of groups stay lazy.
    """
    if isinstance(items, Listed):
        return items
    given = need_list(items, "groups", "QueryGroup or Context")
    if all(isinstance(item, Context) for item in given):
        given = _fold_contexts(given)
    return list(map(checked_group, given, count()))


def _fold_contexts(contexts: Iterable[Context]) -> Iterator[QueryGroup]:
    rows = (
        (query, [context.expected_text for context in run], retrieved)
        for (query, retrieved), run in groupby(contexts, attrgetter("query", "retrieved_text"))
    )
    for (query, expected), alike in groupby(rows, itemgetter(0, 1)):
        yield QueryGroup(query, expected, [retrieved for *_, retrieved in alike])


def fill_expected(group: QueryGroup) -> QueryGroup:
    """Return the group, with one blank expected text if it has none but has retrieved texts."""
    missing = not group.expected and group.open_ended
    return replace(group, expected=("",)) if missing else group


def most_contexts(judge: Judge | str | None, asking: Asking | None = None) -> int:
    """Return how many contexts a chunk for a judge may hold.

    With a limit on the cost, chunks are sent one at a time, so one holds as many contexts as would
    otherwise be in flight.
    """
    kind = judge.kind if isinstance(judge, Judge) else judge
    if kind not in ASKING_KINDS:
        return CHUNK_CONTEXTS
    limited = asking is not None and asking.max_cost is not None
    return min(CHUNK_CONTEXTS, ASKED_CONTEXTS * (CHUNKS_IN_FLIGHT if limited else 1))


def cut(
    groups: Iterable[QueryGroup],
    judge: Judge | str | None = None,
    asking: Asking | None = None,
    *,
    evaluated: bool = False,
) -> Iterator[list[Piece]]:
    """Yield chunks of pieces in order, within the limits above unless a single result exceeds them.

    A large group is cut between its results, and each further piece of it begins a chunk.
    """
    most = most_contexts(judge, asking)
    pieces = (
        (piece, (cost, _work(piece), CHUNK_GROUPS if piece.start else 1))
        for index, group in enumerate(groups)
        for piece, cost in _pieces(index, group, most, whole=evaluated and bool(group.spans))
    )
    return packed(pieces, (CHUNK_CHARACTERS, most, CHUNK_GROUPS))


def _work(piece: Piece) -> int:
    n = piece.end - piece.start
    return n_contexts(piece.group, n) or n * piece.group.open_ended


def _pieces(
    index: int, group: QueryGroup, contexts: int, *, whole: bool
) -> Iterator[tuple[Piece, int]]:
    """Yield the pieces of a group with their sizes; `whole` keeps a group with spans in one."""
    n, cost = group.n_retrieved, text_cost(group)
    if whole or not n or (cost <= CHUNK_CHARACTERS and n_contexts(group, n) <= contexts):
        yield Piece(index, group, 0, n), cost
        return
    row = group.embeddings.row_bytes if group.embeddings is not None else 0
    weights = [row + len(text) for text in group.retrieved] or [row] * n
    if group.spans is not None:
        weights = [weight + _SPAN for weight in weights]
    head = cost - sum(weights)
    limits = (max(1, CHUNK_CHARACTERS - head), max(1, contexts // max(1, n_contexts(group, 1))))
    sized = ((rank, (weight, 1)) for rank, weight in enumerate(weights))
    for ranks in packed(sized, limits):
        start, end = ranks[0], ranks[-1] + 1
        yield Piece(index, group, start, end), head + sum(weights[start:end])


def n_contexts(group: QueryGroup, n_retrieved: int) -> int:
    """Return how many contexts `n_retrieved` results of a group make, as the server counts them."""
    expected = 0 if group.by_id else group.n_expected
    return n_retrieved * (expected + len(group.negatives))


def text_cost(group: QueryGroup) -> int:
    """Return the approximate size of a group: characters of texts, bytes of vectors and spans."""
    texts = (group.expected, group.retrieved, group.negatives)
    cost = len(group.query) + sum(sum(map(len, some)) for some in texts)
    vectors, spans = group.embeddings, group.spans
    if vectors is not None:
        cost += len(vectors.expected) + len(vectors.retrieved)
    if spans is not None:
        cost += _SPAN * (len(spans.expected) + len(spans.retrieved))
    return cost


def distinct_ranks(group: QueryGroup, path: str = "", *, strict: bool = False) -> Sequence[int]:
    """Return the ranks, from 0, of a group's results without repeats of an earlier one.

    A repeat has the same id and the same text; the same id with another text is another passage of
    the document and is kept. With `strict`, a repeat raises InvalidArgument that names its place
    under `path`.
    """
    ids = group.document_ids
    if not ids:
        return range(group.n_retrieved)
    content: Sequence[object] = group.retrieved
    if group.spans is not None:
        content = group.spans.retrieved
    keys: Sequence[object] = list(zip(ids, content, strict=True)) if content else ids
    first_places: dict[object, int] = {}
    for place, key in enumerate(keys):
        first = first_places.setdefault(key, place)
        if strict and first != place:
            same = "id and text" if content else "id"
            rule = f"has the {same} of entry {first}"
            raise errors.InvalidArgument.of_field(f"{path}.document_ids[{place}]", rule)
    kept = list(first_places.values())
    return range(len(keys)) if len(kept) == len(keys) else kept


def at_ranks(group: QueryGroup, ranks: Sequence[int]) -> QueryGroup:
    """Return a group with only the results at these ranks, in this order."""
    if isinstance(ranks, range) and len(ranks) == group.n_retrieved:
        return group
    texts, vectors, spans, ids = group.retrieved, group.embeddings, group.spans, group.document_ids
    if vectors is not None:
        row = vectors.row_bytes
        rows = (vectors.retrieved[row * place : row * (place + 1)] for place in ranks)
        vectors = replace(vectors, retrieved=b"".join(rows))
    return replace(
        group,
        retrieved=[texts[place] for place in ranks] if texts else (),
        document_ids=[ids[place] for place in ranks] if ids else (),
        embeddings=vectors,
        spans=spans and replace(spans, retrieved=[spans.retrieved[place] for place in ranks]),
    )


def against_negatives(groups: Iterable[QueryGroup]) -> list[QueryGroup]:
    """Return groups that match results with negatives, for the groups that have negatives."""
    return [
        QueryGroup(group.query, group.negatives, group.retrieved)
        for group in groups
        if group.negatives
    ]


def distinct_group(group: QueryGroup) -> QueryGroup:
    """Return a group without repeated results."""
    return at_ranks(group, distinct_ranks(group))


PASSING = (
    errors.Retryable,
    errors.DeadlineExceeded,
    errors.InternalError,
    errors.BudgetExhausted,
)
"""Failures of one message that do not end the call: the other messages are still sent."""

Progress = Callable[[int, int], object]
"""Called with the number of items done and the total of the call."""


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
        # Lazy groups are checked as they are sent, and not kept.
        self._listed = isinstance(groups, Listed)
        if not self._listed:
            refuse_empty(groups, "groups")
        self._groups = groups
        self._judge = judge
        self._asking = asking
        self._alike = pb.BatchJudgeRequest(
            judge=write_judge(judge), include_details=include_details, request_id=request_id
        )
        self._cost_limit = CostLimit(asking)
        self._progress = progress
        counted = () if progress is None else groups
        self._total = sum(group.n_expected * group.n_retrieved for group in counted)
        self._done = 0
        # Of each chunk: its verdicts or the reason why they are missing, the number of verdicts of
        # each group, and whether its first group continues the last one before.
        self._parts: list[tuple[Verdicts | VerdictError, Sequence[int], bool]] = []
        self._failures: list[errors.JudgedError] = []

    @property
    def ahead(self) -> int:
        """How many requests may be in flight: one if the next depends on the cost of the last."""
        return 1 if self._cost_limit.limited else CHUNKS_IN_FLIGHT

    def requests(self) -> Iterator[tuple[Sequence[Piece], pb.BatchJudgeRequest]]:
        """Yield each chunk with the request for its verdicts, in order and lazily.

        A chunk may cost what is left of the call's limit. If the call has a request_id, those of
        later chunks are derived from it.
        """
        groups = map(checked_group, self._groups, count()) if self._listed else self._groups
        for place, chunk in enumerate(cut(groups, self._judge, self._asking)):
            unread = dict.fromkeys(("query_id", "document_ids", "metadata"))
            request = self._cost_limit.onto(self._alike)
            request.groups.extend(
                write_group(piece.part(), f"groups[{piece.index}]", **unread) for piece in chunk
            )
            if place and request.request_id:
                request.request_id = derived_id(request.request_id, place)
            yield chunk, request

    def take(
        self, chunk: Sequence[Piece], reply: pb.BatchJudgeResponse | errors.JudgedError
    ) -> None:
        """Add the reply to the next chunk; raise an error that fails the whole call."""
        sizes = [piece.group.n_expected * (piece.end - piece.start) for piece in chunk]
        offsets, continued = [0, *accumulate(sizes)], chunk[0].start > 0
        if isinstance(reply, errors.InvalidArgument):
            raise original_path(chunk, reply) from None
        if isinstance(reply, PASSING):
            self._cost_limit.lost(reply)
            self._failures.append(reply)
            self._parts.append((missing_for(reply), sizes, continued))
        elif isinstance(reply, errors.JudgedError):
            raise reply
        else:
            usage = read_fields(Usage, reply.usage) if reply.HasField("usage") else None
            self._cost_limit.took(usage)
            judge = read_fields(JudgeIdentity, reply.judge)
            found = read_verdicts(reply.verdicts, judge, usage, in_arrays=self._listed)
            if len(found) != offsets[-1]:
                sent = f"the server sent {len(found)} verdicts for {offsets[-1]}"
                raise errors.InternalError(sent)
            named = {place: self._cost_limit.named(error) for place, error in found.errors.items()}
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
        judge = answered[0].judge
        parts = (
            (missing_verdicts(n, part, judge) if isinstance(part, VerdictError) else part, more)
            for part, n, more in self._parts
        )
        found = join_verdicts(parts, self._groups)
        return replace(found, usage=sum(usages, Usage()) if usages else None)


def missing_verdicts(sizes: Iterable[int], reason: VerdictError, judge: JudgeIdentity) -> Verdicts:
    """Return verdicts with the status ERROR and this reason, `sizes` of them for the groups."""
    missing = Verdict(Status.ERROR, None, None, Source.COMPUTED, Flag.NONE, reason)
    offsets = [0, *accumulate(sizes)]
    return Verdicts.of([missing] * offsets[-1], offsets, judge)


_PATH = re.compile(r"groups\[(\d+)\](?:\.((?:spans\.)?retrieved)\[(\d+)\])?")


def original_path(chunk: Sequence[Piece], error: errors.InvalidArgument) -> errors.InvalidArgument:
    """Rewrite the paths in an error about a chunk to paths in the batch."""

    def rename(match: re.Match[str]) -> str:
        piece = chunk[int(match[1])]
        result = f".{match[2]}[{piece.start + int(match[3])}]" if match[2] else ""
        return f"groups[{piece.index}]{result}"

    return rename_paths(error, _PATH, rename)
