"""Measures how often a canary raises a false alarm in a year, and how soon it finds a change.

50 items are recorded and checked once a day with the defaults of `judged canary`: 36 asks per item
to record, up to 5 rounds a day. The judge is simulated: on two fifths of the items each ask flips,
independently, with a probability of 2.5 * NOISE. A change of the judge doubles the probability of
each item. The recorded verdict is the majority of the first asks, as in the command, and is
sometimes the wrong one.

false_alarms_NOISE       share of the years of an unchanged judge with an alarm on any day
found_early_NOISE        share of judges changed on the day after the recording and found within
                         10 days; `late`: changed after 100 days
days_early_NOISE, _late  median day on which it is found; not within 60 days counts as 60
rounds_NOISE             mean number of rounds a day of an unchanged judge
oracle_NOISE             share of judges changed on the day after the recording that a likelihood
                         ratio finds within 10 days at the same bound, 20, given the flip rates of
                         each item before and after, and the day of the change: an upper limit
fixed_NOISE              share that Fisher's exact test at 5 % finds in a single look on the tenth
                         day, given the same information as the canary
found_one_item           share of noise-free judges, with one item flipped permanently from day 100
                         on, that are found within 10 days

    python -m benchmarks.canary
"""

from __future__ import annotations

import argparse
import math
import statistics
from dataclasses import dataclass

import numpy as np
from judged.canary import ASKS, CHOOSING, ROUNDS, FlipEvidence
from judged_server.domain import FloatArray
from scipy.stats import fisher_exact

from benchmarks.harness import closing_line

ITEMS = 50
NOISES = (0.02, 0.05, 0.1)
YEAR = 365
LATE = 100
IN_TIME = 10
LATEST = 60
ALARM = math.log(20)
SEED = 11


@dataclass(frozen=True, slots=True)
class Course:
    """The day of the alarm, counted from 0, and the mean rounds a day until then."""

    alarm: int | None
    rounds: float


def course(
    rng: np.random.Generator, before: FloatArray, after: FloatArray, change: int, days: int
) -> Course:
    """Simulate a canary: items flip with probability `before`, from day `change` on `after`."""
    wrong = rng.binomial(CHOOSING, before) > CHOOSING / 2  # the rarer verdict was recorded
    before, after = np.where(wrong, 1 - before, before), np.where(wrong, 1 - after, after)
    evidence = FlipEvidence(int(rng.binomial(ASKS - CHOOSING, before).sum()), recorded())
    asked = 0
    for day in range(days):
        shares = before if day < change else after
        usual, flips = evidence.share, 0
        for number in range(1, ROUNDS + 1):
            found = int(np.count_nonzero(rng.random(ITEMS) < shares))
            evidence.add(found, ITEMS)
            flips += found
            asked += 1
            if evidence.log_value >= ALARM:
                return Course(day, asked / (day + 1))
            if flips <= usual * number * ITEMS and not evidence.doubled:
                break
    return Course(None, asked / days)


def limits(rng: np.random.Generator, before: FloatArray, after: FloatArray) -> tuple[bool, bool]:
    """Say whether the oracle and the fixed test find a change within IN_TIME days.

    They use all rounds of each day; `course` may stop earlier.
    """
    old = int(rng.binomial(ASKS - CHOOSING, before).sum())
    noisy = before > 0
    gain = np.log(after[noisy] / before[noisy])
    loss = np.log1p(-after[noisy]) - np.log1p(-before[noisy])
    ratio = flips = asks = 0.0
    known = False
    for _ in range(IN_TIME):
        for _ in range(ROUNDS):
            flipped = rng.random(ITEMS) < after
            ratio += float(np.where(flipped[noisy], gain, loss).sum())
            known = known or ratio >= ALARM
            flips, asks = flips + int(flipped.sum()), asks + ITEMS
    table = [[flips, asks - flips], [old, recorded() - old]]
    return known, bool(fisher_exact(table, alternative="greater").pvalue <= 0.05)


def recorded() -> int:
    """Return the number of recorded asks that measure the noise."""
    return (ASKS - CHOOSING) * ITEMS


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--years", type=int, default=200, help="of each setting")
    years = parser.parse_args().years
    rng = np.random.Generator(np.random.PCG64(SEED))
    samples: dict[str, list[float]] = {}
    print("noise   change  alarms  found in 10 days  median day  rounds a day")
    for noise in NOISES:
        before = np.where(np.arange(ITEMS) % 5 < 2, 2.5 * noise, 0.0)
        quiet = [course(rng, before, before, YEAR, YEAR) for _ in range(years)]
        alarms = sum(each.alarm is not None for each in quiet) / years
        rounds = statistics.mean(each.rounds for each in quiet)
        samples[f"false_alarms_{noise}"] = [alarms]
        samples[f"rounds_{noise}"] = [rounds]
        print(f"{noise:5.2f}   never   {alarms:6.3f}  {'-':>16}  {'-':>10}  {rounds:12.2f}")
        for name, change in (("early", 0), ("late", LATE)):
            found = [
                course(rng, before, np.minimum(2 * before, 1.0), change, change + LATEST)
                for _ in range(years)
            ]
            real = [each for each in found if each.alarm is None or each.alarm >= change]
            took = [LATEST if each.alarm is None else each.alarm - change + 1 for each in real]
            share = sum(days <= IN_TIME for days in took) / len(real)
            samples[f"found_{name}_{noise}"] = [share]
            samples[f"days_{name}_{noise}"] = [statistics.median(took)]
            print(
                f"{noise:5.2f}   {name:6}  {'-':>6}  {share:16.3f}  {statistics.median(took):10.0f}"
            )
        detected = [limits(rng, before, 2 * before) for _ in range(years)]
        samples[f"oracle_{noise}"] = [sum(known for known, _ in detected) / years]
        samples[f"fixed_{noise}"] = [sum(late for _, late in detected) / years]
        print(
            f"{noise:5.2f}   oracle: {samples[f'oracle_{noise}'][0]:.2f}; "
            f"one look on day {IN_TIME}: {samples[f'fixed_{noise}'][0]:.2f}"
        )
    nothing = np.zeros(ITEMS)
    one = np.where(np.arange(ITEMS) == 0, 1.0, 0.0)
    alone = [course(rng, nothing, one, LATE, LATE + IN_TIME) for _ in range(20)]
    samples["found_one_item"] = [sum(each.alarm is not None for each in alone) / len(alone)]
    print(f"one item of a judge without noise: found {samples['found_one_item'][0]:.2f}")
    print(closing_line("canary", samples))


if __name__ == "__main__":
    main()
