"""How many n-grams a hypothesis shares with references."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain, islice

import numpy as np

from judged_server.domain import IntArray
from judged_server.metrics.text.tokens import Tokens
from judged_server.scheduling.checkpoint import checkpoint

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
