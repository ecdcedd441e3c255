"""How close answers are in meaning to their references, and to negative references.

The judge `semantic` compares their embeddings: the similarity of an answer is the best cosine over
its references, 0 where that is negative. No language model is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from judged._inputs import need_each
from judged.client import Client
from judged.errors import InvalidArgument
from judged.evaluation._steps.walking import Steps, need_client, run_steps
from judged.types import (
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
    only the beginning was compared, since a text is longer than the model's window.
    """

    metric: MetricResult
    negatives: Sequence[NearNegative]
    with_negatives: int
    truncated: int
    judge: JudgeIdentity


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
    for place, error in verdicts.errors.items():
        rule = f"could not be compared: {error.message}"
        group = next(g for g in range(len(given)) if verdicts.offsets[g + 1] > place)
        raise InvalidArgument.of_field(f"items[{group}]", rule)
    values: list[float] = []
    near: list[NearNegative] = []
    truncated = 0
    for place, item in enumerate(given):
        first, last = verdicts.offsets[place], verdicts.offsets[place + 1]
        scores = verdicts.score[first:last]
        n = len(item.references)
        best = max(scores[:n])
        values.append(best)
        truncated += any(flag & Flag.TRUNCATED for flag in verdicts.flags[first:last])
        near += [
            NearNegative(place, index, score, best)
            for index, score in enumerate(scores[n:])
            if score >= best
        ]
    of_items = PerQueryValues([str(place) for place in range(len(given))], [values])
    options = MetricOptions(per_query=True, interval=interval)
    table: MetricTable = yield lambda client: client.compute_metrics(
        [METRIC], of_items, options, timeout=timeout
    )
    [found] = table.metrics
    metric = MetricResult(
        METRIC,
        found.mean,
        found.n,
        None,
        None,
        f"{METRIC}|judge:{verdicts.judge.scoring_key[:8]}|v1",
        values,
        found.interval,
    )
    return AnswerSimilarity(metric, near, sum(map(bool, against)), truncated, verdicts.judge)
