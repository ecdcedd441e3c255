"""Negative references: which retrieved texts match something that should not have been found.

No metric looks at negatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from judged_server import errors
from judged_server.domain import QueryGroup, Verdicts
from judged_server.judges.base import Judge


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
    """How many groups have negatives and how many of those a match, and every match in order.

    `verdicts` are those of all results against all negatives of their groups.
    """

    queries: int
    queries_hit: int
    matches: Sequence[NegativeMatch]
    verdicts: Verdicts


def negative_groups(judge: Judge, groups: Sequence[QueryGroup]) -> list[QueryGroup]:
    """Return a group for each that has negatives, in order, which expects those.

    Raises InvalidField for a judge that does not read texts.
    """
    found = []
    for index, group in enumerate(groups):
        if group.negatives:
            if judge.wants_embeddings or judge.wants_spans:
                rule = f"are texts, which {judge.identity.signature} does not take; leave them out"
                raise errors.InvalidField(f"groups[{index}].negatives", rule)
            found.append(QueryGroup("", group.query, group.negatives, group.retrieved))
    return found


def report_negatives(
    groups: Sequence[QueryGroup], ranks: Sequence[Sequence[int] | None], verdicts: Verdicts
) -> NegativeReport:
    """Return the report on groups without repeats; `verdicts` are those of their negatives.

    `ranks` says for each group where the caller's request had its results; None: where they are.
    """
    matches: list[NegativeMatch] = []
    queries = hit = 0
    for group, kept in zip(groups, ranks, strict=True):
        if not group.negatives:
            continue
        start, end = verdicts.offsets[queries : queries + 2]
        queries += 1
        places = np.flatnonzero(verdicts.relevant[start:end])
        hit += bool(len(places))
        scores = verdicts.columns.scores[start:end][places].tolist()
        for place, score in zip(places.tolist(), scores, strict=True):
            rank, negative = divmod(place, len(group.negatives))
            name = group.document_ids[rank] if group.document_ids else f"retrieved_{rank}"
            sent = rank if kept is None else kept[rank]
            matches.append(NegativeMatch(group.query_id, sent, negative, name, score))
    return NegativeReport(queries, hit, matches, verdicts)
