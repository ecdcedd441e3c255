"""Scores of several dimensions, weighed into one.

The whole is computed here and never taken from the model, whose own number is only passed on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import fsum

from judged.values.choices import Status

from judged_server.domain.answers import DimensionScore
from judged_server.judges.llm.scoring_session import (
    SampleResult,
    ScoringSession,
    ask_samples,
    by_threshold,
    voted,
)
from judged_server.llm.chat import Dimensions, ParsedReply
from judged_server.llm.rubrics.rubric import FieldValue, Rubric


def assessable(
    rubric: Rubric, weights: Mapping[str, float], *, has_contexts: bool
) -> dict[str, float]:
    """Return the dimensions that can be assessed, with weights that sum to 1.

    Empty when all of them have no weight: then there is no whole.
    """
    left_out = () if has_contexts else rubric.need_contexts
    kept = {name: weights.get(name, 0.0) for name, _ in rubric.dimensions if name not in left_out}
    # Divided by the largest first: a sum of huge weights would be infinite.
    largest = max(kept.values(), default=0.0)
    if largest <= 0:
        return {}
    shares = {name: weight / largest for name, weight in kept.items()}
    whole = fsum(shares.values())
    return {name: share / whole for name, share in shares.items()}


async def find_dimensions(
    session: ScoringSession,
    rubric: Rubric,
    fields: Mapping[str, FieldValue],
    samples: int,
    min_score: float,
    weights: Mapping[str, float],
    *,
    has_contexts: bool,
) -> SampleResult:
    """Return the weighed mean of the dimensions, each the mean of the samples that scored it.

    The samples vote as scores do: each says yes when its own whole meets the threshold. Without
    contexts the dimensions that need them have no score and no weight.
    """
    shares = assessable(rubric, weights, has_contexts=has_contexts)

    def whole(parsed: ParsedReply) -> float:
        scores = dict(_content(parsed).scores)
        return min(1.0, fsum(shares[name] * scores[name] for name in shares))

    parsed_replies = await ask_samples(session, rubric, fields, samples)
    finding = voted(by_threshold(parsed_replies, min_score, whole))
    if finding.status is not Status.OK:
        return finding
    contents = [_content(parsed) for parsed in parsed_replies if parsed.status is Status.OK]
    reported = [each.reported_overall for each in contents if each.reported_overall is not None]
    missing = [name for name, _ in rubric.dimensions if name not in shares]
    warning = (
        f"without contexts there is no score of {', '.join(missing)}; "
        "the other dimensions carry the whole"
    )
    return replace(
        finding,
        dimensions=tuple(
            DimensionScore(
                name,
                _mean([dict(each.scores)[name] for each in contents]) if name in shares else None,
                shares.get(name, 0.0),
            )
            for name, _ in rubric.dimensions
        ),
        reported_overall=_mean(reported) if reported else None,
        warnings=(warning,) if missing else (),
    )


def _content(parsed: ParsedReply) -> Dimensions:
    if not isinstance(parsed.content, Dimensions):
        raise TypeError("a sample of dimensions has none")
    return parsed.content


def _mean(values: list[float]) -> float:
    return fsum(values) / len(values)
