"""The scores of `token_overlap` in its profile `weighted`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from judged_server.domain import BoolArray, FloatArray, JudgeIdentity, QueryGroup, ScoreColumns
from judged_server.judges.base import PureJudge
from judged_server.judges.lexical.phrases import longest_phrases
from judged_server.judges.lexical.texts import Batch, Texts
from judged_server.judges.lexical.tokens import (
    NEGATIONS,
    PUBLISHED,
    STOPWORDS,
    KeyArray,
    KeyIndex,
    TokenTable,
)

# Weights in twentieths (1.5, .75, 1.35 and 1), so that their sums are exact in any order.
NUMBER_WEIGHT = 30
SHORT_WEIGHT, SHORT_LENGTH = 15, 2
LONG_WEIGHT, LONG_LENGTH = 27, 8
PLAIN_WEIGHT = 20

PHRASE_BONUS = 0.05
"""For each token of the longest common phrase after its first."""

QUERY_BONUS = 0.1


def _keys(words: frozenset[str]) -> KeyArray:
    # Those with an apostrophe are never one token.
    return PUBLISHED.tokens([word for word in words if word.isalnum()]).keys


_STOPWORDS = KeyIndex(_keys(STOPWORDS))
_NEGATIONS = _keys(NEGATIONS)


@dataclass(frozen=True)
class WeightedOverlapJudge(PureJudge):
    """Scores how much of the weight of the expected content tokens the retrieved text has."""

    identity: JudgeIdentity
    min_tokens: int
    query_boost: bool

    def score(self, groups: Sequence[QueryGroup]) -> ScoreColumns:
        """Return one score a context, in [0, 1], and NO_TOKENS flags if there are any."""
        texts = Texts(groups, PUBLISHED)
        denies = _denying(texts.tokens)
        return texts.score(lambda batch: self._score_batch(batch, texts, denies))

    def _score_batch(self, batch: Batch, texts: Texts, denies: BoolArray) -> FloatArray:
        content, weights = _values(texts.tokens, batch)
        shared = batch.shared(content)
        scores = batch.shared(weights)
        scores /= np.maximum(batch.in_expected(weights), 1)[batch.expected_of]
        if self.query_boost:
            scores += QUERY_BONUS * (batch.shared(content * batch.in_query) > 0)
        denied = denies[batch.expected][batch.expected_of]
        denied = denied != denies[batch.retrieved][batch.retrieved_of]
        enough = (shared >= self.min_tokens) & ~denied
        phrases = longest_phrases(texts, batch, content, enough & (scores < 1))
        scores += PHRASE_BONUS * np.maximum(phrases - 1, 0)
        scores[~enough] = 0
        for context, expected, retrieved in batch.pairs(batch.may_contain):
            # Equal texts match even if one of them seems to deny the other; see `denied`.
            if texts.same(expected, retrieved) or (
                not denied[context] and texts.contained(expected, retrieved)
            ):
                scores[context] = 1
        return np.minimum(scores, 1)


def _values(tokens: TokenTable, batch: Batch) -> tuple[FloatArray, FloatArray]:
    """Return for each term 1 if it is a content token, else 0, and its weight in twentieths."""
    at = batch.term_tokens
    content = np.ones(len(at))
    content[_STOPWORDS.find(tokens.keys[at])[0]] = 0
    lengths = tokens.lengths[at]
    weights = np.select(
        [tokens.numeric[at], lengths <= SHORT_LENGTH, lengths >= LONG_LENGTH],
        [NUMBER_WEIGHT, SHORT_WEIGHT, LONG_WEIGHT],
        PLAIN_WEIGHT,
    )
    return content, content * weights


def _denying(tokens: TokenTable) -> BoolArray:
    """Return which texts have a negation among all their tokens: bool, one a text."""
    result = np.zeros(len(tokens.counts), np.bool_)
    found = np.flatnonzero(np.isin(tokens.keys, _NEGATIONS))
    result[np.searchsorted(tokens.first, found, side="right") - 1] = True
    return result
