"""The entry point where the extra is missing."""

import builtins
import sys

import judged.cli
import pytest
from judged.cli import __main__ as entry
from judged.cli.app import run


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


def test_ctrl_c_says_what_is_kept(monkeypatch, capsys):
    class Interrupted:
        @property
        def buffer(self):
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdin", Interrupted())
    assert run(["texts", "-", "-m", "token_f1"]) == 130
    told = capsys.readouterr().err
    assert told.startswith("\njudged: interrupted; what language models ")


def test_says_what_to_install(without, capsys):
    without("click")
    with pytest.raises(SystemExit) as left:
        entry.main()
    assert left.value.code == 2
    assert capsys.readouterr().err == (
        "judged: the command line is not installed; run: pip install 'judged[cli]'\n"
    )
