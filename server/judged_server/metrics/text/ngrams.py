"""How many n-grams a hypothesis shares with references."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain

from judged_server.metrics.text.long_ngrams import LongHypothesis
from judged_server.metrics.text.tokens import Tokens

LONG_TOKENS = 4096
"""Items with more tokens than this are counted by sorting."""


def overlaps(hypothesis: Tokens, references: Sequence[Tokens], order: int) -> list[int]:
    """Return for each reference the size of its intersection with the hypothesis, as multisets."""
    if _size(hypothesis, references) > LONG_TOKENS:
        return LongHypothesis(hypothesis, order).overlaps(references)
    return [_shared(hypothesis, [reference], order) for reference in references]


def clipped_matches(hypothesis: Tokens, references: Sequence[Tokens], max_order: int) -> list[int]:
    """Return for each order from 1 the n-grams of the hypothesis that are in the references.

    Each counts at most as often as in the reference that has it most often.
    """
    if _size(hypothesis, references) > LONG_TOKENS:
        return LongHypothesis(hypothesis, max_order).clipped_matches(references)
    matches = [0] * max_order
    for order in range(1, max_order + 1):
        matches[order - 1] = _shared(hypothesis, references, order)
        if not matches[order - 1]:
            break  # a longer n-gram has this one in it
    return matches


def _size(hypothesis: Tokens, references: Sequence[Tokens]) -> int:
    return len(hypothesis) + sum(map(len, references)) + len(references)


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
