"""The command line of the server, without serving."""

import os
import subprocess
import sys

import pytest
from judged_server.__main__ import run


@pytest.mark.parametrize("missing", ["uvloop", "pydantic", "numpy"])
def test_a_thin_install_is_told_what_to_install(missing):
    code = f"""
import runpy, sys
sys.modules[{missing!r}] = None
sys.argv = ["judged-server", "--listen", "127.0.0.1:0"]
runpy.run_module("judged_server", run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"judged-server: the server is not installed ({missing} is missing); run: pip install "
        "'judged[server]'\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--lisen", "127.0.0.1:0"], "--lisen is no setting; did you mean --listen?"),
        (["--max-gr=3"], "--max-gr is no setting; did you mean --max-groups?"),
        (["--zzz", "models", "list"], "--zzz is no setting; judged-server --help lists them"),
        (["--model", "a", "--model=b"], "--model is there twice; leave one of them out"),
    ],
)
def test_a_flag_that_is_misspelt_misplaced_or_repeated_is_named(words, said, capsys):
    assert run(words) == 2
    assert capsys.readouterr().err == f"judged-server: {said}\n"


def test_a_reader_who_has_enough_is_no_fault(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "judged_server", "--models-dir", str(tmp_path), "models", "list"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_closed_standard_streams_are_no_fault(tmp_path):
    words = "-m judged_server --listen unix:s --stop-with-stdin <&- >&- 2>&-"
    command = ["sh", "-c", f'"$0" {words}', sys.executable]
    assert subprocess.run(command, cwd=tmp_path, check=False, timeout=60).returncode == 0
