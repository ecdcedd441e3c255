"""What the metrics say beside a number that is less sure than it looks, word for word.

The tests of each module show when there is a warning. Here is what people then read, which has to
name the number, the bound that it fell below, and the next step.
"""

from __future__ import annotations

import numpy as np
import pytest
from judged.values.agreement import Rater, RatingLevel, RatingTable, SystemScores
from judged.values.comparison import CompareOptions
from judged.values.intervals import IntervalMethod, IntervalOptions
from judged_server.statistics.agreement import measure_agreement
from judged_server.statistics.calibration.cascade import cascade_bounds
from judged_server.statistics.calibration.thresholds import choose_thresholds
from judged_server.statistics.comparison import RunValues, compare
from judged_server.statistics.intervals import mean_intervals
from judged_server.statistics.prediction_powered import correct_mean
from judged_server.statistics.quality import LabelledScores, judge_quality
from judged_server.statistics.rank_correlation import rank_agreement

FEW = IntervalOptions(resamples=100)
T = IntervalOptions(IntervalMethod.T)


def labelled(scores, labels, clusters=None):
    return LabelledScores(np.array(scores, float), np.array(labels, bool), clusters)


def quality(scores, labels):
    return judge_quality(labelled(scores, labels), 0.5, FEW).warnings


def rated(first, second, level=RatingLevel.NOMINAL, *others):
    columns = [first, second, *others]
    raters = [Rater(f"rater {j}", column) for j, column in enumerate(columns)]
    return measure_agreement(RatingTable(["no", "yes"], raters, level), FEW).warnings


def compared(first, second, ids=None):
    n = len(first)
    names = [str(i) for i in range(n)]
    runs = [RunValues("a", names, np.array([first], float))]
    runs.append(RunValues("b", ids or names, np.array([second], float)))
    options = CompareOptions(permutations=100)
    return compare(runs, options, FEW, ["m"])[0].warnings


def interval(values, options=T):
    return mean_intervals(np.array([values], float), options)[0].warnings


def corrected(machine, human, places, unit="items"):
    arrays = np.array(machine, float), np.array(human, float), np.array(places)
    return correct_mean(*arrays, unit=unit).warnings


NO_SCORE_IS_SAFE = (
    "no score is safe to {} at an error of 0.05: the labels there are too few (at least 59 "
    "without an error) or the judge errs too often"
)
FEW_LABELS = (
    "only 4 labels: below 50 the intervals cover less often than they say; label more items"
)
NO_INTERVAL = (
    "{} has no interval: most resamples leave it undefined, or there is too little to resample; "
    "collect more"
)
RNG = np.random.default_rng(0)
RANDOM = RNG.random(300)
PEOPLE = np.clip(RANDOM + RNG.normal(0, 0.2, 300), 0, 1)
NO_POWER = (
    "the power is 0: the labels alone make the estimate, since the machine's values do not rise "
    "with them"
)


def few_of(kind, n):
    return (
        f"only {n} {kind}: below 10 what is said of them rests on single items; label more of that "
        "kind"
    )


def too_few_labels(n):
    return (
        f"coverage not assured: {n} labelled items; 200 are needed for the interval to cover as "
        "often as it says"
    )


def single_category(*names):
    return (
        f"{', '.join(names)}: undefined, since the raters used a single category, and chance alone "
        "would give full agreement; add items of other categories"
    )


FEW_ITEMS = "n_items is {}: below 50 the intervals cover less often than they say"

