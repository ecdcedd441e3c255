"""Measures the coverage of corrected intervals when labels are drawn where a judge is unsure.

2,000 items, 1 to 20 per query, are judged; their human labels are known. The judge's scores follow
the labels with a bias: too lenient, to a degree that varies by query. Labels are drawn as by
`judged label`, by uncertainty with a quarter at random; and uniformly for comparison. Reported for
the share of relevant items (prevalence) and the judge's agreement with people: the coverage of
95 % intervals, and their median width over that of uniformly drawn labels alone.

coverage_WHAT_N, width_WHAT_N        N labels drawn by uncertainty; WHAT is prevalence or agreement
even_coverage_.., even_width_..      N labels drawn uniformly, corrected too

    python -m benchmarks.coverage.labels [--draws 1000]
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict

import numpy as np
from judged.labelling import drawing_order, inclusion_probabilities
from judged.values.choices import CorrectedEstimate, Estimate
from judged_server.domain import FloatArray, IntArray
from judged_server.statistics.prediction_powered import correct_mean

from benchmarks.harness import closing_line

SEED = 29
ITEMS = 2_000
LABELS = (50, 100, 150, 200, 250)
SHOWN = (50, 100, 200)


def population(rng: np.random.Generator) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return the judge's score, the human label and the query of each of ITEMS items.

    Queries differ in their share of relevant items, which correlates with their size, and in the
    judge's leniency. The score is the judge's probability.
    """
    sizes: list[int] = []
    shares: list[float] = []
    while sum(sizes) < ITEMS:
        share = rng.beta(0.8, 1.6)
        sizes.append(int(rng.integers(1, 11) if rng.random() < share else rng.integers(11, 21)))
        shares.append(share)
    of = np.repeat(np.arange(len(sizes)), sizes)[:ITEMS]
    believed = np.clip(rng.beta(0.5, 0.5, ITEMS) * 0.5 + np.array(shares)[of] * 0.5, 0.01, 0.99)
    sharp = 1 / (1 + ((1 - believed) / believed) ** 2.5)
    human = rng.random(ITEMS) < sharp
    lenient = rng.normal(0.4, 0.5, len(sizes))[of]
    scores = 1 / (1 + np.exp(-(np.log(sharp / (1 - sharp)) + lenient)))
    return scores, human.astype(np.float64), of


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1_000)
    draws = parser.parse_args().draws
    rng = np.random.Generator(np.random.PCG64(SEED))
    big = [population(np.random.Generator(np.random.PCG64(SEED + 2 + i))) for i in range(300)]
    agreed = [(scores >= 0.5) == (human > 0) for scores, human, _ in big]
    truths = {
        "prevalence": float(np.concatenate([human for _, human, _ in big]).mean()),
        "agreement": float(np.concatenate(agreed).mean()),
    }
    hits: dict[str, list[bool]] = defaultdict(list)
    widths: dict[str, list[float]] = defaultdict(list)
    names = [str(i) for i in range(ITEMS)]
    for number in range(draws):
        scores, human, of = population(rng)
        verdicts = (scores >= 0.5).astype(np.float64)
        values = {
            "prevalence": (verdicts, human),
            "agreement": (np.maximum(scores, 1 - scores), (verdicts == human).astype(np.float64)),
        }
        uncertainty = np.sqrt(scores * (1 - scores)).tolist()
        for design, share in (("", 0.25), ("even_", 1.0)):
            order = drawing_order(names, uncertainty, share, seed=number)
            for n in LABELS:
                chances = inclusion_probabilities(uncertainty, n, share)
                places = np.sort(np.array(order[:n]))
                for what, (machine, people) in values.items():
                    found = correct_mean(
                        machine,
                        people[places],
                        places,
                        clusters=of,
                        inclusion=np.array(chances)[places],
                    )
                    name = f"{what}_{n}"
                    hits[design + name].append(covers(found, truths[what]))
                    widths[design + name].append(width(found))
                    if design == "even_":
                        widths[f"labels_only_{name}"].append(width(found, alone=True))
    samples: dict[str, list[float]] = {}
    print("labels  mean        coverage  width  evenly: coverage  width")
    for what in truths:
        for n in SHOWN:
            name = f"{what}_{n}"
            alone = statistics.median(widths[f"labels_only_{name}"])
            row = []
            for design in ("", "even_"):
                samples[f"{design}coverage_{name}"] = [statistics.mean(hits[design + name])]
                samples[f"{design}width_{name}"] = [
                    statistics.median(widths[design + name]) / alone
                ]
                row += [samples[f"{design}{kind}_{name}"][0] for kind in ("coverage", "width")]
            print(f"{n:6} {what:10} {row[0]:9.3f} {row[1]:6.3f} {row[2]:17.3f} {row[3]:6.3f}")
    print(closing_line("coverage_labels", samples, facts={"truths": truths}))


def covers(found: CorrectedEstimate, truth: float) -> bool:
    """Say whether the corrected interval contains the truth."""
    interval = (found.corrected or Estimate()).interval
    return interval is not None and interval.lower <= truth <= interval.upper


def width(found: CorrectedEstimate, *, alone: bool = False) -> float:
    """Return the width of the corrected interval; with `alone`, of the labels-only one."""
    interval = ((found.labels_only if alone else found.corrected) or Estimate()).interval
    return 1.0 if interval is None else interval.upper - interval.lower


if __name__ == "__main__":
    main()
