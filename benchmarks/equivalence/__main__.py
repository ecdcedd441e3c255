"""Measures the accuracy and the speed of the judge `answer_equivalence`.

Every item of the development data (docs/benchmarks.md) is judged by a model trained without its
question, in ten-fold cross-validation; the folds are drawn five times and the figures averaged. The
product's model is trained on all items, and applied to new questions. The folds are seeded, so
quality figures depend on the data alone.

accuracy_FILE, kappa_FILE    against the labels of people, at the default threshold
ece_FILE                     expected calibration error of the probability, ten bins
                             (calibrated on the other folds)
ece_200_FILE                 the same, calibrated on some 200 labels of whole questions of the file,
                             measured on its other items
cascade_asked_20, _36        share of NQ301's items that a cascade asks GPT-4 about; its bounds are
                             set on the other folds to escalate 2 % less than 20 % or 36 %
cascade_accuracy_20, _36     its accuracy, with GPT-4's published verdicts on those items
gpt4_accuracy                accuracy of GPT-4 on all items
throughput                   contexts a CPU second over those of `token_overlap`, profile `unicode`,
                             same items, in process, interleaved: the median over the three files
throughput_FILE              the same for one file

    python -m benchmarks.equivalence
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np
from judged_server.domain import FloatArray, Group, IntArray, JudgeSpec
from judged_server.judges.base import PureJudge
from judged_server.judges.equivalence.judge import EquivalenceKind
from judged_server.judges.lexical import TokenOverlapKind
from judged_server.statistics.calibration.reliability import Platt, fit, least_certain, sigmoid

from benchmarks.equivalence.data import FILES, Items, calibration_error, kappa, load
from benchmarks.equivalence.train import N_FOLDS, cross_validated, platt, table_of, weights_of
from benchmarks.harness import closing_line, ratios

SEEDS = range(5)
ROUNDS = 7
MARGIN = 0.02
"""How much larger a share may be on new items than on those that set the bounds."""


def calibrated(items: Items, logits: FloatArray, folds: IntArray) -> FloatArray:
    """Return probabilities; each item is calibrated on the other folds only."""
    result, weights = np.empty(len(logits)), weights_of(items)
    for fold in range(int(folds.max()) + 1):
        rest, tested = folds != fold, folds == fold
        slope, intercept = platt(logits[rest], items.labels[rest], weights[rest])
        result[tested] = sigmoid(slope * logits[tested] + intercept)
    return result


def quality(items: Items) -> dict[str, list[float]]:
    """Return accuracy, kappa and calibration error of each file."""
    table = table_of(items)
    figures: dict[str, list[float]] = {}
    for seed in SEEDS:
        logits = cross_validated(items, table, N_FOLDS, seed)
        probabilities = calibrated(items, logits, items.folds(N_FOLDS, seed))
        for number, name in enumerate(FILES):
            of_file = items.files == number
            verdicts, labels = sigmoid(logits[of_file]) >= 0.5, items.labels[of_file]
            accuracy = float(np.mean(verdicts == labels))
            error = calibration_error(probabilities[of_file], labels)
            for figure, value in (
                (f"accuracy_{name}", accuracy),
                (f"kappa_{name}", kappa(verdicts, labels)),
                (f"ece_{name}", error),
            ):
                figures.setdefault(figure, []).append(value)
    return figures


def cascade(items: Items) -> dict[str, list[float]]:
    """Return the accuracy of a cascade in front of GPT-4 on NQ301, and the share it asks about."""
    table, labels = table_of(items), items.labels
    gpt4 = np.array([item.get("gpt4") == "Yes" for item in items.fields])
    of_file = items.files == 0
    figures = {"gpt4_accuracy": [float(np.mean(gpt4[of_file] == labels[of_file]))]}
    for seed in SEEDS:
        logits = cross_validated(items, table, N_FOLDS, seed)
        scores, folds = sigmoid(logits), items.folds(N_FOLDS, seed)
        for percent in (20, 36):
            asked, right = [], []
            for fold in range(N_FOLDS):
                tested = of_file & (folds == fold)
                if not tested.any():
                    continue
                rest = of_file & (folds != fold)
                accept, reject = least_certain(Platt(), scores[rest], percent / 100 - MARGIN)
                unsure = np.ones(int(tested.sum()), np.bool_)
                unsure &= scores[tested] < (2.0 if accept is None else accept)
                unsure &= scores[tested] > (-1.0 if reject is None else reject)
                verdicts = np.where(unsure, gpt4[tested], scores[tested] >= 0.5)
                asked += unsure.tolist()
                right += (verdicts == labels[tested]).tolist()
            figures.setdefault(f"cascade_asked_{percent}", []).append(float(np.mean(asked)))
            figures.setdefault(f"cascade_accuracy_{percent}", []).append(float(np.mean(right)))
    return figures


def own_labels(items: Items) -> dict[str, list[float]]:
    """Return the calibration error after calibrating on some 200 labels of whole questions.

    NQ301 has 293 items: two of three parts are labelled at a time, and the error is over all
    held-out parts. In the other files one part of 200 is labelled, and the error is over the rest.
    """
    scores = sigmoid(cross_validated(items, table_of(items), N_FOLDS, 0))
    figures: dict[str, list[float]] = {}
    for number, name in enumerate(FILES):
        of_file = items.files == number
        scored, labels = scores[of_file], items.labels[of_file]
        small = len(labels) < 600
        parts = 3 if small else len(labels) // 200
        names, question = np.unique(items.questions[of_file], return_inverse=True)
        for seed in SEEDS:
            part = (np.random.default_rng(seed).permutation(len(names)) % parts)[question]
            made = [
                fit(scored[chosen], labels[chosen], Platt()) or Platt()
                for chosen in ((part != p) if small else (part == p) for p in range(parts))
            ]
            if small:
                said = np.choose(part, [each.probabilities(scored) for each in made])
                error = calibration_error(said, labels)
            else:
                rests = [part != p for p in range(parts)]
                error = float(
                    np.mean(
                        [
                            calibration_error(each.probabilities(scored[rest]), labels[rest])
                            for each, rest in zip(made, rests, strict=True)
                        ]
                    )
                )
            figures.setdefault(f"ece_200_{name}", []).append(error)
    return figures


def throughput(items: Items, rounds: int) -> dict[str, list[float]]:
    """Return the judge's contexts a CPU second over those of `token_overlap`."""
    judge = EquivalenceKind().build(JudgeSpec("answer_equivalence"))
    overlap = TokenOverlapKind().build(
        JudgeSpec("token_overlap", "unicode", None, {"min_tokens": 2, "query_boost": True})
    )
    figures: dict[str, list[float]] = {}
    for number, name in enumerate(FILES):
        groups = [items.groups[i] for i in np.flatnonzero(items.files == number).tolist()]
        ours, theirs = [], []
        for _ in range(rounds + 1):  # the first one fills caches of words
            theirs.append(cpu_seconds(overlap, groups))
            ours.append(cpu_seconds(judge, groups))
        n = sum(group.n_contexts for group in groups)
        print(
            f"{name}: first round {n / ours[0]:,.0f} contexts a CPU second, then "
            f"{n / np.median(ours[1:]):,.0f}; token_overlap {n / np.median(theirs[1:]):,.0f}"
        )
        figures[f"throughput_{name}"] = ratios(theirs[1:], ours[1:])
    joint = np.median(list(figures.values()), axis=0)
    return {"throughput": joint.tolist(), **figures}


def cpu_seconds(judge: PureJudge, groups: Sequence[Group]) -> float:
    """Return the CPU seconds of judging all groups at once."""
    began = time.process_time()
    judge.score(groups)
    return time.process_time() - began


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    items = load()
    samples = {
        **throughput(items, arguments.rounds),
        **quality(items),
        **own_labels(items),
        **cascade(items),
    }
    for figure, values in samples.items():
        print(f"{figure:24} {np.mean(values):.3f}  ({min(values):.3f} to {max(values):.3f})")
    print(closing_line("equivalence", samples))


if __name__ == "__main__":
    main()
