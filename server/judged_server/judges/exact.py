"""The judge `exact`: a retrieved text matches when it equals the expected one.

Owns its two profiles. The query is not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from judged_server.domain import JudgeIdentity, JudgeSpec, QueryGroup, ScoreColumns
from judged_server.judges.text_form import normalise
from judged_server.ports import Profile

VERSION = 1

VERBATIM = Profile("verbatim", "the texts are equal, byte for byte", 0.5)
NORMALIZED = Profile(
    "normalized", "the texts are equal once lowered and stripped, white space run together", 0.5
)


@dataclass(frozen=True, slots=True)
class ExactJudge:
    """Scores 1 where the two texts of a context are equal, 0 elsewhere."""

    identity: JudgeIdentity

    wants_embeddings: ClassVar[bool] = False
    wants_spans: ClassVar[bool] = False

    def score(self, groups: Sequence[QueryGroup]) -> ScoreColumns:
        """Return one score a context, 0 or 1; nothing is flagged."""
        if self.identity.profile == NORMALIZED.name:
            texts = {text for group in groups for text in (*group.expected, *group.retrieved)}
            normal = {text: normalise(text) for text in texts}
            equal = [
                normal[expected] == normal[retrieved]
                for group in groups
                for retrieved in group.retrieved
                for expected in group.expected
            ]
        else:
            equal = [
                expected == retrieved
                for group in groups
                for retrieved in group.retrieved
                for expected in group.expected
            ]
        # By way of bytes: NumPy looks at each entry of a list three times.
        return ScoreColumns(np.frombuffer(bytes(equal), np.uint8).astype(np.float64))


class ExactKind:
    """Builds `exact` judges."""

    kind = "exact"
    profiles: tuple[Profile, ...] = (VERBATIM, NORMALIZED)
    for_embeddings = None

    def build(self, spec: JudgeSpec) -> ExactJudge:
        """Return the judge of a spec whose profile is set."""
        bar = VERBATIM.min_score if spec.min_score is None else spec.min_score
        return ExactJudge(JudgeIdentity.build(self.kind, spec.profile, bar, [], VERSION))
