"""Negative references: the groups they are judged in, and the report on what matches them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from judged.evaluation._steps.distinct import distinct_ranks
from judged.evaluation._steps.measuring import count_verdicts
from judged.types import NegativeMatch, NegativeReport, QueryGroup, Verdicts


def without_negatives(groups: Sequence[QueryGroup]) -> list[QueryGroup]:
    """Return the groups as they are judged: a stream takes no negatives."""
    return [replace(group, negatives=()) if group.negatives else group for group in groups]


def negative_groups(groups: Sequence[QueryGroup]) -> list[QueryGroup]:
    """Return a group for each that has negatives, in order, which expects those."""
    return [
        QueryGroup(group.query, group.negatives, group.retrieved)
        for group in groups
        if group.negatives
    ]


def report_negatives(
    given: Sequence[QueryGroup], groups: Sequence[QueryGroup], verdicts: Verdicts
) -> NegativeReport:
    """Return the report on `groups`, which are those `given` without repeated results.

    `verdicts` are those of the groups' negatives. Ranks are those of the results as given.
    """
    matches: list[NegativeMatch] = []
    queries = hit = 0
    for sent, group in zip(given, groups, strict=True):
        if not group.negatives:
            continue
        start, end = verdicts.offsets[queries : queries + 2]
        queries += 1
        places = [place for place in range(start, end) if verdicts.relevant[place]]
        hit += bool(places)
        ranks = distinct_ranks(sent) if places else ()
        for place in places:
            rank, negative = divmod(place - start, len(group.negatives))
            name = group.document_ids[rank] if group.document_ids else f"retrieved_{rank}"
            matches.append(
                NegativeMatch(group.query_id, ranks[rank], negative, name, verdicts.score[place])
            )
    return NegativeReport(queries, hit, matches, count_verdicts(verdicts))


def verdicts_of(verdicts: Verdicts, begin: int, end: int) -> Verdicts:
    """Return the verdicts of the groups from `begin` up to, not including, `end`.

    What the whole took is not told of a part.
    """
    first, last = verdicts.offsets[begin], verdicts.offsets[end]
    part = slice(first, last)
    return Verdicts(
        verdicts.relevant[part],
        verdicts.score[part],
        verdicts.status[part],
        verdicts.source[part],
        verdicts.flags[part],
        [offset - first for offset in verdicts.offsets[begin : end + 1]],
        {i - first: error for i, error in verdicts.errors.items() if first <= i < last},
        verdicts.judge,
        verdicts.agreement[part],
        {i - first: detail for i, detail in verdicts.details.items() if first <= i < last},
        groups=verdicts.groups[begin:end],
    )
