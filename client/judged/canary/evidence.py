"""How strongly flips speak against a judge that is unchanged, however often one looks.

A flip is a verdict other than the recorded one. Items are asked in rounds, each item once a round.
The hypothesis is that the share of flips to expect in a round, over all items, is the same in every
round ever since the recording. Items may differ in how often they flip, and the share is unknown.

The evidence after a round is

    E = mean over (p, r, k) of L(p before round k, r * p from k on) / max over p of L(p throughout)

where L is the likelihood of all flips as coin tosses, p is a share on a grid, r a factor by which
it grows, and k the round from which on it has grown. For the true share p in place of the maximum,
each term is a likelihood ratio, linear in every single toss. Over the items of a round its
expectation is a product of 1 + c * (p_i - p), and with p the mean of the p_i that is at most 1,
since the geometric mean is below the arithmetic one. So that ratio is a test supermartingale, and
E, which is below it, is an e-process: whatever p and the p_i are, the probability that E ever
reaches 1 / alpha is at most alpha (Ville 1939). A round may be added because of what the ones
before have shown.

Wasserman, Ramdas, Balakrishnan (2020), "Universal inference", PNAS 117(29), section 8 on sequences;
Ramdas, Grünwald, Vovk, Shafer (2023), "Game-theoretic statistics and safe anytime-valid inference",
Statistical Science 38(4). The weights on k are those of a mixture of e-detectors: Shin, Ramdas,
Rinaldo (2024), arXiv 2203.03532.
"""

from __future__ import annotations

import math

from judged.errors import InvalidArgument

_RATES = tuple(1e-4 * 5000 ** (i / 47) for i in range(48))  # from 1 in 10,000 to 1 in 2
_FACTORS = ((2.0, 0.5), (5.0, 0.25), (50.0, 0.25))  # by what the share grows, and its weight
_HIGHEST = 0.95
_HORIZON = 1000  # rounds over which half of the weight on the start of a change is spread evenly


class FlipEvidence:
    """Evidence that the share of flips has grown since a recording, round by round."""

    def __init__(self, flips: int, asks: int) -> None:
        """Begin with the flips among the asks of the recording that did not choose its verdicts."""
        _check(flips, asks)
        self._flips, self._asks = flips, asks
        self._rounds = 0
        pairs = [(p, min(r * p, _HIGHEST), w) for p in _RATES for r, w in _FACTORS]
        self._before = [(math.log(p), math.log1p(-p)) for p, _, _ in pairs]
        self._after = [(math.log(q), math.log1p(-q)) for _, q, _ in pairs]
        self._prior = [math.log(weight / len(_RATES)) for _, _, weight in pairs]
        self._changed = [-math.inf] * len(pairs)

    @property
    def share(self) -> float:
        """The share of flips among all asks so far; 0.0 without any."""
        return self._flips / self._asks if self._asks else 0.0

    @property
    def log_value(self) -> float:
        """The natural logarithm of the evidence; 0.0 before the first round."""
        if not self._rounds:
            return 0.0
        terms = [p + c for p, c in zip(self._prior, self._changed, strict=True)]
        top = max(terms)
        mixed = top + math.log(math.fsum(math.exp(term - top) for term in terms))
        return mixed - _highest_likelihood(self._flips, self._asks)

    def add(self, flips: int, asks: int) -> None:
        """Take in a round. Raises InvalidArgument for more flips than asks."""
        _check(flips, asks)
        self._rounds += 1
        starts = _log_weight(self._rounds)
        held, old_flips = self._asks - self._flips, self._flips
        kept = asks - flips
        for i, (yes, no) in enumerate(self._after):
            log_p, log_not = self._before[i]
            begun = old_flips * log_p + held * log_not + starts
            so_far = self._changed[i]
            top, other = (begun, so_far) if begun > so_far else (so_far, begun)
            self._changed[i] = top + math.log1p(math.exp(other - top)) + flips * yes + kept * no
        self._flips += flips
        self._asks += asks


def _check(flips: int, asks: int) -> None:
    if not 0 <= flips <= asks:
        raise InvalidArgument.of_field(
            "flips", f"{flips} of {asks} asks; from 0 to all are possible"
        )


def _log_weight(number: int) -> float:
    """Return the weight on a change from this round on; over all rounds they sum to at most 1."""
    evenly = 1 / _HORIZON if number <= _HORIZON else 0.0
    return math.log(0.5 / (number * (number + 1)) + 0.5 * evenly)


def _highest_likelihood(flips: int, asks: int) -> float:
    if flips in {0, asks}:
        return 0.0
    share = flips / asks
    return flips * math.log(share) + (asks - flips) * math.log1p(-share)
