"""How close answers are in meaning to their references, and to negative references.

The judge `semantic` compares their embeddings: the similarity of an answer is the best cosine over
its references, 0 where that is negative. No language model is asked.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import or_

from judged._inputs import need_each
from judged.errors import InvalidArgument
from judged.values import (
    Flag,
    JudgeIdentity,
    MetricResult,
    PerQueryValues,
    QueryGroup,
    TextItem,
    Verdicts,
)

METRIC = "semantic_similarity"


@dataclass(frozen=True, slots=True)
class NearNegative:
    """An answer that is at least as close to a negative reference as to any reference.

    `item` and `negative` are places, from 0; both similarities are in [0, 1].
    """

    item: int
    negative: int
    similarity: float
    to_references: float


@dataclass(frozen=True, slots=True)
class AnswerSimilarity:
    """The similarity of each answer, as a metric, and the answers that are near a negative.

    `with_negatives` counts the answers that have negative references; `truncated` those of which
    only the beginning was compared, since a text is longer than the model's window. Of an answer
    that is compared with words that the model does not know, `unread` counts one; where it knows
    none the value is NaN, and `without_value` counts one.
    """

    metric: MetricResult
    negatives: Sequence[NearNegative]
    with_negatives: int
    truncated: int
    judge: JudgeIdentity
    unread: int = 0
    without_value: int = 0


def similarity_groups(
    items: Sequence[TextItem], negatives: Sequence[Sequence[str]]
) -> list[QueryGroup]:
    """Return what is compared: an answer with its references, and its negatives behind them."""
    given = need_each(items, "items", (TextItem,), "TextItem")
    if negatives and len(negatives) != len(given):
        rule = f"has {len(negatives)} entries for {len(given)} items"
        raise InvalidArgument.of_field("negatives", rule)
    for place, item in enumerate(given):
        if not item.references:
            raise InvalidArgument.of_field(f"items[{place}].references", "must not be empty")
    against = negatives or [()] * len(given)
    return [
        QueryGroup("", [*item.references, *some], [item.hypothesis], str(place))
        for place, (item, some) in enumerate(zip(given, against, strict=True))
    ]


def similarity_of(items: Sequence[TextItem], verdicts: Verdicts) -> AnswerSimilarity:
    """Return the similarity of each answer by the verdicts of their groups; no mean yet.

    Raises InvalidArgument where a comparison failed.
    """
    unknown = {p for p, e in verdicts.errors.items() if e.reason == "UNSUPPORTED_TEXT"}
    for place in verdicts.errors.keys() - unknown:
        rule = f"could not be compared: {verdicts.errors[place].message}"
        raise InvalidArgument.of_field(f"items[{bisect(verdicts.offsets, place) - 1}]", rule)
    values: list[float] = []
    near: list[NearNegative] = []
    with_negatives = truncated = unread = 0
    for place, (item, (first, last)) in enumerate(
        zip(items, pairwise(verdicts.offsets), strict=True)
    ):
        scores = [math.nan if p in unknown else verdicts.score[p] for p in range(first, last)]
        n = len(item.references)
        best = max((score for score in scores[:n] if not math.isnan(score)), default=math.nan)
        values.append(best)
        flags = Flag(reduce(or_, verdicts.flags[first:last]))
        with_negatives += len(scores) > n
        truncated += Flag.TRUNCATED in flags
        unread += Flag.UNKNOWN_TOKENS in flags or any(map(math.isnan, scores))
        near += [
            NearNegative(place, index, score, best)
            for index, score in enumerate(scores[n:])
            if score >= best
        ]
    signature = f"{METRIC}|judge:{verdicts.judge.scoring_key[:8]}|v1"
    metric = MetricResult(METRIC, None, 0, None, None, signature, values)
    missing = sum(map(math.isnan, values))
    counts = (with_negatives, truncated, verdicts.judge, unread, missing)
    return AnswerSimilarity(metric, near, *counts)


def known_values(values: Sequence[float]) -> PerQueryValues:
    """Return the similarities of answers that have one."""
    known = {str(place): value for place, value in enumerate(values) if not math.isnan(value)}
    return PerQueryValues(list(known), [list(known.values())])