JUDGES = {
    "few labels": (
        lambda: quality([0.9, 0.1, 0.9, 0.2], [1, 0, 1, 0]),
        [FEW_LABELS, few_of("labels are irrelevant", 2)],
    ),
    "few of a kind": (
        lambda: quality(RANDOM[:100], np.arange(100) < 9),
        [few_of("labels are relevant", 9)],
    ),
    "one of a kind": (
        lambda: quality(RANDOM[:100], np.arange(100) >= 1),
        [few_of("label is irrelevant", 1)],
    ),
    "as many as needed": (lambda: quality(RANDOM[:50], np.arange(50) < 10), []),
    "all relevant": (
        lambda: quality([0.9, 0.1, 0.9, 0.1], [1, 1, 1, 1]),
        [
            FEW_LABELS,
            few_of("labels are irrelevant", 0),
            "balanced_accuracy, auc: undefined, since no label is irrelevant",
        ],
    ),
    "all relevant and all said to be": (
        lambda: quality([0.9] * 4, [1] * 4),
        [
            FEW_LABELS,
            few_of("labels are irrelevant", 0),
            "balanced_accuracy, auc: undefined, since no label is irrelevant",
            "cohen_kappa: undefined, since all verdicts and all labels are the same",
        ],
    ),
    "all irrelevant and all said to be": (
        lambda: quality([0.1] * 4, [0] * 4),
        [
            FEW_LABELS,
            few_of("labels are relevant", 0),
            "balanced_accuracy, auc, recall: undefined, since no label is relevant",
            "precision: undefined, since no labelled item scores min_score or more",
            "cohen_kappa: undefined, since all verdicts and all labels are the same",
        ],
    ),
    "too little to resample": (
        lambda: quality([0.1, 0.1], [1, 0])[2:],
        [
            "precision: undefined, since no labelled item scores min_score or more",
            NO_INTERVAL.format("balanced_accuracy"),
            NO_INTERVAL.format("auc"),
        ],
    ),
    "cascade": (
        lambda: cascade_bounds(labelled([0.1, 0.9], [0, 1]), np.array([0.1, 0.9]), 0.05, 0.95)[1],
        [NO_SCORE_IS_SAFE.format("accept"), NO_SCORE_IS_SAFE.format("reject")],
    ),
    "one cluster": (
        lambda: choose_thresholds(labelled([0.1, 0.9], [0, 1], np.zeros(2, int)), 0.9, 5, FEW)[1],
        ["thresholds are not cross-validated: all labels are of one cluster; label others"],
    ),
    "no threshold": (
        lambda: choose_thresholds(labelled([0.9, 0.5] * 4, [0, 1] * 4), 0.875, 2, FEW)[1],
        ["no threshold has a precision of 0.875 on the labels; use a better judge"],
    ),
    "a threshold that falls short": (
        lambda: choose_thresholds(
            labelled([0.1, 0.2, 0.3, 0.4, 0.7, 0.8, 0.9, 1.0], [0, 0, 0, 1, 0, 1, 1, 1]),
            0.875,
            4,
            FEW,
        )[1],
        [
            (
                "thresholds for a precision of 0.875 reached 0.750 on labels that did not choose "
                "them; ask for a higher precision_floor, or label more items"
            ),
        ],
    ),
}

RATERS = {
    "one category": (
        lambda: rated([1, 1, 1], [1, 1, 1]),
        [
            FEW_ITEMS.format(3),
            single_category("cohen_kappa", "fleiss_kappa", "krippendorff_alpha"),
        ],
    ),
    "one category of an order": (
        lambda: rated([1, 1, 1], [1, 1, 1], RatingLevel.ORDINAL),
        [
            FEW_ITEMS.format(3),
            single_category(
                *("cohen_kappa", "linear_kappa", "quadratic_kappa"),
                *("fleiss_kappa", "krippendorff_alpha"),
            ),
        ],
    ),
    "one category of three raters": (
        lambda: rated([1, 1, 1], [1, 1, 1], RatingLevel.ORDINAL, [1, 1, 1]),
        [FEW_ITEMS.format(3), single_category("fleiss_kappa", "krippendorff_alpha")],
    ),
    "nothing rated twice": (
        lambda: rated([0, -1], [-1, 1]),
        ["no item has two ratings, so that there is no agreement; collect more"],
    ),
    "nothing rated by all": (
        lambda: rated([0, 1, -1, 0], [0, -1, 1, 1], RatingLevel.NOMINAL, [-1, 1, 1, -1]),
        [
            FEW_ITEMS.format(4),
            (
                "fleiss_kappa is undefined: no item has the ratings of all raters; read "
                "krippendorff_alpha, which allows for missing ones"
            ),
        ],
    ),
    "almost enough": (
        lambda: rated(([0, 1] * 25)[:49], [0, 1] * 24 + [1]),
        [FEW_ITEMS.format(49)],
    ),
    "enough, in the first category": (lambda: rated([0] * 50, [0, 1] * 25), []),
    "enough": (lambda: rated([0, 1] * 25, [0, 1] * 24 + [1, 1]), []),
    "few systems, all alike": (
        lambda: rank_agreement(SystemScores(list("abcdefghi"), range(9), [1] * 9), FEW).warnings,
        [
            "only 9 systems: below 10 the intervals say little; compare more systems",
            "kendall_tau and tau_ap are undefined: the second judge scores all systems alike",
        ],
    ),
    "systems alike to the first": (
        lambda: (
            rank_agreement(SystemScores(list("abcdefghij"), [0.5] * 10, range(10)), FEW).warnings
        ),
        ["kendall_tau and tau_ap are undefined: the first judge scores all systems alike"],
    ),
}

