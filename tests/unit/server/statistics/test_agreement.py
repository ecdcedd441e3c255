"""How far raters agree on items, and judges on the order of systems."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.values.agreement import Rater, RatingLevel, RatingTable, SystemScores
from judged.values.choices import IntervalOptions
from judged_server.statistics.agreement import measure_agreement, rank_agreement

FEW = IntervalOptions(resamples=100)


def measure(*columns, k=2, level=RatingLevel.NOMINAL, options=FEW):
    raters = [Rater(f"rater {j}", column) for j, column in enumerate(columns)]
    table = RatingTable([f"category {c}" for c in range(k)], raters, level)
    return measure_agreement(table, options)


def test_more_raters_have_neither_a_confusion_nor_cohens_kappa():
    found = measure([0, 0, 1], [0, 1, 1], [0, 0, 1])
    assert not found.confusion
    assert found.cohen_kappa is None
    assert not any("cohen" in warning for warning in found.warnings)


def test_weighted_kappas_need_an_order():
    columns = [0, 1, 2, 2, 0], [0, 2, 2, 1, 0]
    assert measure(*columns, k=3).linear_kappa is None
    ordered = measure(*columns, k=3, level=RatingLevel.ORDINAL)
    assert ordered.quadratic_kappa.value > ordered.linear_kappa.value > ordered.cohen_kappa.value


@pytest.mark.parametrize("level", RatingLevel)
def test_full_agreement_in_a_single_category_is_undefined_and_says_so(level):
    found = measure([1, 1, 1], [1, 1, 1], level=level)
    assert found.observed.value == 1.0
    for name in ("cohen_kappa", "fleiss_kappa", "krippendorff_alpha"):
        assert getattr(found, name) is None
        assert any(name in warning and "single category" in warning for warning in found.warnings)


def test_fleiss_kappa_without_a_complete_item_is_undefined_and_alpha_is_not():
    found = measure([0, 1, -1, 0], [0, -1, 1, 1], [-1, 1, 1, -1])
    assert found.fleiss_kappa is None
    assert found.krippendorff_alpha.value is not None
    assert any("ratings of all raters" in warning for warning in found.warnings)


TABLES = st.integers(2, 4).flatmap(
    lambda k: st.integers(2, 4).flatmap(
        lambda raters: st.lists(
            st.lists(st.integers(-1, k - 1), min_size=raters, max_size=raters),
            min_size=1,
            max_size=12,
        ).map(lambda rows: (k, rows))
    )
)


@given(TABLES, st.sampled_from(RatingLevel), st.randoms(use_true_random=False))
def test_neither_the_order_of_items_nor_that_of_raters_matters(table, level, chance):
    k, rows = table
    columns = list(zip(*rows, strict=True))
    found = measure(*columns, k=k, level=level)
    chance.shuffle(rows)
    columns = list(zip(*rows, strict=True))
    chance.shuffle(columns)
    other = measure(*columns, k=k, level=level)
    for name in (
        "observed",
        "cohen_kappa",
        "quadratic_kappa",
        "fleiss_kappa",
        "krippendorff_alpha",
    ):
        mine, theirs = getattr(found, name), getattr(other, name)
        assert (mine is None) is (theirs is None)
        if mine is not None:
            assert mine.value == pytest.approx(theirs.value, abs=1e-12)
            assert -1 - 1e-9 <= mine.value <= 1 + 1e-9 or name == "krippendorff_alpha"


def spelling_warnings(categories: list[str], *columns: list[int]) -> list[str]:
    raters = [Rater(name, column) for name, column in zip("ab", columns, strict=True)]
    warnings = measure_agreement(RatingTable(categories, raters), FEW).warnings
    return [each for each in warnings if "alike" in each or "in one way" in each]


@pytest.mark.parametrize(
    "pair",
    [
        ("Yes", "yes"),
        ("good", "good "),
        ("Yes.", "yes"),
        ("STRASSE", "straße"),
        ("caf\u00e9", "cafe\u0301"),
        ("ok\u200b", "ok"),
        ("\uff11", "1"),
        ("not relevant", "not_relevant"),
        ("not-relevant", "NotRelevant"),
        ("very good", "very  good"),
        ("[[A]]", "A"),
        ("n/a", "NA"),
        ("sì", "yes"),
        ("いいえ", "no"),
    ],
)
def test_categories_that_are_one_to_people_are_told(pair):
    (told,) = spelling_warnings([*pair, "other"], [0, 2, 2], [1, 2, 2])
    assert told.startswith(f"categories {pair[0]!r} and {pair[1]!r} count as different ones")


@pytest.mark.parametrize(
    "pair",
    [
        ("yes", "no"),
        ("A", "A-"),
        ("A+", "A-"),
        ("C", "C#"),
        ("+", "-"),
        ("1", "-1"),
        ("1-2", "12"),
        ("1 2", "12"),
        ("1", "2"),
        ("10", "1"),
        ("good", "bad"),
        ("not relevant", "relevant"),
        ("", " x"),
    ],
)
def test_other_categories_are_not(pair):
    names = [name or "empty" for name in pair]
    assert spelling_warnings(names, [0, 1, 1], [1, 1, 0]) == []


@pytest.mark.parametrize(
    ("numbers", "ordinal", "interval"),
    [("0 50 100", "", ""), ("1 2 5", "", "unevenly spaced"), ("1 10 2", *["out of order"] * 2)],
)
def test_numbers_that_are_not_the_steps_of_a_scale_are_told(numbers, ordinal, interval):
    raters = [Rater("a", [0, 1, 2]), Rater("b", [0, 1, 1])]
    for level, told in zip(RatingLevel, ("", ordinal, interval), strict=True):
        warnings = measure_agreement(RatingTable(numbers.split(), raters, level), FEW).warnings
        assert [told in each for each in warnings if "categories" in each] == [True] * bool(told)


def rank(first, second):
    return rank_agreement(
        SystemScores([f"system {i}" for i in range(len(first))], first, second), FEW
    )


def test_a_judge_that_scores_all_alike_leaves_both_undefined():
    found = rank([1, 1, 1], [1, 2, 3])
    assert (found.kendall_tau, found.tau_ap) == (None, None)
    assert any("first judge scores all systems alike" in w for w in found.warnings)
