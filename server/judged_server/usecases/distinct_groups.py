"""The groups of an evaluation: each query once, each result of a query once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from judged_server import errors
from judged_server.domain import QueryGroup
from judged_server.metrics.input.judged_ids import JudgedIds


@dataclass(slots=True)
class Part:
    """Groups that came together, without repeated results, and where they stand in the whole.

    `number` counts parts and `first` groups, both from 0; `asked` are the groups as the request's
    judge gets them, and `open_ended` says of which it judges each result by itself, None for none;
    `ranks` has for each group the ranks, as
    they were sent, of the results that are left. `negatives` and `of_families` are what else is to
    be judged: a group for each that has negatives, and the groups as each family reads them.
    `judged_ids` are those of its groups, if any is matched by document id.
    """

    number: int
    first: int
    groups: Sequence[QueryGroup]
    ranks: Sequence[Sequence[int]]
    asked: Sequence[QueryGroup] = ()
    open_ended: Sequence[bool] | None = None
    negatives: Sequence[QueryGroup] = ()
    of_families: Sequence[Sequence[QueryGroup]] = field(default=())
    judged_ids: JudgedIds | None = None

    @property
    def by_id(self) -> list[bool]:
        """Whether each group is matched by document id, and so not judged."""
        return [group.by_id for group in self.groups]

    def document_ids(self, index: int) -> Sequence[str]:
        """Return the ids of a group's results; those without one are called by their rank."""
        ids = self.groups[index].document_ids
        return ids or [f"retrieved_{rank}" for rank in self.ranks[index]]


class DistinctGroups:
    """Takes groups in parts, and drops what a retriever returned twice."""

    def __init__(self, *, strict: bool) -> None:
        """With `strict`, raise for a repeated result."""
        self._strict = strict
        self._places: dict[str, int] = {}
        self._n_parts = 0
        self._last: QueryGroup | None = None
        self._seen: dict[object, int] = {}
        self._n_received = 0
        self.n_dropped = 0
        """The number of repeated results so far."""

    @property
    def query_ids(self) -> Collection[str]:
        """The ids of all queries, in order."""
        return self._places.keys()

    def add(self, groups: Sequence[QueryGroup], *, continues: bool) -> Part:
        """Return the next part; with `continues` its first group is more of the last one.

        Raises InvalidField for an id that is missing or was there before.
        """
        first = len(self._places) - continues
        distinct: list[QueryGroup] = []
        ranks: list[Sequence[int]] = []
        for i, group in enumerate(groups):
            path = f"groups[{first + i}]"
            if continues and i == 0:
                self._check_continued(group, path)
            else:
                self._begin(group, path)
            kept = self._kept(group, f"{path}.document_ids")
            distinct.append(group if kept is None else group.at_ranks(kept))
            places = range(group.n_retrieved) if kept is None else kept
            ranks.append([self._n_received + place for place in places])
            self._n_received += group.n_retrieved
            self.n_dropped += group.n_retrieved - len(places)
        self._last = groups[-1]
        self._n_parts += 1
        return Part(self._n_parts - 1, first, distinct, ranks)

    def _begin(self, group: QueryGroup, path: str) -> None:
        if not group.query_id:
            raise errors.InvalidField(f"{path}.query_id", "must be set")
        place = len(self._places)
        first = self._places.setdefault(group.query_id, place)
        if first != place:
            raise errors.InvalidField(
                f"{path}.query_id", f"is that of groups[{first}].query_id again"
            )
        self._seen, self._n_received = {}, 0

    def _check_continued(self, group: QueryGroup, path: str) -> None:
        last = self._last
        if last is None:
            raise errors.InvalidField("chunk.continues", "is set, and there is no group before")
        if group.spans is not None:
            raise errors.InvalidField(f"{path}.spans", "a group of spans must be sent whole")
        for name in ("query_id", "query", "expected", "relevant_document_ids", "negatives"):
            if list(getattr(group, name)) != list(getattr(last, name)):
                raise errors.InvalidField(
                    f"{path}.{name}", "must be that of the group that it continues"
                )
        if group.grades != last.grades:
            rule = "must be those of the group that it continues"
            raise errors.InvalidField(f"{path}.grades", rule)
        both = (group.document_ids, group.embeddings), (last.document_ids, last.embeddings)
        for name, now, before in zip(("document_ids", "embeddings"), *both, strict=True):
            if group.n_retrieved and last.n_retrieved and bool(now) != bool(before):
                rule = "must be there in all parts of a group, or in none"
                raise errors.InvalidField(f"{path}.{name}", rule)

    def _kept(self, group: QueryGroup, field: str) -> list[int] | None:
        """Return the places to keep of a group's results, None when nothing repeats.

        A result that has the id of an earlier one repeats it if it has its text, or span, too.
        """
        if not group.document_ids:
            return None
        keys: Sequence[object] = group.document_ids
        if group.spans is not None:
            spans = group.spans.retrieved
            columns = (spans.files.tolist(), spans.starts.tolist(), spans.ends.tolist())
            keys = list(zip(group.document_ids, *columns, strict=True))
        elif group.retrieved:
            keys = list(zip(group.document_ids, group.retrieved, strict=True))
        kept = []
        for place, key in enumerate(keys):
            rank = self._n_received + place
            earlier = self._seen.setdefault(key, rank)
            if earlier == rank:
                kept.append(place)
            elif self._strict:
                same = "id" if keys is group.document_ids else "id and text"
                raise errors.InvalidField(f"{field}[{rank}]", f"has the {same} of entry {earlier}")
        return None if len(kept) == len(keys) else kept
