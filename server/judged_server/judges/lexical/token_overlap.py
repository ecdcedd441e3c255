"""The judge `token_overlap`: a retrieved text matches when it has enough of the expected words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from judged_server.domain import FloatArray, JudgeIdentity, JudgeSpec, QueryGroup, ScoreColumns
from judged_server.judges.base import Parameter, Profile, PureJudge
from judged_server.judges.lexical.texts import Batch, Texts
from judged_server.judges.lexical.tokens import PUBLISHED, TextForm
from judged_server.judges.lexical.unicode_text import UNICODE
from judged_server.judges.lexical.weighted_overlap import WeightedOverlapJudge

VERSION = 2

QUERY_CREDIT = 0.75
"""A query that has a shared token lowers the threshold to this part of it. Scores are divided by it
instead, so that `score >= min_score` stays the one rule."""


def _parameters(min_tokens: int) -> tuple[Parameter, ...]:
    return (
        Parameter("min_tokens", min_tokens, "fewer shared tokens than this score 0", minimum=1),
        Parameter("query_boost", True, "a shared token that the query has too raises the score"),
    )


CLASSIC = Profile(
    "classic",
    "share of the expected text's words of ASCII letters and digits; decides as evret 0.0.1",
    0.6,
    _parameters(2),
)
WEIGHTED = Profile(
    "weighted",
    "weighted share of its content words, with phrases and negations; decides as evret 0.0.3",
    0.6,
    _parameters(15),
)
ANY_LANGUAGE = Profile(
    "unicode", "as classic, with the words of every language", 0.6, _parameters(2)
)


@dataclass(frozen=True)
class RatioJudge(PureJudge):
    """Scores the share of the expected text's distinct tokens that the retrieved text has."""

    identity: JudgeIdentity
    min_tokens: int
    query_boost: bool
    form: TextForm

    def score(self, groups: Sequence[QueryGroup]) -> ScoreColumns:
        """Return one score a context, in [0, 1], and NO_TOKENS flags if there are any."""
        texts = Texts(groups, self.form)
        return texts.score(lambda batch: self._score_batch(texts, batch))

    def _score_batch(self, texts: Texts, batch: Batch) -> FloatArray:
        shared = batch.shared()
        size = batch.in_expected()[batch.expected_of]
        scores = shared / np.maximum(size, 1)
        if self.query_boost:
            asked_for = batch.shared(batch.in_query) > 0
            np.divide(scores, QUERY_CREDIT, out=scores, where=asked_for)
            np.minimum(scores, 1, out=scores)
        scores[shared < self.min_tokens] = 0
        for context, expected, retrieved in batch.pairs(batch.may_contain):
            if texts.same(expected, retrieved) or texts.contained(expected, retrieved):
                scores[context] = 1
        return scores


class TokenOverlapKind:
    """Builds `token_overlap` judges."""

    kind = "token_overlap"
    profiles: tuple[Profile, ...] = (CLASSIC, WEIGHTED, ANY_LANGUAGE)
    for_embeddings = None
    asks_models = False

    def build(self, spec: JudgeSpec) -> RatioJudge | WeightedOverlapJudge:
        """Return the judge of a spec whose profile and parameters are set."""
        min_tokens = int(spec.parameters["min_tokens"])
        query_boost = bool(spec.parameters["query_boost"])
        identity = JudgeIdentity.build(
            self.kind,
            spec.profile,
            CLASSIC.min_score if spec.min_score is None else spec.min_score,
            [("min_tokens", str(min_tokens)), ("query_boost", str(query_boost).lower())],
            VERSION,
        )
        if spec.profile == WEIGHTED.name:
            return WeightedOverlapJudge(identity, min_tokens, query_boost)
        form = UNICODE if spec.profile == ANY_LANGUAGE.name else PUBLISHED
        return RatioJudge(identity, min_tokens, query_boost, form)
