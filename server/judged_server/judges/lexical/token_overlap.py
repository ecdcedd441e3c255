"""The judge `token_overlap`: a retrieved text matches when it has enough of the expected words.

Its profile `weighted` looks for phrases too. A phrase is two to four neighbours among the content
tokens of an expected text, joined by single spaces, and is found wherever the normal form of a
retrieved text has it, even inside words.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from judged.values.judges import JudgeIdentity
from numpy.typing import NDArray

from judged_server.domain import (
    BoolArray,
    FloatArray,
    IntArray,
    JudgeSpec,
    Parameter,
    QueryGroup,
    ScoreColumns,
)
from judged_server.judges.base import JudgeKind, Profile, PureJudge
from judged_server.judges.lexical.texts import (
    NEGATIONS,
    PUBLISHED,
    STOPWORDS,
    UNICODE,
    Batch,
    KeyArray,
    KeyIndex,
    TextForm,
    Texts,
    TokenTable,
    ranges,
)

SHORTEST, LONGEST = 2, 4

_MULTIPLIER, _ROW_MULTIPLIER = (np.uint64(secrets.randbits(64) | 1) for _ in range(2))


def longest_phrases(
    texts: Texts, batch: Batch, content: FloatArray, contexts: BoolArray
) -> IntArray:
    """Return how many tokens the longest common phrase of each context has, 0 for none: int64.

    Only the `contexts` that are true are looked at. `content` is 0 for the terms to leave out.
    """
    result = np.zeros(len(contexts), np.int64)
    places = np.flatnonzero(contexts)
    if not places.size:
        return result
    phrases = _ExpectedPhrases(texts, batch, content)
    of_context, pairs, likely = _likely_pairs(texts, batch, phrases, places)
    searched = [texts.normal(text) for text in batch.retrieved[batch.retrieved_of[places]].tolist()]
    found = np.zeros(len(places), np.int64)
    for length in range(LONGEST, SHORTEST - 1, -1):
        # A phrase is likely where all its pairs are, which must be of one context.
        n_pairs = length - 1
        run = likely[: len(likely) - n_pairs + 1].copy()
        for step in range(1, n_pairs):
            run &= likely[step : len(run) + step]
        run &= of_context[: len(run)] == of_context[n_pairs - 1 :]
        run &= found[of_context[: len(run)]] == 0
        starts = np.flatnonzero(run)
        for context, pair in zip(of_context[starts].tolist(), pairs[starts].tolist(), strict=True):
            if not found[context] and phrases.text(pair, length) in searched[context]:
                found[context] = length
    result[places] = found
    return result


class _ExpectedPhrases:
    """The pairs of neighbours among the content tokens of a batch's expected texts.

    Row i of the batch owns the pairs `first[i]:first[i + 1]`. `joints` has the last two letters of
    a pair's left token and the first two of its right one; `short` marks the pairs that have a
    token of one letter, whose joint says nothing.
    """

    def __init__(self, texts: Texts, batch: Batch, content: FloatArray) -> None:
        tokens = texts.tokens
        kept = np.flatnonzero(content[batch.expected_terms])
        rows = batch.expected_rows[kept]
        at = batch.expected_tokens[kept]
        neighbours = np.flatnonzero(rows[1:] == rows[:-1])
        left, right = at[neighbours], at[neighbours + 1]
        self._words = tokens.words(at)
        self._left = neighbours.tolist()
        self.joints = tokens.joints(left, right)
        self.short: BoolArray = np.minimum(tokens.lengths[left], tokens.lengths[right]) < 2
        self.first = np.searchsorted(rows[neighbours], np.arange(len(batch.expected) + 1))

    def text(self, pair: int, length: int) -> str:
        """Return the phrase of `length` tokens that begins with a pair."""
        start = self._left[pair]
        return b" ".join(self._words[start : start + length]).decode()


def _likely_pairs(
    texts: Texts, batch: Batch, phrases: _ExpectedPhrases, places: IntArray
) -> tuple[IntArray, IntArray, BoolArray]:
    """Return all pairs of the contexts: positions in `places`, pair numbers, whether to search.

    Where a pair stands in a text, two neighbouring tokens of the text have the pair's joint. The
    joints of all retrieved texts go into one table of marks, in which a wrong hit is rare.
    """
    tokens = texts.tokens
    rows, row_of = np.unique(batch.retrieved_of[places], return_inverse=True)
    counts, at = tokens.of_texts(batch.retrieved[rows])
    owners = np.repeat(np.arange(len(rows)), counts)
    left = np.flatnonzero(owners[1:] == owners[:-1])
    shift = np.uint64(64 - max(8, len(left).bit_length() + 4))
    marks = np.zeros(1 << (64 - int(shift)), np.bool_)
    marks[_slots(tokens.joints(at[left], at[left + 1]), owners[left], shift)] = True

    expected = batch.expected_of[places]
    starts = phrases.first[expected]
    counts = phrases.first[expected + 1] - starts
    pairs = ranges(starts, counts)
    of_context = np.repeat(np.arange(len(places)), counts)
    likely = marks[_slots(phrases.joints[pairs], row_of[of_context], shift)]
    return of_context, pairs, likely | phrases.short[pairs]


def _slots(joints: KeyArray, rows: IntArray, shift: np.uint64) -> NDArray[np.uint64]:
    return ((joints + rows.astype(np.uint64) * _ROW_MULTIPLIER) * _MULTIPLIER) >> shift


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


class TokenOverlapKind(JudgeKind):
    """Builds `token_overlap` judges."""

    kind = "token_overlap"
    profiles = (CLASSIC, WEIGHTED, ANY_LANGUAGE)

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
