"""Cuts a batch of any size into chunks a server takes, and puts the answers together again.

Sends nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from typing import Any

from judged import errors
from judged._batching.packing import packed
from judged._convert.groups import as_items
from judged._convert.verdicts import missing_for
from judged._transport.call import CHUNKS_IN_FLIGHT
from judged._transport.status import rename_paths
from judged.errors import WrongType
from judged.values.choices import Source, Status
from judged.values.groups import Context, QueryGroup, Span, Spans
from judged.values.judges import Asking, Judge, JudgeIdentity, Usage
from judged.values.verdicts import RARE_COLUMNS, VerdictDetail, VerdictError, Verdicts

CHUNK_CHARACTERS = 1 << 20
CHUNK_CONTEXTS = 1 << 10
CHUNK_GROUPS = 1 << 10
ASKED_CONTEXTS = 1 << 6
"""Contexts of a chunk whose judge asks models: what is lost, or waited for, when a call fails."""
ASKING_KINDS = frozenset({"llm", "panel", "cascade"})
PASSING = (
    *(errors.Retryable, errors.DeadlineExceeded, errors.InternalError),
    errors.BudgetExhausted,
)
"""Failures of a message that leave the others of its call as they are."""

_SPAN_NUMBERS = 16
"""About what the two positions of a span take."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A rectangle of one group: retrieved[r0:r1] by expected[e0:e1]."""

    index: int
    group: QueryGroup
    r0: int
    r1: int
    e0: int
    e1: int

    @property
    def n_contexts(self) -> int:
        """The number of verdicts the piece has."""
        return (self.r1 - self.r0) * (self.e1 - self.e0)

    def part(self) -> QueryGroup:
        """Return the group to send: what the verdicts depend on and no more."""
        group = self.group
        if not self.n_contexts:  # it keeps its place and needs no texts
            return QueryGroup(
                relevant_document_ids=group.relevant_document_ids,
                negatives=group.negatives,
                grades=group.grades,
            )
        vectors, spans = group.embeddings, group.spans
        if vectors is not None:
            row = 4 * vectors.dimensions
            vectors = replace(
                vectors,
                expected=vectors.expected[self.e0 * row : self.e1 * row],
                retrieved=vectors.retrieved[self.r0 * row : self.r1 * row],
            )
        return QueryGroup(
            query=group.query,
            expected=group.expected[self.e0 : self.e1],
            retrieved=group.retrieved[self.r0 : self.r1],
            relevant_document_ids=group.relevant_document_ids,
            embeddings=vectors,
            spans=spans
            and Spans(spans.expected[self.e0 : self.e1], spans.retrieved[self.r0 : self.r1]),
            negatives=group.negatives,  # for the server to refuse
            grades=group.grades,
        )


def fold(items: Iterable[QueryGroup] | Iterable[Context]) -> list[QueryGroup]:
    """Return groups as they are, and contexts folded into groups in the same order.

    Consecutive contexts of one query that form a cross product, retrieved-major, become one group:
    its texts then travel once.
    """
    groups: list[QueryGroup] = []
    contexts: list[Context] = []
    for item in as_items(items):
        if isinstance(item, Context):
            contexts.append(item)
        else:
            groups.append(item)
    if groups and contexts:
        raise WrongType.of_field("groups", "must be groups or contexts, not both in one call")
    return groups or list(_fold_contexts(contexts))


def _fold_contexts(contexts: Iterable[Context]) -> Iterator[QueryGroup]:
    query, expected, retrieved = "", [""], [""]
    started = False
    for (next_query, next_retrieved), run in groupby(
        contexts, key=lambda context: (context.query, context.retrieved_text)
    ):
        next_expected = [context.expected_text for context in run]
        if started and query == next_query and expected == next_expected:
            retrieved.append(next_retrieved)
            continue
        if started:
            yield QueryGroup(query, expected, retrieved)
        query, expected, retrieved, started = next_query, next_expected, [next_retrieved], True
    if started:
        yield QueryGroup(query, expected, retrieved)


