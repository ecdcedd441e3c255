"""BLEU of one sentence, the number that sacrebleu's sentence_bleu prints, over 100.

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
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from judged_server.metrics.text.declaration import Score
from judged_server.metrics.text.ngrams import clipped_matches
from judged_server.metrics.text.tokens import Tokens

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