RUNS = {
    "no difference": (
        lambda: compared([0.1, 0.2, 0.3], [0.1, 0.2, 0.3]),
        ["no query differs, so that there is nothing to test"],
    ),
    "one difference": (
        lambda: compared([0.1, 0.2, 0.3], [0.2, 0.3, 0.4]),
        [
            (
                "all queries differ by the same amount: the t-test and the power are undefined, go "
                "by the permutation test"
            ),
        ],
    ),
    "a query left out": (
        lambda: compared([0.1, 0.2, 0.3], [0.2, 0.5], ["0", "1"]),
        ["1 query left out: with a value in one of the two runs only"],
    ),
    "queries left out": (
        lambda: compared([0.1, 0.2, 0.3], [0.2, 0.5, 0.4], ["0", "1", "x"]),
        ["2 queries left out: with a value in one of the two runs only"],
    ),
}

MEANS = {
    "few and skewed": (
        lambda: interval([0] * 39 + [1]),
        [
            "40 queries are few: below 50 it covers less often than it says",
            (
                "the values are skewed (skewness 6.1): with fewer than 926 queries it covers less "
                "often than it says"
            ),
        ],
    ),
    "skewed, resampled": (
        lambda: interval([0] * 57 + [1] * 3, FEW),
        [
            (
                "the values are skewed (skewness 4.1): with fewer than 86 queries it covers less "
                "often than it says"
            ),
        ],
    ),
    "equal": (
        lambda: interval([0.5] * 49),
        [
            "49 queries are few: below 50 it covers less often than it says",
            "all 49 values are equal, so that it has no width and says too much",
        ],
    ),
    "equal, but not few": (
        lambda: interval([0.5] * 50),
        ["all 50 values are equal, so that it has no width and says too much"],
    ),
    "one label": (
        lambda: corrected([0.1, 0.2, 0.3], [0.1], [0]),
        ["labelled items: 1; a correction needs 2, and 200 to hold"],
    ),
    "three labels": (
        lambda: corrected([0.1, 0.2, 0.3, 0.4, 0.9], [0.1, 0.4, 0.3], [0, 1, 2]),
        [too_few_labels(3), NO_POWER],
    ),
    "labels of all": (lambda: corrected(RANDOM[:200], PEOPLE[:200], range(200)), []),
    "labels enough": (lambda: corrected(RANDOM, PEOPLE[:200], range(200)), []),
    "no departure": (
        lambda: corrected(RANDOM, RANDOM[:199], range(199)),
        [
            too_few_labels(199),
            (
                "human and machine values differ by the same in all but 0 of 199 labelled items; "
                "the interval is no narrower than Clopper and Pearson's for no event"
            ),
        ],
    ),
    "labels from one end": (
        lambda: corrected(np.sort(RANDOM), PEOPLE[:100], range(100)),
        [
            too_few_labels(100),
            (
                "the labelled items differ from the others in the machine's values, by 19.0 "
                "standard errors; the correction holds for labels drawn at random only"
            ),
        ],
    ),
}


@pytest.mark.parametrize(
    ("made", "warnings"),
    [
        pytest.param(*case, id=f"{part}: {name}")
        for part, cases in (
            ("judges", JUDGES),
            ("raters", RATERS),
            ("runs", RUNS),
            ("means", MEANS),
        )
        for name, case in cases.items()
    ],
)
def test_a_warning_names_the_number_and_the_next_step(made, warnings):
    assert list(made()) == warnings
