"""How the statistics refuse: the field, the rule that is broken and the next step, word for word.

As `test_refusals.py` of the metrics does it: here is what people read when ratings, scores of
judges, runs to compare or the work for an interval are refused.
"""

import numpy as np
import pytest
from judged.values.agreement import Rater, RatingTable, SystemScores
from judged.values.intervals import IntervalOptions
from judged_server.errors import InvalidField
from judged_server.statistics.agreement import Ratings
from judged_server.statistics.calibration.calibrate import ScoredItems
from judged_server.statistics.comparison import RunValues, pair_up
from judged_server.statistics.intervals import check_work
from judged_server.statistics.paired_tests import check_flips
from judged_server.statistics.rank_correlation import rank_agreement

NAN = float("nan")
YES_NO = ["no", "yes"]


def rated(*columns, raters=("a", "b"), categories=YES_NO):
    said = [Rater(*each) for each in zip(raters, columns, strict=False)]
    return lambda: Ratings.of(RatingTable(categories, said))


def correlated(systems, first, second):
    return lambda: rank_agreement(SystemScores(systems, first, second), IntervalOptions())


def scored(scores, labelled=(0,), labels=(True,), clusters=()):
    return lambda: ScoredItems.build(scores, labelled, labels, clusters)


def runs_apart():
    values = np.zeros((1, 2))
    ours, theirs = RunValues("a", ["x", "y"], values), RunValues("b", ["y", "z"], values)
    pair_up(ours, theirs, {"x": 0, "y": 1}, "runs[3]")


RUNS = {
    "work for its means": (
        lambda: check_work(1, 1, IntervalOptions(resamples=10**9), "here", unit="items"),
        (
            "here.resamples: is 1000000000 for 1 items and 1 metrics, which is too much work for "
            "one call; ask for at most 8000000, or use the method T"
        ),
    ),
    "work": (
        lambda: check_work(30_000_000, 10, IntervalOptions(resamples=20_000)),
        (
            "options.interval.resamples: is 20000 for 30000000 queries and 10 metrics, which is "
            "too much work for one call; ask for fewer metrics or slices, or use the method T"
        ),
    ),
    "flips": (
        lambda: check_flips(1_000, 16, 2_000_001),
        (
            "comparison.permutations: is 2000001 for 1000 queries and 16 comparisons, which is too "
            "much work for one call; ask for at most 2000000"
        ),
    ),
    "flips of very many": (
        lambda: check_flips(1_000_000, 336, 1_000),
        (
            "comparison.permutations: is 1000 for 1000000 queries and 336 comparisons, which is "
            "too much work for one call; compare fewer runs or metrics"
        ),
    ),
    "runs apart": (
        runs_apart,
        (
            "runs[3]: shares 1 evaluated queries with the baseline, runs[0]; a comparison needs at "
            "least 2: compare runs on the same queries"
        ),
    ),
}

HUMANS = {
    "one rater": (
        rated([0], raters=("a",)),
        "ratings.raters: must hold at least two raters",
    ),
    "one category": (
        rated([0], [0], categories=["yes"]),
        "ratings.categories: must hold at least two categories",
    ),
    "nameless rater": (
        rated([0], [0], raters=("a", "")),
        "ratings.raters[1].name: must not be empty",
    ),
    "rater again": (
        rated([0], [0], [0], raters=("a", "b", "b")),
        "ratings.raters[2].name: is that of ratings.raters[1].name again",
    ),
    "no item": (
        rated([], []),
        "ratings.raters[0].ratings: must hold at least one item",
    ),
    "lengths": (
        rated([0, 1], [0]),
        "ratings.raters[1].ratings: has 1 entries where raters[0] has 2",
    ),
    "rating": (
        rated([0, 1], [0, 2]),
        (
            "ratings.raters[1].ratings[1]: must be -1 for no rating, or the place of one of 2 "
            "categories, counted from 0"
        ),
    ),
    "many raters": (
        rated(*[[0]] * 1_001, raters=[str(i) for i in range(1_001)]),
        "ratings.raters: 1001 raters, the limit is 1000",
    ),
    "many ratings": (
        rated([0] * 1_000_001, [0]),
        "ratings.raters[0].ratings: 1000001 items, the limit is 1000000",
    ),
    "many systems": (
        correlated([str(i) for i in range(1_001)], [0.0] * 1_001, [0.0] * 1_001),
        "systems.systems: 1001 systems, the limit is 1000",
    ),
    "many scores": (
        scored([0.5] * 1_000_001),
        "scores: 1000001 items, the limit is 1000000",
    ),
    "one system": (
        correlated(["a"], [1.0], [1.0]),
        "systems.systems: must hold at least two systems",
    ),
    "nameless system": (
        correlated(["a", ""], [1.0, 2.0], [1.0, 2.0]),
        "systems.systems[1]: must not be empty",
    ),
    "system again": (
        correlated(["a", "b", "b"], [1.0] * 3, [1.0] * 3),
        "systems.systems[2]: is that of systems.systems[1] again",
    ),
    "scores of systems": (
        correlated(["a", "b"], [1.0], [1.0, 2.0]),
        "systems.first: has 1 entries for 2 systems",
    ),
    "score of a system": (
        correlated(["a", "b"], [1.0, 2.0], [1.0, NAN]),
        "systems.second[1]: must be a finite number",
    ),
    "no score": (
        scored([]),
        "scores: must hold at least one score",
    ),
    "score": (
        scored([0.5, NAN]),
        "scores[1]: must lie in 0 to 1",
    ),
    "labels": (
        scored([0.5], labels=(True, False)),
        "labels: has 2 entries for 1 entries of labelled",
    ),
    "no label": (
        scored([0.5], labelled=(), labels=()),
        "labelled: must name at least one item that has a label",
    ),
    "clusters": (
        scored([0.5], clusters=(1, 2)),
        "clusters: has 2 entries for 1 scores",
    ),
    "place": (
        scored([0.5], labelled=(1,)),
        "labelled[0]: must be below 1, the number of scores",
    ),
    "order": (
        scored([0.5, 0.5], labelled=(1, 1), labels=(True, True)),
        "labelled[1]: must be above the entry before it; sort, each once",
    ),
}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(*case, id=f"{part}: {name}")
        for part, cases in (("runs", RUNS), ("humans", HUMANS))
        for name, case in cases.items()
    ],
)
def test_a_refusal_names_the_field_the_rule_and_the_next_step(call, message):
    with pytest.raises(InvalidField) as caught:
        call()
    assert caught.value.message == message