def most_contexts(judge: Judge | str | None, asking: Asking | None = None) -> int:
    """Return how many contexts a chunk for a judge may hold.

    With a limit on the cost as many as are under way without one, since chunks are then sent one
    by one. A cascade gets more: of a chunk the items most in doubt go on.
    """
    kind = judge.kind if isinstance(judge, Judge) else judge
    if kind in ASKING_KINDS and asking is not None and asking.max_cost is not None:
        many = CHUNK_CONTEXTS if kind == "cascade" else CHUNKS_IN_FLIGHT * ASKED_CONTEXTS
        return min(many, CHUNK_CONTEXTS)
    return min(ASKED_CONTEXTS, CHUNK_CONTEXTS) if kind in ASKING_KINDS else CHUNK_CONTEXTS


def cut(
    groups: Sequence[QueryGroup], judge: Judge | str | None = None, asking: Asking | None = None
) -> Iterator[list[Piece]]:
    """Yield chunks of pieces in order, each within the sizes above where single texts allow."""
    most = most_contexts(judge, asking)
    pieces = (
        (piece, (cost, piece.n_contexts, 1))
        for index, group in enumerate(groups)
        for piece, cost in _pieces(index, group, most)
    )
    return packed(pieces, (CHUNK_CHARACTERS, most, CHUNK_GROUPS))


def _pieces(index: int, group: QueryGroup, most: int) -> Iterator[tuple[Piece, int]]:
    n_expected, n_retrieved = group.n_expected, group.n_retrieved
    whole = Piece(index, group, 0, n_retrieved, 0, n_expected)
    cost, vectors, spans = text_cost(group), group.embeddings, group.spans
    if not whole.n_contexts:
        yield whole, 0
        return
    if cost <= CHUNK_CHARACTERS and whole.n_contexts <= most:
        yield whole, cost
        return
    row = 4 * vectors.dimensions if vectors is not None else 0
    sides = (spans.expected, spans.retrieved) if spans is not None else ((), ())
    weigh_expected = _weights(group.expected, sides[0], row, n_expected)
    weigh_retrieved = _weights(group.retrieved, sides[1], row, n_retrieved)
    # Half of a chunk for either side; expected texts are few, so they are rarely cut at all.
    for e0, e1, expected_cost in _runs(weigh_expected, CHUNK_CHARACTERS // 2, most):
        most_rows = max(1, most // (e1 - e0))
        left = max(1, CHUNK_CHARACTERS - expected_cost - len(group.query))
        for r0, r1, retrieved_cost in _runs(weigh_retrieved, left, most_rows):
            yield (
                Piece(index, group, r0, r1, e0, e1),
                len(group.query) + expected_cost + retrieved_cost,
            )


def text_cost(group: QueryGroup) -> int:
    """Return about how many characters a group has, or bytes of what stands for its texts."""
    texts = (group.expected, group.retrieved, group.negatives)
    cost = len(group.query) + sum(sum(map(len, some)) for some in texts)
    vectors, spans = group.embeddings, group.spans
    if vectors is not None:
        cost += len(vectors.expected) + len(vectors.retrieved)
    if spans is not None:
        cost += sum(map(_span_cost, (*spans.expected, *spans.retrieved)))
    return cost


def _weights(texts: Sequence[str], spans: Sequence[Span], row: int, n: int) -> list[int]:
    """Return what each of n texts, or of what stands for them, adds to a message."""
    weights = [row + len(text) for text in texts] or [row] * n
    if spans:
        weights = [w + _span_cost(span) for w, span in zip(weights, spans, strict=False)]
    return weights


def _span_cost(span: Span) -> int:
    return len(span.file) + _SPAN_NUMBERS


def _runs(weights: Sequence[int], limit: int, most: int) -> Iterator[tuple[int, int, int]]:
    start = cost = 0
    for index, weight in enumerate(weights):
        if index > start and (cost + weight > limit or index - start >= most):
            yield start, index, cost
            start, cost = index, 0
        cost += weight
    yield start, len(weights), cost


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
