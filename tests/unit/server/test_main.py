"""The command line of the server, without serving."""

from importlib import metadata

import pytest
from judged_server.__main__ import run


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit) as left:
        run(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"judged-server {metadata.version('judged')}\n"
