"""The command line of the server, without serving."""

import subprocess
import sys
from importlib import metadata

import pytest
from judged_server.__main__ import run


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit) as left:
        run(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"judged-server {metadata.version('judged')}\n"


@pytest.mark.parametrize("missing", ["uvloop", "pydantic_settings", "numpy"])
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
