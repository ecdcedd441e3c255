"""Tables that fit a terminal."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged import ScoredAnswers, Status
from judged.cli.commands.score import items_table, rubrics_table
from judged.cli.output import Output, fitting, new_table
from judged.values import AnswerScore, RubricSummary, ScoreCounts, Usage
from rich.cells import cell_len
from rich.console import Console

RUBRICS = ["faithfulness", "answer_relevance", "context_relevance", "answer_quality", "helpfulness"]
_WORDS = st.text("abcdef-é漢", min_size=1, max_size=30)


def _printed(view, width):
    console = Console(width=width, markup=False, color_system=None)
    with console.capture() as captured:
        for part in fitting(view, width):
            console.print(part)
    return captured.get()


@st.composite
def _tables(draw):
    headers = draw(st.lists(_WORDS, min_size=2, max_size=12))
    first, *others = headers
    view = new_table(first, *others, names=draw(st.integers(1, min(3, len(headers) - 1))))
    row = st.lists(_WORDS, min_size=len(headers), max_size=len(headers))
    for cells in draw(st.lists(row, min_size=1, max_size=4)):
        view.add_row(*cells)
    return view


class TestFitting:
    @given(_tables(), st.sampled_from([60, 80, 120]))
    def test_no_line_is_longer_and_nothing_is_lost(self, view, width):
        printed = _printed(view, width)
        assert max(map(cell_len, printed.splitlines())) <= width
        for column in view.columns:
            for cell in (column.header, *column.cells) if column.no_wrap else ():
                assert str(cell) in printed or cell_len(str(cell)) > width // 2 - 3
        characters = {one for column in view.columns for cell in column.cells for one in str(cell)}
        assert characters <= set(printed)

    def test_a_table_that_fits_stays_whole(self):
        view = new_table("metric", *(f"column {i}" for i in range(8)))
        view.add_row("ap", *("0.1234" for _ in range(8)))
        assert len(fitting(view, 80)) == 2
        assert fitting(view, 200) == [view]

    def test_names_stand_before_each_part(self):
        view = new_table("metric", "run", *(f"column {i}" for i in range(12)), names=2)
        view.add_row("ap", "bm25", *(str(i) for i in range(12)))
        parts = fitting(view, 60)
        assert len(parts) > 1
        assert all([c.header for c in part.columns[:2]] == ["metric", "run"] for part in parts)
        assert [c.header for part in parts for c in part.columns[2:]] == [
            f"column {i}" for i in range(12)
        ]

    def test_ids_that_are_too_long_fold(self):
        view = new_table("query", "recall@5")
        view.add_row("q" * 200, "0.5000")
        printed = _printed(view, 80)
        assert printed.count("q") == 201
        assert max(map(len, printed.splitlines())) <= 80


@pytest.mark.parametrize("table", [rubrics_table, items_table])
def test_scores_fit_80_columns(table):
    scores = [AnswerScore("i1", rubric, Status.OK, 0.25, passed=False) for rubric in RUBRICS]
    summaries = [RubricSummary(rubric, 0.25, ScoreCounts(ok=1)) for rubric in RUBRICS]
    view = table(ScoredAnswers(scores, summaries, Usage()))
    assert len(fitting(view, 80)) > 1
    assert max(map(len, _printed(view, 80).splitlines())) <= 80


def test_a_terminal_folds_and_a_file_does_not(monkeypatch, capsys):
    view = new_table("metric", *(f"column {i}" for i in range(12)))
    view.add_row("ap", *("0.1234" for _ in range(12)))
    Output(None).show(view)
    head, _, row = capsys.readouterr().out.splitlines()
    assert "column 11" in head
    assert row.count("0.1234") == 12
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "80"}.items():
        monkeypatch.setenv(name, value)
    Output(None).show(view)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.count("0.1234") for line in lines) == 12
