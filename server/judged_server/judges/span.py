"""The judge `span`: how far a retrieved part of a file covers the expected part.

For golden sets that point into files instead of quoting them. Texts and the query are not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from judged.values.judges import JudgeIdentity

from judged_server.domain import (
    FloatArray,
    JudgeSpec,
    Parameter,
    QueryGroup,
    ScoreColumns,
    Sides,
)
from judged_server.judges.base import JudgeKind, Profile, PureJudge

VERSION = 1
MIN_SCORE = 0.5

IOU = "iou"
CONTAINMENT = "containment"


@dataclass(frozen=True)
class SpanJudge(PureJudge):
    """Scores the overlap of two spans."""

    identity: JudgeIdentity
    measure: str = IOU

    wants_spans = True

    def score(self, groups: Sequence[QueryGroup]) -> ScoreColumns:
        """Return one score a context, from 0 (nothing shared, or other files) to 1."""
        scores = [overlap(group.spans, self.measure) for group in groups if group.spans is not None]
        return ScoreColumns(np.concatenate([np.zeros(0), *scores]))


def overlap(spans: Sides, measure: str) -> FloatArray:
    """Return float64[retrieved * expected], retrieved-major: the overlap of every pair of spans.

    With lengths and overlaps in characters, `iou` is |E n R| / |E u R| (Jaccard, 1901) and
    `containment` is |E n R| / |E|. Spans of different files have 0.
    """
    file, start, end = spans.expected.T
    own_file, own_start, own_end = spans.retrieved.T[:, :, None]
    starts, ends = np.maximum(own_start, start), np.minimum(own_end, end)
    meet = (own_file == file) & (ends > starts)
    # Positions are unsigned: differences are taken only where they can't fall below 0. In double
    # precision then, since two lengths together may leave 64 bits.
    shared = np.where(meet, ends - starts, np.uint64(0)).astype(np.float64)
    whole = (end - start).astype(np.float64)
    if measure == IOU:
        whole = (own_end - own_start).astype(np.float64) + whole - shared
    scores: FloatArray = (shared / whole).ravel()
    return scores


class SpanKind(JudgeKind):
    """Builds `span` judges."""

    kind = "span"
    profiles = (
        Profile(
            "",
            "Overlap of two parts of the same file; texts and the query are not used.",
            MIN_SCORE,
            (
                Parameter(
                    "measure",
                    IOU,
                    "What the shared characters are divided by: those of both spans together "
                    "(intersection over union), or those of the expected span.",
                    choices=(IOU, CONTAINMENT),
                ),
            ),
        ),
    )

    def build(self, spec: JudgeSpec) -> SpanJudge:
        """Return the judge of a spec whose parameters are settled."""
        threshold = MIN_SCORE if spec.min_score is None else spec.min_score
        measure = str(spec.parameters.get("measure", IOU))
        identity = JudgeIdentity.build(self.kind, "", threshold, [("measure", measure)], VERSION)
        return SpanJudge(identity, measure)
