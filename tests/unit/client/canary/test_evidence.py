"""The evidence is an e-process: whatever the shares are, it is at most 1 on average."""

from __future__ import annotations

import itertools
import math

import pytest
from judged.canary import FlipEvidence

ITEMS = 2


def expected_evidence(shares: tuple[float, ...], rounds: int, *, stop_at: float | None) -> float:
    """Return E's expectation over all outcomes of a recorded round and of rounds of checks.

    With `stop_at` the rounds end as soon as E is that high: the best that anyone can pick a time.
    """
    total = 0.0
    for tosses in itertools.product((0, 1), repeat=ITEMS * (rounds + 1)):
        chance = math.prod(
            shares[i % ITEMS] if toss else 1 - shares[i % ITEMS] for i, toss in enumerate(tosses)
        )
        counts = [sum(tosses[i : i + ITEMS]) for i in range(0, len(tosses), ITEMS)]
        evidence = FlipEvidence(counts[0], ITEMS)
        for flips in counts[1:]:
            evidence.add(flips, ITEMS)
            if stop_at is not None and evidence.log_value >= math.log(stop_at):
                break
        total += chance * math.exp(evidence.log_value)
    return total


@pytest.mark.parametrize("shares", [(0.02, 0.02), (0.0, 0.3), (0.1, 0.9), (0.5, 0.5)])
@pytest.mark.parametrize("stop_at", [None, 0.5, 1.5])
def test_it_is_at_most_one_on_average_whatever_the_items_shares(shares, stop_at):
    assert expected_evidence(shares, 3, stop_at=stop_at) <= 1 + 1e-12


def test_more_flips_than_recorded_make_it_grow_and_as_many_do_not():
    changed, unchanged = FlipEvidence(50, 1000), FlipEvidence(50, 1000)
    for _ in range(20):
        changed.add(10, 50)
        unchanged.add(2, 50)
    assert changed.log_value > math.log(20)
    assert unchanged.log_value < 0


@pytest.mark.parametrize("share", [0.05, 0.2, 0.4])
def test_it_grows_where_the_share_grows_by_more_than_the_least_factor(share: float):
    # log E of the smallest factor tested for, 2, grows by S (r log 2 - 1) with r S flips, not S.
    least = 1 / math.log(2)

    def after(factor: float) -> float:
        evidence = FlipEvidence(round(100_000 * share), 100_000)
        for _ in range(30):
            evidence.add(round(1000 * share * factor), 1000)
        return evidence.log_value

    assert after(0.95 * least) < 0
    assert after(1.1 * least) > math.log(20)


def test_a_change_after_many_quiet_rounds_is_found():
    evidence = FlipEvidence(25, 1250)
    for _ in range(200):
        evidence.add(1, 50)
    quiet = evidence.log_value
    for _ in range(15):
        evidence.add(5, 50)
    assert quiet < 0 < math.log(20) < evidence.log_value


def test_one_item_that_flips_for_good_is_found_where_the_judge_never_did():
    evidence = FlipEvidence(0, 1250)
    for _ in range(5):
        evidence.add(1, 50)
    assert evidence.log_value > math.log(20)
