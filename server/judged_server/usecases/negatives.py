"""Negative references: which retrieved texts match something that should not have been found.

No metric looks at negatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from judged_server import errors
from judged_server.domain import QueryGroup, VerdictCounts, Verdicts
from judged_server.judges.base import Judge
from judged_server.usecases.distinct_groups import Part


@dataclass(frozen=True, slots=True)
class NegativeMatch:
    """A result that matches a negative reference.

    `retrieved` is its rank, from 0, as the caller sent it; `negative` the reference's index.
    """

    query_id: str
    retrieved: int
    negative: int
    document_id: str
    score: float


@dataclass(frozen=True, slots=True)
class NegativeReport:
    """How many groups have negatives, and how many of those a match.

    `counts` are those of the verdicts of all results against all negatives of their groups.
    """

    queries: int
    queries_hit: int
    counts: VerdictCounts


def negative_groups(judge: Judge, groups: Sequence[QueryGroup], first: int = 0) -> list[QueryGroup]:
    """Return a group for each that has negatives, in order, which expects those.

    `first` is the place of the first one among all groups. Raises InvalidField for a judge that
    reads no texts.
    """
    found = []
    for index, group in enumerate(groups, first):
        if group.negatives:
            if judge.wants_embeddings or judge.wants_spans:
                rule = f"are texts, which {judge.identity.signature} does not take; leave them out"
                raise errors.InvalidField(f"groups[{index}].negatives", rule)
            found.append(QueryGroup("", group.query, group.negatives, group.retrieved))
    return found


def matches_of(part: Part, verdicts: Verdicts) -> list[tuple[int, NegativeMatch]]:
    """Return each result of a part that matches a negative, with the place of its group there.

    `verdicts` are those of the groups that `negative_groups` made of the part's.
    """
    matches: list[tuple[int, NegativeMatch]] = []
    queries = 0
    for place, group in enumerate(part.groups):
        if not group.negatives:
            continue
        start, end = verdicts.offsets[queries : queries + 2]
        queries += 1
        found = np.flatnonzero(verdicts.relevant[start:end])
        if not len(found):
            continue
        scores = verdicts.columns.scores[start:end][found].tolist()
        names = part.document_ids(place)
        for pair, score in zip(found.tolist(), scores, strict=True):
            row, negative = divmod(pair, len(group.negatives))
            rank = part.ranks[place][row]
            match = NegativeMatch(group.query_id, rank, negative, names[row], score)
            matches.append((place, match))
    return matches
