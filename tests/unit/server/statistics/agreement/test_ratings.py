"""Items that were rated alike are counted together, however many raters there are."""

import numpy as np
import pytest
from judged.values.agreement import Rater, RatingTable
from judged_server.statistics.agreement import Ratings, _patterns, spelling_warnings


def rated(raters: list[str], categories: list[str], columns: list[list[int]]) -> Ratings:
    named = zip(raters, columns, strict=True)
    return Ratings.of(RatingTable(categories, [Rater(*each) for each in named]))


@pytest.mark.parametrize("raters", [2, 31, 40])
def test_rows_that_differ_in_one_rating_are_told_apart(raters):
    """40 raters of three categories have more patterns than an integer has values."""
    alike = np.zeros((3, raters), np.int8)
    last = alike[:1].copy()
    last[0, -1] = 2
    none = alike[:2].copy()
    none[:, 0] = -1
    patterns, counts = _patterns(np.concatenate([alike, last, none]), 3)
    found = {tuple(row): count for row, count in zip(patterns.tolist(), counts, strict=True)}
    assert found == {tuple(alike[0]): 3, tuple(last[0]): 1, tuple(none[0]): 2}


@pytest.mark.parametrize(
    "pair",
    [
        *(("Yes", "yes"), ("good", "good "), ("a b", "a  b"), ("not relevant", "not_relevant")),
        *(("true", "TRUE"), ("true", "1"), ("yes", "True"), ("no", "0"), ("0", "false")),
        *(("1", "1.0"), ("1", "01"), ("4", "4."), ("caf\u00e9", "cafe\u0301"), ("да", "yes")),
        *(
            ("\ufb01ne", "fine"),
            ("ok\u200b", "ok"),
            ("Yes.", "yes"),
            ("\uff11", "1"),
            ("STRASSE", "straße"),
        ),
    ],
)
def test_categories_that_are_one_to_people_are_told(pair):
    ratings = rated(["a", "b"], [*pair, "other"], [[0, 2, 2], [1, 2, 2]])
    (told,) = spelling_warnings(ratings)
    assert told.startswith(f"categories {pair[0]!r} and {pair[1]!r} count as different ones")


@pytest.mark.parametrize(
    "pair",
    [
        *(("yes", "no"), ("A", "A-"), ("A+", "A-"), ("C", "C#"), ("+", "-"), ("1", "-1")),
        *(("1", "2"), ("10", "1"), ("good", "bad"), ("not relevant", "relevant"), ("", " x")),
    ],
)
def test_other_categories_are_not(pair):
    names = [name or "empty" for name in pair]
    ratings = rated(["a", "b"], names, [[0, 1, 1], [1, 1, 0]])
    assert spelling_warnings(ratings) == []


def test_categories_that_nobody_gave_are_passed_over():
    ratings = rated(["a", "b"], ["yes", "no", "Yes"], [[0, 1], [0, 1]])
    assert spelling_warnings(ratings) == []


def test_raters_that_are_one_to_people_are_told():
    ratings = rated(["judge", "Judge ", "ann"], ["a", "b"], [[0, 1], [0, 1], [0, 1]])
    (told,) = spelling_warnings(ratings)
    assert told.startswith("raters 'judge' and 'Judge ' count as different ones")


def test_a_rater_who_shares_no_category_is_told():
    ratings = rated(
        ["human", "judge", "new"], ["good", "bad", "gut", "schlecht"], [[0, 1], [2, 3], [-1, -1]]
    )
    (told,) = spelling_warnings(ratings)
    assert told.startswith("'human' gives no category that another rater gives")
