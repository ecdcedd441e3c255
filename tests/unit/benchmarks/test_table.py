"""The figures of the pages and of the chart are those of the results that are committed."""

import json

import pytest

from benchmarks.harness import closing_line
from benchmarks.table import (
    BENCHMARKS,
    CHART,
    HIGHLIGHTS,
    README,
    ROWS,
    Figure,
    Row,
    highlights,
    number,
    pages,
    placed,
    read_results,
    render,
    section,
)


@pytest.mark.parametrize("path", [README, BENCHMARKS, CHART], ids=lambda path: path.name)
def test_a_page_holds_the_figures_of_the_results(path):
    text = path.read_text(encoding="utf-8")
    assert pages()[path] == text, "run `python -m benchmarks.table --write`"


def test_every_figure_has_one_row():
    assert len({(row.benchmark, row.figure) for row in ROWS}) == len(ROWS)


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


def _results(tmp_path, *lines: str):
    path = tmp_path / "machine.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return read_results(path)


ROW = Row("speed", "over_peer", "a peer", "texts a second")


class TestRender:
    def test_median_and_extremes_come_from_the_samples(self, tmp_path):
        results = _results(tmp_path, closing_line("speed", {"over_peer": [1.0, 2.5, 30.0]}))
        expected = "| a peer | texts a second | 2.5 (1.0 to 30) | `python -m benchmarks.speed` |"
        assert render(results, [ROW]).splitlines()[2] == expected

    def test_the_last_line_of_a_benchmark_counts(self, tmp_path):
        lines = [closing_line("speed", {"over_peer": [value]}) for value in (1.0, 4.0)]
        assert "| 4.0 |" in render(_results(tmp_path, *lines), [ROW])

    def test_what_was_not_run_says_why(self, tmp_path):
        line = closing_line("speed", {}, {"over_peer": "no network | none"})
        assert "not run: no network \\| none" in render(_results(tmp_path, line), [ROW])

    def test_a_figure_nobody_took_has_no_row(self, tmp_path):
        line = closing_line("speed", {"other": [1.0]})
        assert len(render(_results(tmp_path, line), [ROW]).splitlines()) == 2

    def test_facts_travel_with_the_line(self):
        line = json.loads(closing_line("speed", {"a": [1.0]}, facts={"texts": 7}))
        assert line["facts"] == {"texts": 7}
        assert "not_run" not in line


class TestHighlights:
    def _folder(self, tmp_path, **files: dict[str, list[float]]):
        for name, figures in files.items():
            lines = [
                closing_line(row.benchmark, {row.figure: figures[row.figure]})
                for row in HIGHLIGHTS
                if row.figure in figures
            ]
            (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        return tmp_path

    def test_a_cost_is_shown_as_its_inverse_with_the_extremes_exchanged(self, tmp_path):
        folder = self._folder(tmp_path, a={"cpu_over_evret_0_0_3": [0.125, 0.1, 0.25]})
        assert [figure for _, figure in highlights(folder)[1]] == [Figure(8.0, 4.0, 10.0)]

    def test_a_rate_is_shown_as_it_is(self, tmp_path):
        folder = self._folder(tmp_path, a={"cold_over_evret": [6.0, 5.0, 7.0]})
        assert [str(figure) for _, figure in highlights(folder)[1]] == ["6.0 (5.0 to 7.0)"]

    def test_the_machine_that_has_most_of_them_counts(self, tmp_path):
        folder = self._folder(
            tmp_path,
            a={"cold_over_evret": [2.0]},
            b={"cold_over_evret": [3.0], "default_over_st": [4.0]},
        )
        assert [figure.value for _, figure in highlights(folder)[1]] == [3.0, 4.0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0"),
        (0.126, ".13"),
        (0.997, "1.0"),
        (2.04, "2.0"),
        (9.98, "10"),
        (12345.6, "12,346"),
    ],
)
def test_numbers_have_two_digits_that_count(value, expected):
    assert number(value) == expected


def test_a_page_without_marks_is_refused():
    with pytest.raises(ValueError, match="lacks"):
        placed("no marks here", "content")
