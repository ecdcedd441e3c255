"""How close answers are in meaning to their references, and to negative references.

The judge `semantic` compares their embeddings: the similarity of an answer is the best cosine over
its references, 0 where that is negative. No language model is asked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from judged._inputs import need_each
from judged.client import Client
from judged.errors import InvalidArgument
from judged.evaluation._steps.walking import Steps, need_client, run_steps
from judged.values import (
    Flag,
    IntervalOptions,
    Judge,
    JudgeIdentity,
    MetricOptions,
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


def answer_similarity(
    items: Sequence[TextItem],
    negatives: Sequence[Sequence[str]] = (),
    *,
    client: Client,
    judge: Judge | str = "semantic",
    interval: IntervalOptions | None = None,
    timeout: float | None = None,
) -> AnswerSimilarity:
    """Return how close answers are to their references; `negatives` has a list for each item.

    Raises InvalidArgument for an item without references, for another number of `negatives`, and
    where a comparison failed; else as `Client.judge` and `Client.compute_metrics` do.
    """
    need_client(client)
    return run_steps(client, similarity_steps(items, negatives, judge, interval, timeout))


def similarity_steps(
    items: Sequence[TextItem],
    negatives: Sequence[Sequence[str]],
    judge: Judge | str,
    interval: IntervalOptions | None,
    timeout: float | None,
) -> Steps[AnswerSimilarity]:
    """Yield the steps of `answer_similarity`."""
    given = need_each(items, "items", (TextItem,), "TextItem")
    if negatives and len(negatives) != len(given):
        rule = f"has {len(negatives)} entries for {len(given)} items"
        raise InvalidArgument.of_field("negatives", rule)
    against = [list(some) for some in negatives] or [[] for _ in given]
    for place, item in enumerate(given):
        if not item.references:
            raise InvalidArgument.of_field(f"items[{place}].references", "must not be empty")
    groups = [
        QueryGroup("", [*item.references, *some], [item.hypothesis], str(place))
        for place, (item, some) in enumerate(zip(given, against, strict=True))
    ]
    verdicts: Verdicts = yield lambda client: client.judge(groups, judge, timeout=timeout)
    unknown = {p for p, e in verdicts.errors.items() if e.reason == "UNSUPPORTED_TEXT"}
    for place, error in verdicts.errors.items():
        if place in unknown:
            continue
        rule = f"could not be compared: {error.message}"
        group = next(g for g in range(len(given)) if verdicts.offsets[g + 1] > place)
        raise InvalidArgument.of_field(f"items[{group}]", rule)
    values: list[float] = []
    near: list[NearNegative] = []
    truncated = unread = 0
    for place, item in enumerate(given):
        first, last = verdicts.offsets[place], verdicts.offsets[place + 1]
        scores = [math.nan if p in unknown else verdicts.score[p] for p in range(first, last)]
        n = len(item.references)
        best = max((score for score in scores[:n] if not math.isnan(score)), default=math.nan)
        values.append(best)
        flags = verdicts.flags[first:last]
        truncated += any(flag & Flag.TRUNCATED for flag in flags)
        unread += any(map(math.isnan, scores)) or any(f & Flag.UNKNOWN_TOKENS for f in flags)
        near += [
            NearNegative(place, index, score, best)
            for index, score in enumerate(scores[n:])
            if score >= best
        ]
    known = [place for place, value in enumerate(values) if not math.isnan(value)]
    of_items = PerQueryValues([str(place) for place in known], [[values[p] for p in known]])
    options = MetricOptions(per_query=True, interval=interval)
    table: MetricTable = yield lambda client: client.compute_metrics(
        [METRIC], of_items, options, timeout=timeout
    )
    [found] = table.metrics
    metric = MetricResult(
        METRIC,
        found.mean if known else None,
        found.n,
        None,
        None,
        f"{METRIC}|judge:{verdicts.judge.scoring_key[:8]}|v1",
        values,
        found.interval,
    )
    without_value = len(given) - len(known)
    with_negatives = sum(map(bool, against))
    return AnswerSimilarity(
        metric, near, with_negatives, truncated, verdicts.judge, unread, without_value
    )
