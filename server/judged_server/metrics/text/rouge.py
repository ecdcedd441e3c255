"""ROUGE-1, ROUGE-2 and ROUGE-L of one item: precision, recall, and their harmonic mean.

C.-Y. Lin, "ROUGE: a package for automatic evaluation of summaries", 2004.

    precision = shared / of the hypothesis,   recall = shared / of the reference

where shared are the n-grams that both have, as multisets, or for ROUGE-L the tokens of their
longest common subsequence. Of many references the one with the largest harmonic mean counts, the
first of several. A text without n-grams (without tokens, for ROUGE-L) scores 0. Tokens are stems
(`forms.STEMS`); operations and their order are rouge_score's, so that results agree to the last
bit.
"""

from __future__ import annotations

from collections.abc import Sequence

from judged_server.metrics.text.declaration import Score, best, harmonic
from judged_server.metrics.text.lcs import lcs_length
from judged_server.metrics.text.ngrams import overlaps
from judged_server.metrics.text.tokens import Tokens


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
