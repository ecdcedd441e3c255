"""What labels say of all items: how many are relevant, how often the judge and people agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from judged.client import Client
from judged.errors import InvalidArgument
from judged.labelling.items import Item, Judged
from judged.labelling.label_file import LabelFile
from judged.values import (
    CalibrateOptions,
    CorrectedEstimate,
    IntervalOptions,
    LabelledScores,
    RatingTable,
)

_CATEGORIES = ("relevant", "not relevant")
_BELOW_HALF = 0.5 - 1e-6
_RESAMPLES = 100  # the fewest: what is resampled is not shown here


@dataclass(frozen=True, slots=True)
class Summary:
    """Corrected means by name, over all items that have a verdict.

    `means` holds the share of items that are relevant, and the share on which the judge says what
    people say; with two annotators or more also how far these agree, as `labels_only`. `counted` is
    how many items of the draw were looked at, without a gap; `warnings` are remarks on them.
    """

    means: Mapping[str, CorrectedEstimate]
    counted: int
    warnings: Sequence[str]


def summarize(
    client: Client, judged: Judged, labels: LabelFile, confidence: float | None = None
) -> Summary:
    """Return what the labels say of all items.

    Items count in the order in which they were drawn, up to the first that nobody has looked at.
    Where annotators differ, most of them decide; an item on which they are divided evenly counts as
    "unsure", and has no label. Raises InvalidArgument without any label that counts.
    """
    votes: dict[str, Counter[bool | None]] = {}
    for label in labels.labels:
        votes.setdefault(label.item_id, Counter())[label.relevant] += 1
    order = judged.drawn(len(judged.items))
    counted = next((i for i, item in enumerate(order) if item.item_id not in votes), len(order))
    decided = {item.item_id: _decision(votes[item.item_id]) for item in order[:counted]}
    warnings = []
    if beyond := len(votes) - counted:
        warnings.append(
            f"{beyond} labelled items come after one in the draw that nobody looked at, and do not "
            "count; label those in between"
        )
    if unsure := sum(said is None for said in decided.values()):
        warnings.append(
            f"{unsure} of {counted} items are unsure, and count as if nobody had looked; what is "
            "said of all items holds as far as these are like the others"
        )
    if all(said is None for said in decided.values()):
        raise InvalidArgument.of_field("labels", "none counts; label the first items of the draw")
    chances = judged.probabilities(counted)
    found = client.calibrate(
        LabelledScores(
            [_score(item) for item in judged.items],
            [decided.get(item.item_id) for item in judged.items],
            [item.cluster for item in judged.items],
            [chances[item.item_id] for item in judged.items],
        ),
        CalibrateOptions(min_score=0.5),
        IntervalOptions.of(confidence=confidence, resamples=_RESAMPLES),
    )
    means = {"share of relevant items": found.prevalence}
    if found.agreement is not None:
        means["judge agrees with people"] = found.agreement
    if len(labels.annotators) > 1:
        means |= _annotators(client, labels, confidence)
    return Summary(means, counted, warnings)


def _score(item: Item) -> float:
    """Return the belief, on the side of one half that the verdict says."""
    return max(item.belief, 0.5) if item.relevant else min(item.belief, _BELOW_HALF)


def _decision(votes: Counter[bool | None]) -> bool | None:
    return None if votes[True] == votes[False] else votes[True] > votes[False]


def _annotators(
    client: Client, labels: LabelFile, confidence: float | None
) -> dict[str, CorrectedEstimate]:
    """Return how far annotators agree on the items that two of them or more decided."""
    names = list(dict.fromkeys(label.item_id for label in labels.labels))
    ratings: dict[str, list[str | None]] = {}
    for annotator in labels.annotators:
        own = labels.of(annotator)
        said = [own[name].relevant if name in own else None for name in names]
        ratings[annotator] = [
            None if relevant is None else _CATEGORIES[0 if relevant else 1] for relevant in said
        ]
    table = RatingTable.of(list(_CATEGORIES), ratings)
    agreed = client.measure_agreement(
        table, interval=IntervalOptions.of(confidence=confidence)
    ).ratings
    if agreed is None:
        return {}
    return {
        name: CorrectedEstimate(None, None, estimate, agreed.n_items, len(names), 0.0)
        for name, estimate in (
            ("annotators agree", agreed.observed),
            ("their krippendorff_alpha", agreed.krippendorff_alpha),
        )
    }
