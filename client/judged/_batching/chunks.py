"""Cuts groups of any size into chunks that a server takes. Sends nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, groupby
from operator import add, attrgetter, gt, itemgetter
from typing import TypeVar

from judged._convert.groups import checked_group
from judged._inputs import need_each, need_text
from judged._transport.call import CHUNKS_IN_FLIGHT
from judged._views import Listed
from judged.errors import InvalidArgument, WrongType
from judged.values.groups import Context, QueryGroup, Span
from judged.values.judges import Asking, Judge

CHUNK_CHARACTERS = 1 << 20
CHUNK_CONTEXTS = 1 << 10
CHUNK_GROUPS = 1 << 10
ASKED_CONTEXTS = 1 << 6
"""Contexts of a chunk whose judge asks models: what is lost, or waited for, when a call fails."""
ASKING_KINDS = frozenset({"llm", "panel", "cascade"})
PART_CHARACTERS = 1 << 21
"""An evaluated group above this is cut, between results: in UTF-8 it may be four times as large."""
PART_CONTEXTS = 1 << 17
_SPAN_NUMBERS = 16
"""About what the two positions of a span take."""

Item = TypeVar("Item")
ToJudge = Iterable[QueryGroup] | Iterable[Context]
"""What a judge may be given, the one or the other."""


def packed(
    items: Iterable[tuple[Item, Sequence[int]]], limits: Sequence[int]
) -> Iterator[list[Item]]:
    """Yield lists of items, none of whose sizes sum up to more than its limit; or one item alone.

    Each item comes with its sizes, one for each limit.
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


@dataclass(frozen=True, slots=True)
class Piece:
    """The results of a group from rank `start` up to, not including, `end`; ranks count from 0."""

    index: int
    group: QueryGroup
    start: int
    end: int

    def part(self) -> QueryGroup:
        """Return the group with these of its results only."""
        return at_ranks(self.group, range(self.start, self.end))


def fold(items: ToJudge) -> Sequence[QueryGroup]:
    """Return groups as they are, and contexts folded into groups in the same order.

    Consecutive contexts of one query that form a cross product, retrieved-major, become one group:
    its texts then travel once. Groups that are made as they are asked for stay so.
    """
    if isinstance(items, Listed):
        return items
    given = need_each(items, "groups", (QueryGroup, Context), "QueryGroup or Context")
    groups = [item for item in given if isinstance(item, QueryGroup)]
    if groups and len(groups) < len(given):
        raise WrongType.of_field("groups", "must be groups or contexts, not both in one call")
    for index, context in enumerate(() if groups else given):
        for name in ("query", "expected_text", "retrieved_text"):
            need_text(getattr(context, name), f"contexts[{index}].{name}")
    return list(map(checked_group, groups, count())) or list(_fold_contexts(given))


def _fold_contexts(contexts: Iterable[Context]) -> Iterator[QueryGroup]:
    rows = (
        (query, [context.expected_text for context in run], retrieved)
        for (query, retrieved), run in groupby(contexts, attrgetter("query", "retrieved_text"))
    )
    for (query, expected), alike in groupby(rows, itemgetter(0, 1)):
        yield QueryGroup(query, expected, [retrieved for *_, retrieved in alike])


def fill_expected(group: QueryGroup) -> QueryGroup:
    """Return a group with one blank expected text where it has none and texts were retrieved."""
    missing = not group.expected and group.open_ended
    return replace(group, expected=("",)) if missing else group


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
    groups: Iterable[QueryGroup],
    judge: Judge | str | None = None,
    asking: Asking | None = None,
    *,
    evaluated: bool = False,
) -> Iterator[list[Piece]]:
    """Yield chunks of pieces in order, each within the sizes above where single results allow.

    A large group is cut between its results, and what continues it begins a chunk.
    """
    most = most_contexts(judge, asking)
    limits = (PART_CHARACTERS, PART_CONTEXTS) if evaluated else (CHUNK_CHARACTERS, most)
    pieces = (
        (piece, (cost, _work(piece), CHUNK_GROUPS if piece.start else 1))
        for index, group in enumerate(groups)
        for piece, cost in _pieces(index, group, *limits, whole=evaluated and bool(group.spans))
    )
    return packed(pieces, (CHUNK_CHARACTERS, most, CHUNK_GROUPS))


def _work(piece: Piece) -> int:
    n = piece.end - piece.start
    return n_contexts(piece.group, n) or (n if piece.group.open_ended else 0)


def _pieces(
    index: int, group: QueryGroup, characters: int, contexts: int, *, whole: bool
) -> Iterator[tuple[Piece, int]]:
    """Yield the pieces of a group with their sizes; spans count within one that stays `whole`."""
    n, cost = group.n_retrieved, text_cost(group)
    if whole or (cost <= characters and n_contexts(group, n) <= contexts):
        yield Piece(index, group, 0, n), cost
        return
    row = group.embeddings.row_bytes if group.embeddings is not None else 0
    weights = [row + len(text) for text in group.retrieved] or [row] * n
    if group.spans is not None:
        costs = map(_span_cost, group.spans.retrieved)
        weights = [weight + more for weight, more in zip(weights, costs, strict=False)]
    head = cost - sum(weights)
    limits = (max(1, characters - head), max(1, contexts // max(1, n_contexts(group, 1))))
    sized = ((rank, (weight, 1)) for rank, weight in enumerate(weights))
    for ranks in packed(sized, limits) if weights else ([],):
        start, end = (ranks[0], ranks[-1] + 1) if ranks else (0, 0)
        yield Piece(index, group, start, end), head + sum(weights[start:end])


def n_contexts(group: QueryGroup, n_retrieved: int) -> int:
    """Return how many contexts so many results of a group make, as the server counts them."""
    expected = 0 if group.by_id else group.n_expected
    return n_retrieved * (expected + len(group.negatives))


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


def _span_cost(span: Span) -> int:
    return len(span.file) + _SPAN_NUMBERS


def distinct_ranks(group: QueryGroup, path: str = "", *, strict: bool = False) -> Sequence[int]:
    """Return the ranks, from 0, of a group's results that repeat no earlier one.

    The same id with the same text is a repeat, of which the first is kept; the same id with
    another text is another piece of a document, and stays. With `strict` a repeat raises
    InvalidArgument that names its place under `path`.
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
            raise InvalidArgument.of_field(f"{path}.document_ids[{place}]", rule)
    kept = list(first_places.values())
    return range(len(keys)) if len(kept) == len(keys) else kept


def at_ranks(group: QueryGroup, ranks: Sequence[int]) -> QueryGroup:
    """Return a group with these of its results only, in this order."""
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
    """Return groups that ask which results match the negatives, of those that have some."""
    return [
        QueryGroup(group.query, group.negatives, group.retrieved)
        for group in groups
        if group.negatives
    ]


def distinct_group(group: QueryGroup) -> QueryGroup:
    """Return a group without repeated results."""
    return at_ranks(group, distinct_ranks(group))
