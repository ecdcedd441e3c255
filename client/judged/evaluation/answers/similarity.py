"""How close answers are in meaning to their references, and to negative references.

The judge `semantic` compares their embeddings: the similarity of an answer is the best cosine over
its references, 0 where that is negative. No language model is asked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from judged._inputs import need_each
from judged.errors import InvalidArgument
from judged.values import (
    Flag,
    JudgeIdentity,
    MetricResult,
    MetricTable,
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


class Similarities:
    """What is compared for `answer_similarity`, and what came of it. Raises as that does."""

    def __init__(self, items: Sequence[TextItem], negatives: Sequence[Sequence[str]]) -> None:
        self._items = given = need_each(items, "items", (TextItem,), "TextItem")
        if negatives and len(negatives) != len(given):
            rule = f"has {len(negatives)} entries for {len(given)} items"
            raise InvalidArgument.of_field("negatives", rule)
        against = [list(some) for some in negatives] or [[] for _ in given]
        for place, item in enumerate(given):
            if not item.references:
                raise InvalidArgument.of_field(f"items[{place}].references", "must not be empty")
        self._with_negatives = sum(map(bool, against))
        self.groups = [
            QueryGroup("", [*item.references, *some], [item.hypothesis], str(place))
            for place, (item, some) in enumerate(zip(given, against, strict=True))
        ]
        self._best: list[float] = []
        self._near: list[NearNegative] = []
        self._truncated = self._unread = 0

    def take(self, verdicts: Verdicts) -> None:
        """Take the verdicts of the groups."""
        self._judge = verdicts.judge
        unknown = {p for p, e in verdicts.errors.items() if e.reason == "UNSUPPORTED_TEXT"}
        for place, error in verdicts.errors.items():
            if place in unknown:
                continue
            rule = f"could not be compared: {error.message}"
            ends = enumerate(verdicts.offsets[1:])
            group = next(group for group, end in ends if end > place)
            raise InvalidArgument.of_field(f"items[{group}]", rule)
        for place, item in enumerate(self._items):
            first, last = verdicts.offsets[place], verdicts.offsets[place + 1]
            scores = [math.nan if p in unknown else verdicts.score[p] for p in range(first, last)]
            n = len(item.references)
            best = max((score for score in scores[:n] if not math.isnan(score)), default=math.nan)
            self._best.append(best)
            flags = verdicts.flags[first:last]
            self._truncated += any(flag & Flag.TRUNCATED for flag in flags)
            unread = any(f & Flag.UNKNOWN_TOKENS for f in flags)
            self._unread += any(map(math.isnan, scores)) or unread
            self._near += [
                NearNegative(place, index, score, best)
                for index, score in enumerate(scores[n:])
                if score >= best
            ]

    @property
    def values(self) -> PerQueryValues:
        """The similarities of answers that have one."""
        known = [place for place, value in enumerate(self._best) if not math.isnan(value)]
        return PerQueryValues([str(place) for place in known], [[self._best[p] for p in known]])

    def whole(self, table: MetricTable) -> AnswerSimilarity:
        """Return the similarity of all answers, given what ComputeMetrics made of the values."""
        [found] = table.metrics
        metric = MetricResult(
            METRIC,
            found.mean if found.n else None,
            found.n,
            None,
            None,
            f"{METRIC}|judge:{self._judge.scoring_key[:8]}|v1",
            self._best,
            found.interval,
        )
        return AnswerSimilarity(
            metric,
            self._near,
            self._with_negatives,
            self._truncated,
            self._judge,
            self._unread,
            without_value=sum(map(math.isnan, self._best)),
        )
