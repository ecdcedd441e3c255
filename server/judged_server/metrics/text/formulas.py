"""BLEU, ROUGE, token F1 and exact match of one item, over the tokens of both sides.

BLEU is the number that sacrebleu's sentence_bleu prints, over 100.

K. Papineni et al., "BLEU: a method for automatic evaluation of machine translation", ACL 2002; the
smoothing is that of mteval-v13a (method 3 of Chen and Cherry, WMT 2014), and orders above the
length of the hypothesis are left out ("effective order").

    bleu = bp * exp(mean over n = 1..N of log p_n),   N = min(4, length of the hypothesis)
    p_n  = clipped matches / n-grams of the hypothesis; without a match, half of what one match
           would give, a quarter the next time, and so on
    bp   = exp(1 - r / h) if h < r, else 1; r is the length of the reference nearest to h in
           length, the shorter of two

Operations and their order are sacrebleu's, so that results agree to the last bit. A hypothesis
without any matching token is 0, and so are empty texts. Where rounding carries a result above 1,
it is 1.

ROUGE-1, ROUGE-2 and ROUGE-L are precision, recall, and their harmonic mean.

C.-Y. Lin, "ROUGE: a package for automatic evaluation of summaries", 2004.

    precision = shared / of the hypothesis,   recall = shared / of the reference

where shared are the n-grams that both have, as multisets, or for ROUGE-L the tokens of their
longest common subsequence. Of many references the one with the largest harmonic mean counts, the
first of several. A text without n-grams (without tokens, for ROUGE-L) scores 0. Tokens are stems
(`tokens.STEMS`); operations and their order are rouge_score's, so that results agree to the last
bit. The work of ROUGE-L is m * n / 30 digit operations in place of m * n steps: a long row is cut
into blocks, and each hands the carries of its additions on to the next (Crochemore et al. 2001), so
that neither memory nor a step grows with the texts.

Token F1 and exact match are as SQuAD measures them.

P. Rajpurkar et al., "SQuAD: 100,000+ questions for machine comprehension of text", EMNLP 2016, and
for answers without tokens "Know what you don't know", ACL 2018: if either side has none, both
metrics are 1 when the other has none either, else 0. Tokens are `tokens.ANSWER`. The best reference
counts; for precision and recall, the one with the largest F1, the first of several.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np

from judged_server.domain import IntArray
from judged_server.metrics.text.tokens import Tokens
from judged_server.scheduling.checkpoint import checkpoint


@dataclass(frozen=True, slots=True)
class Score:
    """The value of one item in [0, 1], and the precision and recall behind it where there are."""

    value: float
    precision: float | None = None
    recall: float | None = None


def best(scores: Iterable[Score]) -> Score:
    """Return the score with the largest value, the first of them if several have it."""
    return max(scores, key=lambda score: score.value)


def harmonic(precision: float, recall: float) -> Score:
    """Return the harmonic mean of precision and recall; 0 when both are 0."""
    total = precision + recall
    value = 2 * precision * recall / total if total > 0 else 0.0
    return Score(value, precision, recall)


LONG_TOKENS = 4096
"""Items with more tokens than this are counted by sorting the hashes of their n-grams."""
_CHUNK = 1 << 13


def overlaps(hypothesis: Tokens, references: Sequence[Tokens], order: int) -> list[int]:
    """Return for each reference the size of its intersection with the hypothesis, as multisets."""
    if _is_long(hypothesis, references):
        ours = _hashed(hypothesis, order)
        return [_shared_hashes(ours, [reference], order) for reference in references]
    return [_shared(hypothesis, [reference], order) for reference in references]


def clipped_matches(hypothesis: Tokens, references: Sequence[Tokens], max_order: int) -> list[int]:
    """Return for each order from 1 the n-grams of the hypothesis that are in the references.

    Each counts at most as often as in the reference that has it most often.
    """
    matches = [0] * max_order
    is_long = _is_long(hypothesis, references)
    for order in range(1, max_order + 1):
        matches[order - 1] = (
            _shared_hashes(_hashed(hypothesis, order), references, order)
            if is_long
            else _shared(hypothesis, references, order)
        )
        if not matches[order - 1]:
            break  # a longer n-gram has this one in it
    return matches


def _is_long(hypothesis: Tokens, references: Sequence[Tokens]) -> bool:
    return len(hypothesis) + sum(map(len, references)) + len(references) > LONG_TOKENS


def _ngrams(tokens: Tokens, order: int) -> Iterable[Hashable]:
    if order == 1:
        return tokens
    return zip(*[tokens[start:] for start in range(order)], strict=False)


def _shared(hypothesis: Tokens, references: Sequence[Tokens], order: int) -> int:
    """Return how many n-grams are in the references, each at most as often as one of them has it.

    Counting costs several times what sets cost, and matters only for what occurs repeatedly.
    """
    distinct = set(_ngrams(hypothesis, order))
    theirs = [_ngrams(reference, order) for reference in references]
    common = distinct.intersection(chain.from_iterable(theirs))
    if len(distinct) > len(hypothesis) - order or not common:  # none occurs twice
        return len(common)
    counts = Counter(_ngrams(hypothesis, order))
    repeated = {ngram: n for ngram, n in counts.items() if n > 1 and ngram in common}
    if not repeated:
        return len(common)
    each = [Counter(_ngrams(reference, order)) for reference in references]
    clipped = [min(n, max([count[ngram] for count in each])) for ngram, n in repeated.items()]
    return len(common) - len(repeated) + sum(clipped)


def _hashed(tokens: Tokens, order: int) -> tuple[IntArray, IntArray]:
    """Return the hashes of n-grams, ascending, and how often each occurs: 16 bytes a token.

    Of a million n-grams two share a hash by a chance of one in 30 million.
    """
    ngrams = iter(_ngrams(tokens, order))
    parts = [np.zeros(0, np.int64)]
    while len(part := np.fromiter(map(hash, islice(ngrams, _CHUNK)), np.int64)):
        parts.append(part)
        checkpoint()
    hashes, counts = np.unique(np.concatenate(parts), return_counts=True)
    return hashes, counts


def _shared_hashes(
    ours: tuple[IntArray, IntArray], references: Sequence[Tokens], order: int
) -> int:
    """Return the same as `_shared`, of the hashed n-grams of a hypothesis."""
    hashes, counts = ours
    most = np.zeros_like(counts)
    for reference in references if len(hashes) else ():
        found, times = _hashed(reference, order)
        at = np.minimum(np.searchsorted(hashes, found), len(hashes) - 1)
        known = hashes[at] == found
        most[at[known]] = np.maximum(most[at[known]], times[known])
        checkpoint()
    return int(np.minimum(counts, most).sum())


MAX_ORDER = 4
_ROUNDING = 1e-9


def bleu(hypothesis: Tokens, references: Sequence[Tokens]) -> Score:
    """Return the BLEU of 13a tokens against all references together."""
    matches = clipped_matches(hypothesis, references, MAX_ORDER)
    if not matches[0]:
        return Score(0.0)
    length = len(hypothesis)
    logs: list[float] = []
    smoothing = 1.0
    for order, matched in enumerate(matches[:length], 1):
        ngrams = length - order + 1
        if matched:
            precision = 100.0 * matched / ngrams
        else:
            smoothing *= 2
            precision = 100.0 / (smoothing * ngrams)
        logs.append(math.log(precision))
    nearest = min(map(len, references), key=lambda other: (abs(length - other), other))
    brevity = math.exp(1 - nearest / length) if length < nearest else 1.0
    value = brevity * math.exp(sum(logs) / len(logs)) / 100
    return Score(1.0 if 1.0 < value < 1.0 + _ROUNDING else value)


BLOCK_BITS = 16_384
_STEP = 512


def rouge_1(hypothesis: Tokens, references: Sequence[Tokens]) -> Score:
    """Return ROUGE-1 of stems."""
    return _rouge_n(hypothesis, references, 1)


def rouge_2(hypothesis: Tokens, references: Sequence[Tokens]) -> Score:
    """Return ROUGE-2 of stems."""
    return _rouge_n(hypothesis, references, 2)


def rouge_l(hypothesis: Tokens, references: Sequence[Tokens]) -> Score:
    """Return ROUGE-L of stems."""
    scores = []
    for reference in references:
        if hypothesis and reference:
            length = lcs_length(hypothesis, reference)
            scores.append(harmonic(length / len(hypothesis), length / len(reference)))
        else:
            scores.append(Score(0.0, 0.0, 0.0))
    return best(scores)


def _rouge_n(hypothesis: Tokens, references: Sequence[Tokens], order: int) -> Score:
    shared = overlaps(hypothesis, references, order)
    ours = max(len(hypothesis) - order + 1, 1)
    return best(
        harmonic(both / ours, both / max(len(reference) - order + 1, 1))
        for both, reference in zip(shared, references, strict=True)
    )


def lcs_length(first: Sequence[str], second: Sequence[str]) -> int:
    """Return how many tokens the longest common subsequence has."""
    # Tokens that the other side lacks are in no common subsequence.
    shared = set(first).intersection(second)
    column, row = sorted(([t for t in text if t in shared] for text in (first, second)), key=len)
    if row == column:
        return len(row)
    carries = bytearray(len(column))  # into the block at hand, by token of the column
    length = 0
    for start in range(0, len(row), BLOCK_BITS):
        block = row[start : start + BLOCK_BITS]
        masks: dict[str, int] = {}
        for place, token in enumerate(block):
            masks[token] = masks.get(token, 0) | (1 << place)
        width = len(block)
        full = zeros = (1 << width) - 1
        checkpoint()
        for begin in range(0, len(column), _STEP):
            for index in range(begin, min(begin + _STEP, len(column))):
                mask = masks.get(column[index], 0)
                carry = carries[index]
                if mask or carry:
                    met = zeros & mask
                    total = zeros + met + carry
                    carries[index] = total >> width
                    zeros = (total & full) | (zeros - met)
            checkpoint()
        length += width - zeros.bit_count()
    return length


def token_f1(hypothesis: Tokens, references: Sequence[Tokens]) -> Score:
    """Return the harmonic mean of the shares of tokens that both sides have."""
    shared = overlaps(hypothesis, references, 1)
    scores = []
    for both, reference in zip(shared, references, strict=True):
        if hypothesis and reference:
            scores.append(harmonic(both / len(hypothesis), both / len(reference)))
        else:
            equal = float(hypothesis == reference)
            scores.append(Score(equal, equal, equal))
    return best(scores)


def exact_match(hypothesis: Tokens, references: Sequence[Tokens]) -> Score:
    """Return 1 if the tokens are those of any reference, in order; else 0."""
    return Score(float(any(hypothesis == reference for reference in references)))
