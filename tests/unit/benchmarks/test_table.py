"""The figures of the pages and of the chart are those of the results that are committed."""

import pytest

from benchmarks.table import (
    BENCHMARKS,
    CHART,
    HIGHLIGHTS,
    README,
    ROWS,
    highlights,
    pages,
    section,
)


@pytest.mark.parametrize("path", [README, BENCHMARKS, CHART], ids=lambda path: path.name)
def test_a_page_holds_the_figures_of_the_results(path):
    text = path.read_text(encoding="utf-8")
    assert pages()[path] == text, "run `python -m benchmarks.table --write`"


def test_the_readme_shows_at_most_eight_figures_which_the_full_table_has_too():
    assert len(HIGHLIGHTS) <= 8
    assert {(row.benchmark, row.figure) for row in HIGHLIGHTS} <= {
        (row.benchmark, row.figure) for row in ROWS
    }


def test_the_readme_shows_figures_of_one_machine_all_of_which_it_has():
    machine, found = highlights()
    assert [row for row, _ in found] == list(HIGHLIGHTS)
    assert f"{machine} ([all lines]" in section()


def test_every_figure_of_the_readme_is_better_above_1():
    for row, figure in highlights()[1]:
        assert figure.value > 1, f"{row} is worse than the other: is it a cost?"
