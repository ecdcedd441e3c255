"""How strongly flips speak against a judge that is unchanged, however often one looks.

A flip is a verdict other than the recorded one. Items are asked in rounds, each item once a round.
The hypothesis is that the share q of flips to expect in a round, over all items, is the same in
every round ever since the recording. Items may differ in how often they flip, and q is unknown.

The evidence is a weighted mean over (k, r, h): from round k on the share is r times what it was,
and it shows within h rounds. With A asks and F flips before round k, and S flips in the rounds from
k on, at most H = h rounds of asks, its terms are

    E = r**S / c**(F + S),  where c = (A + r * H) / (A + H).

That is what r**S is, relative to its mean over all orders of the flips: c is the mean of the factor
over the asks. The unknown q is not in it, so nothing is paid for not knowing it.

E is below a test supermartingale. Of a toss with probability p the mean of c**-flip is
1 - (1 - 1/c) * p, which is at most exp(-(1 - 1/c) * p), and that of (r/c)**flip is at most
exp((r/c - 1) * p). So E * exp(q * ((1 - 1/c) * A - (r/c - 1) * B)) after B asks of the window is a
supermartingale that begins at 1, however q is spread over the items. Its exponent is
q * A * (r - 1) * (H - B) / (A + r * H), which is not negative as long as B is at most H, and then
the window is closed. The mean of such terms is below the mean of the supermartingales, so it is an
e-process: the probability that it ever reaches 1 / alpha is at most alpha (Ville 1939). A round may
be added because of what the ones before have shown.

At B = H, E is the E-variable of Turner, Ly, Grünwald (2024), "Generic E-variables for exact
sequential k-sample tests that allow for optional stopping", arXiv 2106.02693, for rare flips. The
weights on k are those of a mixture of e-detectors: Shin, Ramdas, Rinaldo (2024), arXiv 2203.03532.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_CHANGES = ((2.0, 15, 0.2), (2.0, 40, 0.4), (5.0, 10, 0.2), (50.0, 4, 0.2))
"""By what the share grows, within how many rounds it shows, and the weight of that."""
LEAST_FACTOR = 1 / math.log(2)
"""By what the share must grow at least for evidence of a change to grow, whatever the share was.

In h rounds of n asks r S flips come instead of S, and log E of the smallest factor, 2, grows by
r S log 2 - S: for many asks before, (F + r S) log c tends to S."""
_HORIZON = 1000  # rounds over which half of the weight on the start of a change is spread evenly


@dataclass(slots=True)
class _Window:
    """A change from some round on: log E with its weight, what a flip adds, and the asks left."""

    log_value: float
    gain: float
    left: int


class FlipEvidence:
    """Evidence that the share of flips has grown since a recording, round by round."""

    def __init__(self, flips: int, asks: int) -> None:
        """Begin with the flips among the asks of the recording that did not choose its verdicts."""
        self._flips, self._asks = flips, asks
        self._rounds = 0
        self._open: list[_Window] = []
        self._closed = -math.inf  # the logarithm of the sum of E over the windows that are closed
        self._doubled = 0.0

    @property
    def share(self) -> float:
        """The share of flips among all asks so far; 0.0 without any."""
        return self._flips / self._asks if self._asks else 0.0

    @property
    def log_value(self) -> float:
        """The natural logarithm of the evidence; 0.0 before the first round."""
        if not self._rounds:
            return 0.0
        return _log_sum([self._closed, *(window.log_value for window in self._open)])

    @property
    def doubled(self) -> float:
        """The highest log likelihood ratio of a share that doubled in a round so far; 0.0 at least.

        The cumulative sum of Page (1954), "Continuous inspection schemes", Biometrika 41, with the
        share of all asks before each round. It has no error rate: it says where to look again.
        """
        return self._doubled

    def add(self, flips: int, asks: int) -> None:
        """Take in a round: the flips among its asks."""
        if not asks:
            return
        self._doubled = max(0.0, self._doubled + flips * math.log(2) - self.share * asks)
        self._rounds += 1
        starts = _log_weight(self._rounds)
        for factor, rounds, weight in _CHANGES:
            until = rounds * asks
            mean = (self._asks + factor * until) / (self._asks + until)
            value = math.log(weight) + starts - self._flips * math.log(mean)
            self._open.append(_Window(value, math.log(factor / mean), until))
        still_open = []
        for window in self._open:
            if window.left < asks:
                self._closed = _log_sum([self._closed, window.log_value])
                continue
            window.log_value += flips * window.gain
            window.left -= asks
            still_open.append(window)
        self._open = still_open
        self._flips += flips
        self._asks += asks


def _log_weight(number: int) -> float:
    """Return the weight on a change from this round on; over all rounds they sum to 1."""
    early = 0.4 if number == 1 else 0.1 / (number * (number - 1))
    return math.log(early + (0.5 / _HORIZON if number <= _HORIZON else 0.0))


def _log_sum(values: list[float]) -> float:
    top = max(values)
    return top + math.log(math.fsum(math.exp(value - top) for value in values))
