"""The judge `exact`: a retrieved text matches when it equals the expected one.

The query is not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from judged.values.judges import JudgeIdentity

from judged_server.domain import FloatArray, JudgeSpec, QueryGroup, ScoreColumns
from judged_server.judges.base import JudgeKind, Profile, PureJudge
from judged_server.judges.token_overlap import normalise

VERBATIM = Profile("verbatim", "the texts are equal, byte for byte", 0.5)
NORMALIZED = Profile(
    "normalized",
    "the texts are equal in one form of Unicode, lowered and stripped, white space run together",
    0.5,
)
VERSIONS = {VERBATIM.name: 1, NORMALIZED.name: 2}


@dataclass(frozen=True)
class ExactJudge(PureJudge):
    """Scores 1 where the two texts of a context are equal, 0 elsewhere."""

    identity: JudgeIdentity

    def score(self, groups: Sequence[QueryGroup]) -> ScoreColumns:
        """Return one score a context, 0 or 1; nothing is flagged."""
        sides = [(group.expected, group.retrieved) for group in groups]
        if self.identity.profile == NORMALIZED.name:
            texts = {text for side in sides for text in chain(*side)}
            normal = {text: normalise(text) for text in texts}
            sides = [([normal[e] for e in es], [normal[r] for r in rs]) for es, rs in sides]
        return ScoreColumns(_equal(sides))


def _equal(sides: Sequence[tuple[Sequence[str], Sequence[str]]]) -> FloatArray:
    """Return float64, retrieved-major: 1 where an expected text equals a retrieved one, else 0."""
    total = sum([len(expected) * len(retrieved) for expected, retrieved in sides])
    scores = np.zeros(total)
    start = 0
    for expected, retrieved in sides:
        stride = len(expected)
        # The lists look for equals by themselves, so that only those found cost a step here.
        for first, text in enumerate(expected, start):
            rank = -1
            for _ in range(retrieved.count(text)):
                rank = retrieved.index(text, rank + 1)
                scores[first + stride * rank] = 1.0
        start += stride * len(retrieved)
    return scores


class ExactKind(JudgeKind):
    """Builds `exact` judges."""

    kind = "exact"
    profiles = (VERBATIM, NORMALIZED)

    def build(self, spec: JudgeSpec) -> ExactJudge:
        """Return the judge of a spec whose profile is set."""
        threshold = VERBATIM.min_score if spec.min_score is None else spec.min_score
        version = VERSIONS[spec.profile]
        return ExactJudge(JudgeIdentity.build(self.kind, spec.profile, threshold, [], version))
