"""ROUGE-1, ROUGE-2 and ROUGE-L of one item: precision, recall, and their harmonic mean.

C.-Y. Lin, "ROUGE: a package for automatic evaluation of summaries", 2004.

    precision = shared / of the hypothesis,   recall = shared / of the reference

where shared are the n-grams that both have, as multisets, or for ROUGE-L the tokens of their
longest common subsequence. Of many references the one with the largest harmonic mean counts, the
first of several. A text without n-grams (without tokens, for ROUGE-L) scores 0. Tokens are stems
(`forms.STEMS`); operations and their order are rouge_score's, so that results agree to the last
bit. The work of ROUGE-L is m * n / 30 digit operations in place of m * n steps: a long row is cut
into blocks, and each hands the carries of its additions on to the next (Crochemore et al. 2001), so
that neither memory nor a step grows with the texts.
"""

from __future__ import annotations

from collections.abc import Sequence

from judged_server.metrics.text.declaration import Score, best, harmonic
from judged_server.metrics.text.ngrams import overlaps
from judged_server.metrics.text.tokens import Tokens
from judged_server.scheduling.checkpoint import checkpoint

BLOCK_BITS = 16_384
_CHUNK = 512


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
        for begin in range(0, len(column), _CHUNK):
            for index in range(begin, min(begin + _CHUNK, len(column))):
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
