"""Where results and remarks go."""

import json
import re
from pathlib import Path
from queue import Queue
from types import SimpleNamespace

import pytest
from judged.cli import output as writer
from judged.cli.output import (
    Exit,
    Output,
    check_apart,
    check_writable,
    new_table,
    open_output,
    progress_bar,
    say,
)
from judged.cli.problems import Problem


class TestOutput:
    def test_writes_the_document_to_a_file(self, tmp_path, capsys):
        path = tmp_path / "out.json"
        out = Output(str(path))
        out.show("table")
        out.write_json({"a": "ä"})
        assert path.read_text(encoding="utf-8") == '{\n  "a": "ä"\n}\n'
        assert capsys.readouterr() == ("table\n", "")

    def test_prints_the_document_instead_of_the_table(self, capsys):
        out = Output("-")
        assert out.takes_stdout
        out.show("table")
        out.write_json({"a": 1})
        assert json.loads(capsys.readouterr().out) == {"a": 1}

    def test_writes_no_document_unless_asked(self, capsys):
        Output(None).write_json({"a": 1})
        assert capsys.readouterr().out == ""

    def test_prints_tables_without_blanks_at_line_ends(self, capsys):
        table = new_table("name", "n")
        table.add_row("[red]x" * 40, "1")
        Output(None).show(table, "", "line")
        lines = capsys.readouterr().out.splitlines()
        assert lines[2] == "[red]x" * 40 + "   1"
        assert lines[3:] == ["", "line"]
        assert all(line == line.rstrip() for line in lines)

    @pytest.mark.parametrize("terminal", [True, False])
    @pytest.mark.parametrize(
        "evil", ["\x1b[31mred", "\x1b]0;title\x07", "a\rb", "\x9b2J", "\x08\x08", "\x7f"]
    )
    def test_no_text_of_others_reaches_the_terminal_as_it_is(
        self, capsys, monkeypatch, terminal, evil
    ):
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
        table = new_table(f"name {evil}", f"metric {evil}")
        table.add_row(f"id {evil}", f"cell {evil}")
        out = Output(None)
        out.show(table, f"line {evil}")
        say(f"note {evil}")
        out.warn(f"file {evil}: odd\njudged: forged")
        shown, said = capsys.readouterr()
        for part in ("name", "metric", "id", "cell", "line"):
            assert part in shown
        assert said.count("\n") == 2
        # What rich itself writes between texts are colours and styles.
        plain = re.sub(r"\x1b\[[0-9;]*m", "", shown.replace(evil, "EVIL")) + said
        assert "EVIL" not in plain
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", plain)

    def test_warns_on_standard_error(self, capsys):
        out = Output(None)
        out.warn("careful")
        assert capsys.readouterr().err == "judged: warning: careful\n"
        assert out.warnings == ["careful"]

    def test_ends_with_1_when_strict_and_warned(self):
        strict = Output(None, strict=True)
        strict.finish()
        strict.warn("careful")
        with pytest.raises(Exit) as left:
            strict.finish()
        assert left.value.exit_code == 1

    def test_ends_well_with_warnings_when_not_strict(self):
        out = Output(None)
        out.warn("careful")
        out.finish()

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


class TestCheckWritable:
    def test_refuses_folders_and_missing_folders(self, tmp_path):
        with pytest.raises(Problem, match=r"--json .* is a folder"):
            check_writable(str(tmp_path), "--json")
        with pytest.raises(Problem, match=r"there is no folder .*nowhere; create it first"):
            check_writable(str(tmp_path / "nowhere" / "f"), "--output")

    def test_refuses_what_nobody_may_write(self, tmp_path, monkeypatch):
        # Asked of the system, since whoever runs tests as root may write anywhere.
        monkeypatch.setattr("os.access", lambda path, mode: False)
        with pytest.raises(Problem, match=r"--json .*: can't be written here; name a file in"):
            check_writable(str(tmp_path / "new"), "--json")

    def test_takes_standard_output_and_new_files(self, tmp_path):
        check_writable("-", "--output")
        check_writable(str(tmp_path / "new"), "--output")


class TestCheckApart:
    def test_refuses_one_file_for_two_outputs(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(Problem, match=r"^--trace .*/a: is the file of --json too"):
            check_apart({}, [("--output", "b"), ("--json", "a"), ("--trace", str(tmp_path / "a"))])

    def test_refuses_to_replace_what_is_read(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        Path("answers").write_text("{}", encoding="utf-8")
        Path("link").symlink_to("answers")
        with pytest.raises(Problem, match=r"^--output link: is the file of ANSWERS.jsonl too"):
            check_apart({"ANSWERS.jsonl": "answers"}, [("--output", "link")])

    def test_takes_an_input_twice(self):
        check_apart({"--qrels": "a", "--run": "a"}, [("--json", "b")])
        check_apart({"ANSWERS.jsonl": "-"}, [("--json", "-")])

    def test_takes_what_is_no_file_twice(self):
        check_apart({}, [("--output", "-"), ("--json", "-")])
        check_apart({}, [("--output", "/dev/null"), ("--json", "/dev/null")])


class TestStandardOutput:
    def test_that_is_closed_is_a_problem(self, monkeypatch):
        monkeypatch.setattr("sys.stdout", None)
        with pytest.raises(Problem, match="standard output is closed"):
            Output(None).show("table")


class TestOpenOutput:
    def test_says_why_a_file_can_not_be_written(self, tmp_path):
        with (
            pytest.raises(Problem, match=r"--output .*: can't be written: Is a directory"),
            open_output(str(tmp_path), "--output"),
        ):
            pass


class TestProgressBar:
    def test_is_quiet_where_nobody_watches(self, capsys):
        with progress_bar("judging", 7) as report:
            assert report is None
        assert capsys.readouterr().err == ""

    def test_what_takes_long_is_told_where_no_bar_is_shown(self, monkeypatch):
        told: Queue[str] = Queue()
        monkeypatch.setattr(writer, "_LONG_S", 0.001)
        monkeypatch.setattr("sys.stderr", SimpleNamespace(isatty=lambda: False, write=told.put))
        with progress_bar("judging", 7):
            assert told.get(timeout=60).startswith("still judging, 7 in all, after ")

    @pytest.mark.parametrize(("seconds", "shown"), [(0.9, False), (1.1, True)])
    def test_appears_on_a_terminal_after_a_second(self, monkeypatch, capsys, seconds, shown):
        monkeypatch.setattr("sys.stderr.isatty", lambda: True)
        monkeypatch.setenv("FORCE_COLOR", "1")
        clock = iter([10.0, *[10.0 + seconds] * 9])
        monkeypatch.setattr(writer, "time", SimpleNamespace(monotonic=lambda: next(clock)))
        with progress_bar("judging", 7) as report:
            report(3, 7)
        printed = capsys.readouterr()
        assert printed.out == ""
        assert ("judging" in printed.err) is shown
