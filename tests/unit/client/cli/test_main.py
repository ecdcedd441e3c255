"""The entry point where the extra is missing."""

import builtins
import subprocess
import sys

import click
import judged.cli
import pytest
from judged.cli import __main__ as entry
from judged.cli.app import GROUP, run
from judged.cli.frame import commands_of


@pytest.fixture
def without(monkeypatch):
    """Make a module impossible to import, as if it had never been installed."""

    def hide(name):
        real = builtins.__import__
        for loaded in list(sys.modules):
            if loaded.partition(".")[0] == name or loaded.startswith("judged.cli."):
                monkeypatch.delitem(sys.modules, loaded)
            if loaded.startswith("judged.cli."):  # else `from judged.cli import agree` finds it
                monkeypatch.delattr(judged.cli, loaded.split(".")[2], raising=False)

        def refuse(module, *args, **kwargs):
            if module.partition(".")[0] == name:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            return real(module, *args, **kwargs)

        monkeypatch.setattr(builtins, "__import__", refuse)

    return hide


def test_ctrl_c_while_modules_load_leaves_no_traceback(tmp_path):
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt\n")
    path = [str(tmp_path), *sys.path]
    code = f"import sys; sys.path[:] = {path!r}; from judged.cli import __main__ as m; m.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")


def test_ctrl_c_says_what_is_kept(monkeypatch, capsys):
    class Interrupted:
        @property
        def buffer(self):
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdin", Interrupted())
    assert run(["texts", "-", "-m", "token_f1"]) == 130
    told = capsys.readouterr().err
    assert told.startswith("judged: interrupted; if it asked language models, ")
    assert told.count("\n") == 1


COMMANDS = commands_of(GROUP)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_of_one_value_is_refused_where_it_is_there_twice(command: str):
    options = [
        option
        for option in COMMANDS[command].params
        if isinstance(option, click.Option) and not option.multiple and option.name != "config"
    ]
    assert options
    for option in options:
        flag, *others = sorted({*option.opts, *option.secondary_opts}, key=len, reverse=True)
        for other in (flag, *others):
            once = [[each] if option.is_flag else [each, "1"] for each in (flag, other)]
            with pytest.raises(Exception, match=f"{flag} is there twice, and takes one value"):
                COMMANDS[command].make_context(command, [*once[0], *once[1]])


def test_says_what_to_install(without, capsys):
    without("click")
    with pytest.raises(SystemExit) as left:
        entry.main()
    assert left.value.code == 2
    assert capsys.readouterr().err == (
        "judged: the command line is not installed; run: pip install 'judged[cli]'\n"
    )
