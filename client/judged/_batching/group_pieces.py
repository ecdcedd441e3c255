"""The pieces that groups of an evaluation travel in, in chunks that a server takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from judged._batching.chunks import CHUNK_CHARACTERS, CHUNK_GROUPS, most_contexts, text_cost
from judged._batching.distinct import at_ranks
from judged._convert.groups import check_group
from judged.errors import WrongType
from judged.values.groups import QueryGroup
from judged.values.judges import Judge

PART_CHARACTERS = 1 << 21
"""A group above this is cut, between retrieved results: in UTF-8 it may be four times as large."""
PART_CONTEXTS = 1 << 17


@dataclass(frozen=True, slots=True)
class Piece:
    """Some results of a group, those from rank `begin` up to, not including, `end`."""

    index: int
    group: QueryGroup
    begin: int
    end: int

    @property
    def part(self) -> QueryGroup:
        """The group with these results only."""
        return at_ranks(self.group, range(self.begin, self.end))


Chunk = Sequence[Piece]


def checked_group(group: object, index: int) -> QueryGroup:
    """Return a group that can be sent. Raises WrongType or InvalidArgument with its path."""
    if not isinstance(group, QueryGroup):
        rule = f"must be a QueryGroup, not {type(group).__name__}"
        raise WrongType.of_field(f"groups[{index}]", rule)
    check_group(group, f"groups[{index}]")
    return group


def cut_groups(
    groups: Iterable[QueryGroup], judge: Judge | str | None, *, checked: bool
) -> Iterator[Chunk]:
    """Yield the chunks of groups, in order. Only a piece that begins at no rank 0 continues one."""
    most = most_contexts(judge)
    chunk: list[Piece] = []
    characters = contexts = 0
    for index, group in enumerate(groups):
        if not checked:
            checked_group(group, index)
        for piece, cost in _pieces(index, group):
            n = n_contexts(piece.group, piece.end - piece.begin)
            n = n or (piece.end - piece.begin if group.open_ended else 0)
            over = characters + cost > CHUNK_CHARACTERS or contexts + n > most
            if chunk and (over or len(chunk) >= CHUNK_GROUPS or piece.begin):
                yield chunk
                chunk, characters, contexts = [], 0, 0
            chunk.append(piece)
            characters += cost
            contexts += n
    if chunk:
        yield chunk


def _pieces(index: int, group: QueryGroup) -> Iterator[tuple[Piece, int]]:
    n, cost = group.n_retrieved, text_cost(group)
    small = cost <= PART_CHARACTERS and n_contexts(group, n) <= PART_CONTEXTS
    if small or group.spans is not None:  # spans count within a group, so that it stays whole
        yield Piece(index, group, 0, n), cost
        return
    head = text_cost(replace(group, retrieved=(), document_ids=(), embeddings=None))
    row = 4 * group.embeddings.dimensions if group.embeddings is not None else 0
    most = max(1, PART_CONTEXTS // max(1, n_contexts(group, 1)))
    begin, size = 0, head
    for rank in range(n):
        text = row + (len(group.retrieved[rank]) if group.retrieved else 0)
        if rank > begin and (size + text > PART_CHARACTERS or rank - begin >= most):
            yield Piece(index, group, begin, rank), size
            begin, size = rank, head
        size += text
    yield Piece(index, group, begin, n), size


def n_contexts(group: QueryGroup, n_retrieved: int) -> int:
    """Return how many contexts so many results of a group make, as the server counts them."""
    expected = 0 if group.by_id else group.n_expected
    return n_retrieved * (expected + len(group.negatives))
