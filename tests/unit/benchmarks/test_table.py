"""The README's figures are those of the results that are committed."""

import json

import pytest

from benchmarks.harness import closing_line
from benchmarks.table import README, ROWS, Row, number, placed, read_results, render, section


def test_the_readme_holds_the_figures_of_the_results():
    text = README.read_text(encoding="utf-8")
    assert placed(text, section()) == text, "run `python -m benchmarks.table --write`"


def test_every_figure_has_one_row():
    assert len({(row.benchmark, row.figure) for row in ROWS}) == len(ROWS)


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


@pytest.mark.parametrize(
    ("value", "expected"), [(0.0, "0"), (0.126, ".13"), (2.04, "2.0"), (12345.6, "12,346")]
)
def test_numbers_have_two_digits_that_count(value, expected):
    assert number(value) == expected


def test_a_page_without_marks_is_refused():
    with pytest.raises(ValueError, match="lacks"):
        placed("no marks here", "content")
