from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.integration.cli_process import fill, run_in


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a good file of every kind."""
    return fill(tmp_path)


@pytest.fixture
def judged(folder: Path, server_address: str) -> Callable[..., CompletedProcess[str]]:
    """Runs `judged` in the folder, against the server of the tests."""
    return lambda *arguments, **more: run_in(
        folder, *arguments, **{"JUDGED_TARGET": server_address, **more}
    )
