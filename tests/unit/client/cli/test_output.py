"""Where results and remarks go; tables that fit a terminal; documents written item by item."""

import json
import re
from pathlib import Path
from queue import Queue
from types import SimpleNamespace

import pytest
from click.exceptions import Exit
from hypothesis import given
from hypothesis import strategies as st
from judged.cli import output
from judged.cli.commands.score import ScoreCommand
from judged.cli.output import (
    Items,
    NamedItems,
    Output,
    Problem,
    Table,
    document_texts,
    say,
)


class TestOutput:
    @pytest.mark.parametrize(
        "evil", ["\x1b[31mred", "\x1b]0;title\x07", "a\rb", "\x9b2J", "\x08\x08", "\x7f"]
    )
    def test_no_text_of_others_reaches_the_terminal_as_it_is(self, capsys, evil):
        table = Table([f"name {evil}", f"metric {evil}"], [[f"id {evil}", f"cell {evil}"]])
        out = Output(None)
        out.show(table, f"line {evil}")
        say(f"note {evil}")
        out.warn(f"file {evil}: odd\njudged: forged")
        shown, said = capsys.readouterr()
        for part in ("name", "metric", "id", "cell", "line"):
            assert part in shown
        assert said.count("\n") == 2
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown + said)

    @pytest.mark.parametrize(
        ("failed", "total", "fell_short", "status"),
        [
            (0, 0, False, None),
            (2, 3, False, None),
            (3, 3, False, 2),
            (3, 3, True, 2),
            (2, 3, True, 1),
        ],
    )
    def test_fails_where_every_verdict_did(self, failed, total, fell_short, status, capsys):
        out = Output(None)
        out.count(failed=failed, total=total)
        out.worse = fell_short
        if status is None:
            out.finish()
            return
        with pytest.raises(Exit) as caught:
            out.finish()
        assert caught.value.exit_code == status
        assert ("every verdict failed" in capsys.readouterr().err) == (status == 2)


class TestCheckFiles:
    def test_refuses_what_can_not_be_written_or_is_read(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        Path("answers").write_text("{}", encoding="utf-8")
        Path("link").symlink_to("answers")
        for path, why in (("link", "is read too"), ("no/x", "can't be"), (".", "can't be written")):
            with pytest.raises(Problem, match=f"^--output {path}: {why}"):
                ScoreCommand(answers="answers", rubric=[], output=path).check_files()

    def test_takes_what_is_no_file_twice(self):
        for path in ("-", "/dev/null"):
            ScoreCommand(answers="-", rubric=[], output=path, json=path).check_files()


def test_a_table_has_a_line_a_row(capsys):
    table = Table(["metric", "n"], [["ap", 0.5], ["recall@100", None]])
    Output(None).show(table)
    assert capsys.readouterr().out.splitlines() == [
        "metric            n",
        "───────────────────",
        "ap           0.5000",
        "recall@100        -",
    ]


texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=8,
)


@given(st.dictionaries(texts, values))
def test_has_the_text_of_json_dumps(document):
    wanted = json.dumps(document, ensure_ascii=False, indent=2) + "\n"
    assert "".join(document_texts(document)) == wanted
    in_items = {
        name: Items(iter(value))
        if isinstance(value, list)
        else NamedItems(iter(value.items()))
        if isinstance(value, dict)
        else value
        for name, value in document.items()
    }
    assert "".join(document_texts(in_items)) == wanted


def test_items_are_read_as_they_are_written():
    read = []

    def numbers():
        for number in range(3):
            read.append(number)
            yield number

    for text in document_texts({"n": Items(numbers())}):
        if text.strip(" \n[,").isdigit():
            assert int(text.strip(" \n[,")) == read[-1]
    assert read == [0, 1, 2]


def test_what_takes_long_is_told_where_no_bar_is_shown(monkeypatch):
    told: Queue[str] = Queue()
    monkeypatch.setattr(output, "_LONG_S", 0.001)
    monkeypatch.setattr("sys.stderr", SimpleNamespace(isatty=lambda: False, write=told.put))
    with output.progress_bar("judging", 7):
        assert told.get(timeout=60).startswith("judged: still judging, 7 in all, after ")
