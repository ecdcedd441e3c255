"""Token F1 and exact match of one answer, as SQuAD measures them.

P. Rajpurkar et al., "SQuAD: 100,000+ questions for machine comprehension of text", EMNLP 2016, and
for answers without tokens "Know what you don't know", ACL 2018: if either side has none, both
metrics are 1 when the other has none either, else 0. Tokens are `forms.ANSWER`. The best reference
counts; for precision and recall, the one with the largest F1, the first of several.
"""

from __future__ import annotations

from collections.abc import Sequence

from judged_server.metrics.text.declaration import Score, best, harmonic
from judged_server.metrics.text.ngrams import overlaps
from judged_server.metrics.text.tokens import Tokens


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
